"""
Groups of runs that share a budget: one row each, counted in the very transactions that write what is counted.

A group's row is at any moment the sum of what the journals of its runs say: a record and its charge are one
transaction, so no death counts one without the other, none twice. Dollars are whole billionths here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.errors import DeclarationError
from yaoki.journal._discarding import Discarding
from yaoki.records import GROUP_FIELDS, NANO, Charge, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from yaoki.journal._sqlite import Cursor, Row

__all__ = ["Groups"]

_NAME_MAX = 200

_COLUMNS = (
    "name, calls_max + calls_more, tokens_max + tokens_more, cost_nusd_max + cost_nusd_more, calls, tokens, cost_nusd,"
    " tokens_held, cost_nusd_held, freed"
)
ENSURE = "insert into grp (name) values (?) on conflict (name) do nothing"
GROUP = f"select {_COLUMNS} from grp where name = ?"  # noqa: S608 - constants
GROUPS = f"select {_COLUMNS} from grp order by name limit ?"  # noqa: S608
RUNS = "select count(*) from run where grp <> '' and grp = ?"
CHARGE = """
    update grp set calls = calls + ?2, tokens = tokens + ?3, cost_nusd = cost_nusd + ?4, tokens_held = tokens_held + ?5,
        cost_nusd_held = cost_nusd_held + ?6, freed = freed + ?7 where name = ?1 returning starved"""
STARVED = "update grp set starved = 1 where name = ?"
FED = "update grp set starved = 0 where name = ?"
FREED = "select freed from grp where name = ?"
WAKE = """
    update run set state = 'pending', wake_ms = 0, changed_ms = ?2
    where grp <> '' and grp = ?1 and waits_for = 'budget' and state in ('waiting', 'sleeping')"""
SPENT_BY_STATE = """
    select state, sum(cost_nusd) from run indexed by run_cost where cost_nusd > 0 and (?1 = '' or loop = ?1)
    group by state"""


class Groups(Discarding):
    """Budgets over all runs of a group."""

    def group(self, name: str) -> Group | None:
        """Return a group."""
        rows = self._read(GROUP, (name,))
        return _group_of(rows[0], self._one(RUNS, (name,))) if rows else None

    def groups(self, limit: int = 1_000) -> Sequence[Group]:
        """Return the groups, by name."""
        return [_group_of(row, self._one(RUNS, (row[0],))) for row in self._read(GROUPS, (limit,))]

    def spent_by_state(self, loop: str = "") -> dict[str, float]:
        """Return the dollars that the runs in each state have cost, as they were last left; from an index."""
        return {state: amount / NANO for state, amount in self._read(SPENT_BY_STATE, (loop,))}

    def set_group(self, name: str, bounds: Mapping[str, float]) -> Group:
        """
        Set bounds of a group, created if need be; what is left out stays, and so do top-ups. Synced.

        Raises:
            DeclarationError: The name is empty, over 200 characters, or not printable.
        """
        if not (0 < len(name) <= _NAME_MAX and name.isprintable()):
            raise DeclarationError(f"group {name[:40]!r}: its name has 1 to {_NAME_MAX} printable characters.")
        with self._transaction("set a group's budget") as cursor:
            cursor.execute(ENSURE, (name,))
            for field, bound in bounds.items():
                column, value = _column(field, bound)
                cursor.execute(f"update grp set {column}_max = ? where name = ?", (value, name))  # noqa: S608
            self._free(cursor, Charge(name))
        return self._told(name)

    def top_up_group(self, name: str, add: Mapping[str, float]) -> Group:
        """
        Add to bounds of a group, and let its runs go on that wait for it. Synced.

        Raises:
            DeclarationError: No such group, or one without such a bound; nothing was added.
        """
        with self._transaction("top up a group") as cursor:
            rows = cursor.execute(GROUP, (name,)).fetchall()
            if not rows:
                raise DeclarationError(f"there is no group {name!r}. See: yaoki group")
            group = _group_of(rows[0])
            for field, more in add.items():
                if getattr(group, f"{field}_max") is None:
                    flag = field.replace("_", "-")
                    msg = f"group {name} has no bound on {field}; set one: yaoki group {name} --{flag} {more:g}"
                    raise DeclarationError(msg)
                column, value = _column(field, more)
                cursor.execute(f"update grp set {column}_more = {column}_more + ? where name = ?", (value, name))  # noqa: S608
            self._free(cursor, Charge(name))
        return self._told(name)

    def freed(self, name: str) -> int:
        """Return how often something of a group's budget has come back."""
        return self._one(FREED, (name,)) or 0

    def _told(self, name: str) -> Group:
        self._stirred = True
        self._barrier.wait()
        return _group_of(self._read(GROUP, (name,))[0], self._one(RUNS, (name,)))

    def _charge(self, cursor: Cursor, charge: Charge) -> None:
        """Count what was written in the transaction under way; what comes back wakes those that wait for it."""
        if charge.frees:
            self._free(cursor, charge)
        else:
            cursor.execute(CHARGE, (*charge, 0))

    def _free(self, cursor: Cursor, charge: Charge) -> None:
        starved = cursor.execute(CHARGE, (*charge, 1)).fetchall()
        if starved and starved[0][0]:
            cursor.execute(FED, (charge.group,))
            cursor.execute(WAKE, (charge.group, self._clock.now_ms()))
            self._stirred = True

    def _admitted(self, cursor: Cursor, charge: Charge, admits: Callable[[Group], bool]) -> bool:
        """Ask whether a charge may be made, in the transaction that makes it; one that may not is waited for."""
        rows = cursor.execute(GROUP, (charge.group,)).fetchall()
        if admits(_group_of(rows[0])):
            return True
        cursor.execute(STARVED, (charge.group,))
        return False


def _column(field: str, amount: float) -> tuple[str, int]:
    """Return where a field stands, and its amount as it stands there."""
    if field not in GROUP_FIELDS:
        raise DeclarationError(f"a group has no budget of {field!r}. Use one of: {', '.join(GROUP_FIELDS)}.")
    return ("cost_nusd", round(amount * NANO)) if field == "cost_usd" else (field, int(amount))


def _group_of(row: Row, runs: int = 0) -> Group:
    name, calls_max, tokens_max, cost_max, calls, tokens, cost, tokens_held, cost_held, freed = row
    return Group(
        name=name,
        calls_max=calls_max,
        tokens_max=tokens_max,
        cost_usd_max=None if cost_max is None else cost_max / NANO,
        calls=calls,
        tokens=tokens,
        cost_usd=cost / NANO,
        tokens_held=tokens_held,
        cost_usd_held=cost_held / NANO,
        freed=freed,
        runs=runs,
    )
