"""Many workers on one store: runs taken in batches, and who is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.journal._owning import Owning
from yaoki.journal._rows import WorkerRow
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from yaoki.journal._rows import Claim, RunRow
    from yaoki.journal._sqlite import Row

__all__ = ["Fleet"]

# One loop at a time: only so do the indexes give the rows in order, without a sort of all that wait.
PENDING = "select id from run where state = 'pending' and loop = ? order by id limit ?"
WAKING = """
    select id, wake_ms from run indexed by run_wake where loop = ? and wake_ms > 0 and wake_ms <= ? order by wake_ms
    limit ?"""
NEXT_WAKE = "select min(wake_ms) from run indexed by run_wake where loop = ? and wake_ms > 0"
FOR_CODE = "select id, waits_for from run where state = 'waiting' and loop = ? order by id"
# From one owner to the next, however many runs each of them drives.
OWNERS = """
    with recursive owners (owner) as (
        select min(owner) from run indexed by run_owner where owner <> 0 and owner > 0
        union all
        select (select min(owner) from run indexed by run_owner where owner <> 0 and owner > owners.owner)
        from owners where owner is not null)
    select owner from owners where owner is not null"""
LEFT_BY = "select id, loop, state from run indexed by run_owner where owner <> 0 and owner = ? order by id limit ?"
WORKERS = """
    select w.id, w.pid, w.host, w.mark, w.started_ms, w.ended_ms, w.stop_ms,
        (select count(*) from run indexed by run_owner where owner <> 0 and owner = w.id)
    from worker w where ended_ms = 0 or id in (select owner from run where owner <> 0) order by id limit 1000"""
WORKER = """
    select w.id, w.pid, w.host, w.mark, w.started_ms, w.ended_ms, w.stop_ms,
        (select count(*) from run indexed by run_owner where owner <> 0 and owner = w.id)
    from worker w where id = ?"""
STOP = "update worker set stop_ms = ? where id = ? and stop_ms = 0"

_LEFT_MAX = 1_000
"""More than this a worker does not drive at once."""


class Fleet(Owning):
    """Batches of claims, and what one worker may know of the others."""

    def claim_many(self, limit: int, *, loops: Collection[str], without: Collection[int] = ()) -> list[Claim]:
        """
        Take up to `limit` runs of these loops that can go on now, in one transaction; none while the brake is on.

        First what a death left, then what is due (longest due first), then what is pending (oldest run first): what was
        begun ends before more is begun. Where there is nothing to take, nothing is locked. Costs O(taken), however
        many sleep.

        Args:
            limit: How many; the free slots of the caller, so that nobody hoards.
            loops: By name.
            without: Runs by number that are left to others: the caller could not drive them.

        Raises:
            ValueError: This journal was opened without a worker.
        """
        if not self.worker:
            raise ValueError("a journal opened with worker=False cannot claim a run")
        if limit <= 0 or self.paused() is not None:
            return []
        now_ms = self._clock.now_ms()
        candidates = [one for one in self._candidates(limit + len(without), loops, now_ms) if one not in without]
        if not candidates:
            return []
        taken: list[Claim] = []
        with self._transaction("claim runs") as cursor:
            if self.paused() is not None:
                return []
            for number in candidates[:limit]:
                row = self._row_if_any(number)
                if row is not None and self._claimable(row, loops, now_ms):
                    taken.append(self._take(cursor, row))
        return taken

    def next_wake(self, loops: Collection[str]) -> int:
        """Return when the next of these loops' sleeping (or waiting, until an expiry) runs is due; 0 is never."""
        found = [wake_ms for loop in loops if (wake_ms := self._one(NEXT_WAKE, (loop,)))]
        return min(found, default=0)

    def waiting_for_code(self, loops: Collection[str]) -> list[int]:
        """Return the runs, by number, that wait for other code than they last met."""
        return [number for loop in loops for number, waits_for in self._read(FOR_CODE, (loop,)) if waits_for == "code"]

    def _candidates(self, limit: int, loops: Collection[str], now_ms: int) -> list[int]:
        due = [(wake_ms, number) for loop in loops for number, wake_ms in self._read(WAKING, (loop, now_ms, limit))]
        found = [*self._left_by_deaths(limit, loops), *(number for _, number in sorted(due))]
        for loop in loops:
            found.extend(number for (number,) in self._read(PENDING, (loop, limit)))
        return found

    def _left_by_deaths(self, limit: int, loops: Collection[str]) -> list[int]:
        found: list[int] = []
        for (owner,) in self._read(OWNERS):
            if owner == self.worker or self._locks.alive(owner):
                continue
            for number, loop, state in self._read(LEFT_BY, (owner, _LEFT_MAX)):
                if loop in loops and state == State.RUNNING.value:
                    found.append(number)
        return found[:limit]

    def _claimable(self, row: RunRow, loops: Collection[str], now_ms: int) -> bool:
        """Return whether the run can still go on, seen in the transaction that takes it."""
        if row.loop not in loops or (row.owner and self.driven(row)):
            return False
        if row.state in (State.SLEEPING, State.WAITING):
            return 0 < row.wake_ms <= now_ms
        return row.state in (State.PENDING, State.RUNNING)

    def _row_if_any(self, number: int) -> RunRow | None:
        rows = self._rows([number])
        return rows[0] if rows else None

    # --- workers

    def workers(self) -> list[WorkerRow]:
        """Return the workers that have not taken leave, the living and the dead, at most 1,000."""
        return list(map(self._worker_of, self._read(WORKERS)))

    def owner(self, row: RunRow) -> WorkerRow | None:
        """Return the worker that drives a run, or left it by its death."""
        return self.worker_row(row.owner) if row.owner else None

    def worker_row(self, worker: int) -> WorkerRow | None:
        """Return a worker by its number, if the store still knows it."""
        rows = self._read(WORKER, (worker,))
        return self._worker_of(rows[0]) if rows else None

    def held_by(self, worker: int, pid: int) -> bool:
        """Whether the process of that number here is the worker: another container's, or one long dead, is not."""
        return self._locks.held_by(worker, pid)

    def stopping(self, workers: Iterable[int]) -> None:
        """
        Note that these workers were ordered to stop: should they be killed from now on, that is no crash.

        Written, not synced: power loss ends them all the same, and costs a count.
        """
        now_ms = self._clock.now_ms()
        with self._transaction("order a worker to stop") as cursor:
            cursor.executemany(STOP, [(now_ms, worker) for worker in workers])

    def _worker_of(self, values: Row) -> WorkerRow:
        number, pid, host, mark, started_ms, ended_ms, stop_ms, runs = values
        alive = number == self.worker or self._locks.alive(number)
        return WorkerRow(number, pid, host, mark, started_ms, ended_ms, stop_ms, alive, runs)
