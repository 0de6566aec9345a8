"""Who drives a run: claims, and what others may learn of the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.errors import RunBusy
from yaoki.journal._reading import Reading
from yaoki.journal._rows import Claim
from yaoki.records import State

if TYPE_CHECKING:
    from yaoki.journal._rows import RunRow

__all__ = ["Owning"]

CLAIM = """
    update run set epoch = epoch + 1, owner = ?2, state = 'running', wake_ms = 0, waits_for = '', changed_ms = ?3,
        deaths = deaths + ?4, started_ms = iif(started_ms = 0, ?3, started_ms)
    where id = ?1"""
REGISTER = "insert into worker (pid, host, started_ms) values (?, ?, ?) returning id"
FINISH = "update worker set ended_ms = ? where id = ?"
OLD_WORKERS = """
    select id from worker where id < ? and not exists (select 1 from run where owner <> 0 and owner = worker.id)
    order by id limit 100"""
WORKER_PID = "select pid from worker where id = ?"
LAST_POST = """
    select id & 0xffffffff from journal where id between (?1 << 32) | 0x80000000 and (?1 << 32) | 0xffffffff
    order by id desc limit 1"""


class Owning(Reading):
    """Claims, tested against the operating system's own word on who is alive."""

    def claim(self, run: int) -> Claim:
        """
        Take a run: test its owner's death, raise the epoch and set the owner, in one transaction.

        From then on every append of an earlier owner is fenced. The claim is written, not synced: the begin
        of the first effect syncs it.

        Raises:
            RunBusy: A living worker drives it; this one included.
            ValueError: The run is final, or this journal was opened without a worker.
        """
        if not self.worker:
            raise ValueError("a journal opened with worker=False cannot claim a run")
        with self._transaction("claim a run") as cursor:
            row = self._row(run)
            if row.state.final:
                raise ValueError(f"run {row.name} is {row.state.value}: only a redrive takes it up again")
            died = self._owner_died(row)
            cursor.execute(CLAIM, (run, self.worker, self._clock.now_ms(), int(died)))
            after = self._row(run)
            seen = self._last_post(run)
        self._claimed_posts[run] = seen
        return Claim(after, died)

    def driven(self, row: RunRow) -> bool:
        """Whether a living worker drives the run; a run left `running` by a death is driven by nobody."""
        return row.owner != 0 and (row.owner == self.worker or self._locks.alive(row.owner))

    def _owner_died(self, row: RunRow) -> bool:
        """Return whether the run was left by a death; refuse if its owner lives."""
        if not row.owner:
            return False
        if self.driven(row):
            raise self._busy(row)
        return row.state is State.RUNNING

    def _busy(self, row: RunRow) -> RunBusy:
        pid = self._one(WORKER_PID, (row.owner,))
        for_s = max(0, self._clock.now_ms() - row.changed_ms) // 1000
        return RunBusy(
            f"run {row.name}: driven by worker {row.owner} (pid {pid}) for {for_s} s. "
            "Wait for it, or stop that process first; nothing was changed.",
            row.name,
        )

    def _last_post(self, run: int) -> int:
        """Return the seq of the newest post, 0 without one."""
        return self._one(LAST_POST, (run,)) or 0

    def _register(self, pid: int, host: str) -> None:
        """Become a worker. The lock is taken before the row is seen, so nobody ever sees it dead."""
        with self._transaction("register a worker") as cursor:
            number: int = cursor.execute(REGISTER, (pid, host, self._clock.now_ms())).get
            self._locks.hold(number)
            old = cursor.execute(OLD_WORKERS, (number,)).fetchall()
            cursor.executemany("delete from worker where id = ?", [(i,) for (i,) in old if not self._locks.alive(i)])
        self.worker = number
