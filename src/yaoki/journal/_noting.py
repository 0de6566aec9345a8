"""Who is told of what: targets, and the outbox `notable` that a trigger fills as runs change their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from yaoki.journal._codec import POSTS
from yaoki.journal._discarding import Discarding

if TYPE_CHECKING:
    from yaoki.journal._sqlite import Row

__all__ = ["Notable", "Noting", "Target"]

TARGET_COLUMNS = (
    "id, name, shown, upto, sending, sender, beat_ms, minute_ms, sent, failures, failing_ms, error, lost, lost_ms"
)
TARGET = f"select {TARGET_COLUMNS} from target where name = ?"  # noqa: S608 - constants
TARGETS = f"select {TARGET_COLUMNS} from target order by id limit 100"  # noqa: S608
ADD = """
    insert into target (name, shown, added_ms, beat_ms) values (?1, ?2, ?3, ?3)"""
# What ended before anybody wanted to be told is no news; what waits for somebody still does.
STANDING = """
    insert into notable (run, epoch, what, subject, note, at_ms)
    select id, epoch, 'waiting', waits_for, note, changed_ms from run where state = 'waiting' order by id limit 1000"""
NOTE = """
    insert into notable (run, epoch, what, subject, note, at_ms) select ?1, ?2, ?3, ?4, ?5, ?6
    where exists (select 1 from target)
        and not exists (select 1 from notable where run = ?1 and what = ?3 and subject = ?4 and at_ms > ?7)"""
AFTER = """
    select id, run, epoch, what, subject, note, at_ms from notable where id > ?1 and id <= ?2 order by id limit ?3"""
BEFORE = """
    select id, run, epoch, what, subject, note, at_ms from notable where run = ?1 and id < ?2
    order by id desc limit 1"""
TOLD_ASKS = "select asks from told where run = ?1 and target = ?2"
ASKED = "select count(*) from journal where id between ?1 and ?2 and kind = 7"
TAKE = "update target set sender = ?2, beat_ms = ?3 where id = ?1"
SENDING = "update target set sending = ?2, minute_ms = ?3, sent = ?4 where id = ?1"
ARRIVED = "update target set upto = ?2, sending = 0, failures = 0, failing_ms = 0, error = '' where id = ?1"
FAILED = """
    update target set failures = failures + 1, error = ?2, failing_ms = iif(failing_ms = 0, ?3, failing_ms)
    where id = ?1"""
GIVEN_UP = """
    update target set upto = ?2, sending = 0, failures = 0, lost = lost + ?3, lost_ms = ?4 where id = ?1"""
NOTE_ASKS = """
    insert into told (run, target, asks) values (?1, ?2, ?3) on conflict do update set asks = excluded.asks"""
FORGET = "delete from notable where at_ms < ?1"
FORGET_TOLD = "delete from told where not exists (select 1 from notable where notable.run = told.run)"
FORGET_TARGETS = "delete from target where beat_ms < ?1"

LEASE_MS = 60_000
"""A sender that has shown no sign of life for so long is taken over, alive or not."""
_BEAT_MS = 15_000
_DAY_MS = 86_400_000
_KEPT_MS = 30 * _DAY_MS
"""How long the outbox keeps things, and a target that nobody uses any more."""
_NOTE_MAX = 500


class Notable(Struct, frozen=True):
    """Something to tell: a run's change of state, or a thing about no run (`run` is 0)."""

    id: int
    run: int
    epoch: int
    what: str
    subject: str
    note: str
    at_ms: int


class Target(Struct, frozen=True):
    """Where notices go, and how that goes. Times are milliseconds UTC, 0 is none."""

    id: int
    name: str
    shown: str
    upto: int
    sending: int
    sender: int
    beat_ms: int
    minute_ms: int
    sent: int
    """Messages sent in the minute that began at `minute_ms`."""
    failures: int
    failing_ms: int
    error: str
    lost: int
    """Things it was not told of: given up on."""
    lost_ms: int


class Noting(Discarding):
    """
    Targets and the outbox.

    A target has a cursor into the outbox, and one sender at a time. The range of a message is written before it is
    sent, and the cursor moves once it has arrived: a death in between sends the same range again.
    """

    def add_target(self, name: str, shown: str) -> Target:
        """Return the target of that name; the first of a store is told of every run that waits already."""
        found = self.target(name)
        if found is None:
            with self._transaction("add a target") as cursor:
                known = cursor.execute(TARGETS).fetchall()
                if not any(row[1] == name for row in known):
                    cursor.execute(ADD, (name, shown, self._clock.now_ms()))
                if not known:
                    cursor.execute(STANDING)
            found = self.target(name)
        assert found is not None  # noqa: S101 - just made
        return found

    def target(self, name: str) -> Target | None:
        """Return a target by its name."""
        rows = self._read(TARGET, (name,))
        return Target(*rows[0]) if rows else None

    def targets(self) -> list[Target]:
        """Return every target, at most 100."""
        return [Target(*row) for row in self._read(TARGETS)]

    def take_target(self, target: Target, worker: int) -> bool:
        """
        Become, or stay, the one that tells a target; return whether this worker is.

        A dead sender is taken over at once, one that is hung after a minute.
        """
        now_ms = self._clock.now_ms()
        if target.sender == worker and now_ms - target.beat_ms < _BEAT_MS:
            return True
        if not self._may_take(target, worker, now_ms):
            return False
        with self._transaction("take a target") as cursor:
            current = self.target(target.name)
            if current is None or not self._may_take(current, worker, now_ms):
                return False
            cursor.execute(TAKE, (target.id, worker, now_ms))
            if target.sender != worker or now_ms // _DAY_MS != current.beat_ms // _DAY_MS:
                cursor.execute(FORGET, (now_ms - _KEPT_MS,))
                cursor.execute(FORGET_TOLD)
                cursor.execute(FORGET_TARGETS, (now_ms - _KEPT_MS,))
        return True

    def _may_take(self, target: Target, worker: int, now_ms: int) -> bool:
        if target.sender in (0, worker) or now_ms - target.beat_ms >= LEASE_MS:
            return True
        return not self._locks.alive(target.sender)

    def note(
        self, what: str, *, run: int = 0, epoch: int = 0, subject: str = "", note: str = "", quiet_ms: int
    ) -> bool:
        """
        Put something into the outbox that no state of a run says; return whether it is news.

        The same (what, subject) within `quiet_ms` is none. Written, not synced.
        """
        now_ms = self._clock.now_ms()
        with self._transaction("note something") as cursor:
            cursor.execute(NOTE, (run, epoch, what, subject, note[:_NOTE_MAX], now_ms, now_ms - quiet_ms))
            return self._connection.changes() > 0

    def notable(self, after: int, limit: int, upto: int = (1 << 62)) -> list[Notable]:
        """Return what came after a cursor, in the order it came."""
        return [_notable(row) for row in self._read(AFTER, (after, upto, limit))]

    def notable_before(self, one: Notable) -> Notable | None:
        """Return what was noted of the same run before."""
        rows = self._read(BEFORE, (one.run, one.id))
        return _notable(rows[0]) if rows else None

    def asked(self, run: int) -> int:
        """Return how many questions a run has asked so far."""
        count: int = self._one(ASKED, (run << 32, run << 32 | (POSTS - 1)))
        return count

    def asks_told(self, target: Target, run: int) -> int:
        """Return how many of a run's questions a target was told of."""
        return self._one(TOLD_ASKS, (run, target.id)) or 0

    def sending(self, target: Target, upto: int, *, minute_ms: int, sent: int) -> None:
        """Write what the message under way covers: from the cursor up to there."""
        with self._transaction("send a notice") as cursor:
            cursor.execute(SENDING, (target.id, upto, minute_ms, sent))

    def arrived(self, target: Target, upto: int, asks: dict[int, int]) -> None:
        """Move the cursor; `asks` says, by run, of how many questions it was told."""
        with self._transaction("note what was told") as cursor:
            cursor.executemany(NOTE_ASKS, [(run, target.id, count) for run, count in asks.items()])
            cursor.execute(ARRIVED, (target.id, upto))
        self._barrier.mark()

    def not_sent(self, target: Target, error: str) -> None:
        """Note that the message under way failed."""
        with self._transaction("note a failed notice") as cursor:
            cursor.execute(FAILED, (target.id, error[:_NOTE_MAX], self._clock.now_ms()))

    def give_up(self, target: Target, upto: int, lost: int) -> None:
        """Move the cursor past what could not be told, and count it."""
        with self._transaction("give up on a notice") as cursor:
            cursor.execute(GIVEN_UP, (target.id, upto, lost, self._clock.now_ms()))
        self._barrier.mark()


def _notable(row: Row) -> Notable:
    return Notable(*row)
