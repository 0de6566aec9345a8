"""Scopes in the store: breakers, cooldowns and scopes paused by people, read and written with the records they rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import apsw
import msgspec

from yaoki.errors import Fenced
from yaoki.journal._codec import encode
from yaoki.journal._fleet import Fleet
from yaoki.journal._rows import Brake
from yaoki.records import Circuit, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from yaoki.journal._sqlite import Cursor
    from yaoki.records import Record

__all__ = ["APPEND", "NO_SCOPES", "Change", "ScopeView", "Scoping", "fenced"]

# Fenced: no row is inserted unless the epoch is still ours and we have not left the run.
APPEND = """
    insert into journal select (?2 << 32) | ?3, ?4, ?5, ?6 from run where id = ?2 and epoch = ?1 and owner <> 0"""
GENERATION = "select generation from scoping where id = 1"
CIRCUITS = """
    select name, failures, opened_ms, until_ms, cool_ms, reason, probe_worker, probe_run, probe_step, probe_until_ms
    from scope order by changed_ms desc limit ?"""
PAUSED = "select scope, by, at_ms from brake where scope <> ''"
# Not inserted either if any scope has changed since the caller looked.
APPEND_IF = """
    insert into journal select (?2 << 32) | ?3, ?4, ?5, ?6 from run
    where id = ?2 and epoch = ?1 and owner <> 0 and (select generation from scoping where id = 1) = ?7"""
KEEP = """
    insert into scope (name, failures, opened_ms, until_ms, cool_ms, reason, probe_worker, probe_run, probe_step,
        probe_until_ms, changed_ms)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    on conflict (name) do update set failures = ?2, opened_ms = ?3, until_ms = ?4, cool_ms = ?5, reason = ?6,
        probe_worker = ?7, probe_run = ?8, probe_step = ?9, probe_until_ms = ?10, changed_ms = ?11"""
DROP = "delete from scope where name = ?"
FORGET = """
    delete from scope where (opened_ms = 0 and cool_ms < ?1 and changed_ms < ?1 - 86400000)
        or name in (select name from scope order by opened_ms > 0, changed_ms
            limit max(0, (select count(*) from scope) - ?2))"""
BRAKE_ON = "insert into brake (scope, by, at_ms) values (?, ?, ?) on conflict (scope) do nothing"
BRAKE_OFF = "delete from brake where scope = ?"
WAKE_PAUSED = """
    update run set state = 'pending', wake_ms = 0, changed_ms = ?1
    where state in ('waiting', 'sleeping') and waits_for = 'pause'"""
_FIELDS = tuple(field.name for field in msgspec.structs.fields(Circuit))
SCOPES_MAX = 1_000
"""More scopes that are not well are not remembered: the closed ones that changed longest ago are forgotten first."""


class ScopeView(NamedTuple):
    """All scopes that are not well, and all that a person has paused, at one moment of the store."""

    generation: int
    circuits: Mapping[str, Circuit]
    paused: Mapping[str, Brake]


Change: TypeAlias = "Callable[[ScopeView], Sequence[Circuit] | None]"
"""Says, in a transaction, which circuits become others, in full; None refuses what would be written."""
NO_SCOPES = ScopeView(-1, {}, {})
"""Before the first look: no generation of a store is like this one."""


class Scoping(Fleet):
    """
    Appends that stand in one transaction with what they mean for a scope, and the scopes themselves.

    A view is read again only when the store's generation says that a scope or a brake has changed, so a store in
    which all is well costs an append no more than a comparison.
    """

    seen_scopes: ScopeView = NO_SCOPES
    """As this object last read them; `scopes` brings it up to date."""
    all_well: bool = False
    """Whether `seen_scopes` holds nothing: asked before nearly every record."""

    def scopes(self) -> ScopeView:
        """Return the scopes as they are now; what has not changed is not read again."""
        generation: int = self._one(GENERATION)
        if generation != self.seen_scopes.generation:
            # What is read may be newer than its number, never older: the next comparison reads it again.
            circuits = [Circuit(**dict(zip(_FIELDS, row, strict=True))) for row in self._read(CIRCUITS, (SCOPES_MAX,))]
            brakes = [Brake(*row) for row in self._read(PAUSED)]
            by_scope = {one.scope: one for one in circuits}
            self.seen_scopes = ScopeView(generation, by_scope, {brake.scope: brake for brake in brakes})
            self.all_well = not circuits and not brakes
        return self.seen_scopes

    def lives(self, worker: int) -> bool:
        """Whether a worker lives; one of this very process included."""
        return worker == self.worker or self._locks.alive(worker)

    def append_if(self, run: int, epoch: int, seq: int, key: str, record: Record) -> bool:
        """
        Append one record if no scope has changed since `seen_scopes`, in one statement; return whether it was.

        Raises:
            Fenced: As for `append`.
        """
        if self.failed is not None:
            self._refuse_failed()
        body = encode(record)
        generation = self.seen_scopes.generation
        try:
            with self._lock:
                self._cursor.execute(APPEND_IF, (epoch, run, seq, kind_of(record), key, body, generation))
                inserted = self._connection.changes()
        except apsw.Error as error:
            raise self._broken(error, "append to the journal") from error
        if not inserted and self._one(GENERATION) == generation:
            raise fenced(run, epoch)
        return bool(inserted)

    def _append_all(self, run: int, epoch: int, seq: int, items: Sequence[tuple[str, Record]]) -> None:
        for i, (key, record) in enumerate(items):
            self._cursor.execute(APPEND, (epoch, run, seq + i, kind_of(record), key, encode(record)))
            if not self._connection.changes():
                raise fenced(run, epoch)

    def _keep(self, cursor: Cursor, one: Circuit, now_ms: int) -> None:
        if one.well and one.cool_ms <= now_ms:
            cursor.execute(DROP, (one.scope,))
            return
        if one.scope not in self.seen_scopes.circuits:
            cursor.execute(FORGET, (now_ms, SCOPES_MAX - 1))
        cursor.execute(KEEP, (*(getattr(one, name) for name in _FIELDS), now_ms))

    # --- by hand

    def reset_scope(self, scope: str) -> Circuit | None:
        """Forget what is known of a scope, its breaker and its cooldown; return what it was. Synced."""
        with self._transaction("reset a scope") as cursor:
            was = self.scopes().circuits.get(scope)
            cursor.execute(DROP, (scope,))
        self._stirred = True
        self._barrier.wait()
        return was

    def pause(self, by: str = "", *, scope: str = "") -> None:
        """
        Put the brake on a scope, or on everything: synced when it returns.

        Everything: nothing is claimed, and what is driven drains within a second. A scope: no attempt begins there.
        """
        with self._transaction("put the brake on") as cursor:
            cursor.execute(BRAKE_ON, (scope, by, self._clock.now_ms()))
        self._stirred = True
        self._barrier.wait()

    def unpause(self, *, scope: str = "") -> bool:
        """Take a brake off; return whether it was on. Runs that wait for a scope look again. Synced."""
        with self._transaction("take the brake off") as cursor:
            cursor.execute(BRAKE_OFF, (scope,))
            was_on = self._connection.changes() > 0
            if scope:
                cursor.execute(WAKE_PAUSED, (self._clock.now_ms(),))
        self._stirred = True
        self._barrier.wait()
        return was_on


def fenced(run: int, epoch: int) -> Fenced:
    """Return what a driver is told whose claim is gone."""
    return Fenced(f"run number {run}: no longer held under epoch {epoch}")
