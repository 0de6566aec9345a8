"""
A store looked at as a whole: how many runs are where, and the few that somebody should see.

Counts come from an index and only the rows that are shown are read, so a hundred thousand runs take well under
a second. What rows do not say (who asks, whose process died) is looked up for at most a few hundred of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from yaoki.cli._picture import GROUPS, Group, Picture, group_of
from yaoki.cli._store import living
from yaoki.policy import Ask
from yaoki.records import State
from yaoki.runtime._moves import open_asks
from yaoki.runtime._report import light_receipt

if TYPE_CHECKING:
    from yaoki.cli._views_text import Now
    from yaoki.journal import Journal, RunRow
    from yaoki.runtime import Runner
    from yaoki.runtime._receipt import Receipt

__all__ = ["survey"]

_READ_MAX = 100
"""Journals read for a question that no row tells of: of runs under way, of pending ones, of those that ended lately."""
_RUNNING_MAX = 2_000
_GROUPS_MAX = 20
_LATE_MS = 5_000
"""A process that stays with a sleeping run, or serves its loop, takes it up within this time of its waking."""
_ENDED = (State.COMPLETED, State.CAPPED, State.DEAD, State.CANCELLED)


def survey(verbs: Runner, now: Now, *, loop: str = "", status: str = "", limit: int) -> Picture:
    """Return the picture of a store, or of one loop's runs: of each group at most `limit` rows, or those of a state."""
    look = _Look(verbs, now, loop, limit)
    picture = look.picture()
    if status and status not in GROUPS:
        rows = look.rows_of(State(status))
        picture.chosen = Group(name=status, count=look.counts[State(status)], shown=rows)
    elif status:
        picture.chosen = picture.groups[status]
        if not picture.chosen.shown:
            picture.chosen.shown = look.rows_in(status, picture)
    return picture


class _Look:
    def __init__(self, verbs: Runner, now: Now, loop: str, limit: int) -> None:
        self._verbs = verbs
        self._journal: Journal = verbs.store
        self._now = now
        self._loop = loop
        self._limit = limit
        self.counts: Counter[State] = Counter()
        for (name, state), count in self._journal.counts().items():
            if loop in ("", name):
                self.counts[state] += count

    def picture(self) -> Picture:
        """Return the groups with their counts, and the rows of those somebody should look at."""
        journal, loop = self._journal, self._loop
        workers = living(journal)
        running = journal.list(states=(State.RUNNING,), loop=loop, limit=_RUNNING_MAX)
        died = [row for row in running if not journal.driven(row)]
        late, overdue = journal.overdue(self._now.now_ms - _LATE_MS, self._limit, loop=loop)
        first = journal.first_asleep(self._now.now_ms - _LATE_MS, loop=loop)
        picture = Picture(
            groups={name: Group(name=name) for name in GROUPS},
            loop=loop,
            brake=journal.paused(),
            targets=journal.targets(),
            workers=workers,
            died=frozenset(row.name for row in died),
            first_asleep=light_receipt(first) if first is not None else None,
            shared=() if loop else journal.groups(_GROUPS_MAX),
        )
        costs = journal.spent_by_state(loop)
        picture.cost_usd = sum(costs.get(state.value, 0.0) for state in _ENDED if state is not State.DEAD)
        for row in journal.list(states=(State.PENDING,), loop=loop, limit=1):
            picture.pending_since = row.changed_ms
        self._asking(picture, [row for row in running if journal.driven(row)])
        asking = Counter(one.status for one in picture.groups["needs-you"].shown)
        left = died + overdue if workers else died + overdue + self._page(State.PENDING)
        self._put(picture, "left", left)
        self._count(picture, asking, died=len(died), late=late)
        dead = journal.latest_ended((State.DEAD,), self._limit, loop=loop)
        self._put(picture, "dead", [row for row in dead if row.name not in picture.asking])
        return picture

    def _asking(self, picture: Picture, driven: list[RunRow]) -> None:
        """Fill the group of those that need somebody: waiting, or moving with a question open, or ended with one."""
        journal, loop = self._journal, self._loop
        group = picture.groups["needs-you"]
        waiting = journal.longest_waiting(self._limit, loop=loop)
        asleep = journal.asleep_for_somebody(self._limit, loop=loop)
        group.shown = [light_receipt(row) for row in [*waiting, *asleep]]
        answerable_ms = self._now.now_ms - int(Ask().expires_s * 1000)
        ended = [row for row in journal.latest_ended(_ENDED, _READ_MAX, loop=loop) if row.ended_ms > answerable_ms]
        pending = journal.list(states=(State.PENDING,), loop=loop, limit=_READ_MAX)
        for row in [*driven[:_READ_MAX], *(row for row in pending if row.started_ms), *ended]:
            receipt = self._verbs.get(row.name)
            asked = next(iter(open_asks(receipt, self._now.now_ms)), None)
            if asked is not None:
                receipt.text, receipt.waiting_since = asked.text, asked.asked_at
                picture.asking[row.name] = asked.text
                group.shown.append(receipt)
        group.shown.sort(key=lambda one: one.waiting_since or one.ended_at or one.started_at)
        others = sum(one.status is not State.WAITING for one in group.shown)
        group.count = self.counts[State.WAITING] + others
        group.shown = group.shown[: self._limit]

    def _count(self, picture: Picture, asking: Counter[State], *, died: int, late: int) -> None:
        """Share the counts out among the groups, each run in one."""
        counts = self.counts
        pending = counts[State.PENDING] - asking[State.PENDING]
        left = {State.RUNNING: died, State.SLEEPING: late}
        active = {
            State.RUNNING: counts[State.RUNNING] - died - asking[State.RUNNING],
            State.SLEEPING: counts[State.SLEEPING] - late - asking[State.SLEEPING],
        }
        (active if picture.workers else left)[State.PENDING] = pending
        done = {state: counts[state] - asking[state] for state in _ENDED if state is not State.DEAD}
        dead = {State.DEAD: counts[State.DEAD] - asking[State.DEAD]}
        for name, parts in (("left", left), ("active", active), ("done", done), ("dead", dead)):
            group = picture.groups[name]
            group.parts = {state: count for state, count in parts.items() if count > 0}
            group.count = sum(group.parts.values())

    def rows_in(self, group: str, picture: Picture) -> list[Receipt[Any]]:
        """Return rows of a group that the picture only counts."""
        states = (State.RUNNING, State.SLEEPING, State.PENDING) if group == "active" else _ENDED
        found = [one for state in states for one in self.rows_of(state)]
        return [one for one in found if group_of(one, picture, self._now) == group][: self._limit]

    def rows_of(self, state: State) -> list[Receipt[Any]]:
        """Return runs in a state: the last to end first, the longest waiting first, else in the order they came."""
        if state.final:
            rows = self._journal.latest_ended((state,), self._limit, loop=self._loop)
        elif state is State.WAITING:
            rows = self._journal.longest_waiting(self._limit, loop=self._loop)
        else:
            rows = self._page(state)
        return [light_receipt(row) for row in rows]

    def _page(self, state: State) -> list[RunRow]:
        return self._journal.list(states=(state,), loop=self._loop, limit=self._limit)

    def _put(self, picture: Picture, name: str, rows: list[RunRow]) -> None:
        fresh = [row for row in rows if row.name not in picture.asking]
        picture.groups[name].shown = [light_receipt(row) for row in fresh[: self._limit]]
