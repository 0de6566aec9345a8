"""Who drives a run: claims, and what others may learn of the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.errors import Paused, RunBusy
from yaoki.journal._rows import COLUMNS, Brake, Claim, row_of
from yaoki.journal._surveying import Surveying
from yaoki.records import State

if TYPE_CHECKING:
    from yaoki.journal._rows import RunRow
    from yaoki.journal._sqlite import Cursor

__all__ = ["Owning"]

CLAIM = f"""
    update run set epoch = epoch + 1, owner = ?2, state = 'running', wake_ms = 0, waits_for = '', changed_ms = ?3,
        deaths = deaths + ?4, started_ms = iif(started_ms = 0, ?3, started_ms)
    where id = ?1 returning {COLUMNS}"""  # noqa: S608 - constants
RELEASE = """
    update run set state = 'pending', owner = 0, note = ?3, changed_ms = ?4
    where id = ?1 and epoch = ?2 and owner <> 0"""
REGISTER = "insert into worker (pid, host, mark, started_ms) values (?, ?, ?, ?) returning id"
FINISH = "update worker set ended_ms = ? where id = ?"
OLD_WORKERS = """
    select id from worker where id < ? and not exists (select 1 from run where owner <> 0 and owner = worker.id)
    order by id limit 100"""
WORKER_PID = "select pid from worker where id = ?"
ORDERED = "select stop_ms <> 0 from worker where id = ?"
BRAKE = "select scope, by, at_ms from brake where scope = ''"
LAST_POST = """
    select id & 0xffffffff from journal where id between (?1 << 32) | 0x80000000 and (?1 << 32) | 0xffffffff
    order by id desc limit 1"""


class Owning(Surveying):
    """Claims, tested against the operating system's own word on who is alive."""

    def claim(self, run: int) -> Claim:
        """
        Take a run: test its owner's death, raise the epoch and set the owner, in one transaction.

        From then on every append of an earlier owner is fenced. The claim is written, not synced: the begin
        of the first effect syncs it.

        Raises:
            RunBusy: A living worker drives it; this one included.
            Paused: The brake is on.
            ValueError: The run is final, or this journal was opened without a worker.
        """
        if not self.worker:
            raise ValueError("a journal opened with worker=False cannot claim a run")
        with self._transaction("claim a run") as cursor:
            self._refuse_braked()
            row = self._row(run)
            if row.state.final:
                raise ValueError(f"run {row.name} is {row.state.value}: only a redrive takes it up again")
            return self._take(cursor, row)

    def release(self, run: int, epoch: int, *, note: str) -> None:
        """Let a run go that could not be taken up: pending, with a line for people; nothing is recorded in it."""
        with self._transaction("let a run go") as cursor:
            cursor.execute(RELEASE, (run, epoch, note[:500], self._clock.now_ms()))

    def paused(self) -> Brake | None:
        """Return the brake, if it is on: nothing is claimed, and drivers begin nothing more."""
        rows = self._read(BRAKE)
        return Brake(*rows[0]) if rows else None

    def driven(self, row: RunRow) -> bool:
        """Whether a living worker drives the run; a run left `running` by a death is driven by nobody."""
        return row.owner != 0 and (row.owner == self.worker or self._locks.alive(row.owner))

    def _refuse_braked(self) -> None:
        brake = self.paused()
        if brake is not None:
            raise Paused(brake.by, brake.at_ms)

    def _take(self, cursor: Cursor, row: RunRow) -> Claim:
        """Take a run in the transaction under way."""
        died = self._owner_died(row)
        taken = cursor.execute(CLAIM, (row.id, self.worker, self._clock.now_ms(), int(died))).fetchall()
        self._claimed_posts[row.id] = self._last_post(row.id)  # rolled back, the run is claimed again before any use
        return Claim(row_of(taken[0]), died)

    def _owner_died(self, row: RunRow) -> bool:
        """
        Return whether the run was left by a death that counts; refuse if its owner lives.

        A worker that was ordered to stop, and then killed, did not crash.
        """
        if not row.owner:
            return False
        if self.driven(row):
            raise self._busy(row)
        return row.state is State.RUNNING and not self._one(ORDERED, (row.owner,))

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

    def _register(self, pid: int, host: str, mark: str) -> None:
        """Become a worker. The lock is taken before the row is seen, so nobody ever sees it dead."""
        with self._transaction("register a worker") as cursor:
            number: int = cursor.execute(REGISTER, (pid, host, mark, self._clock.now_ms())).get
            self._locks.hold(number)
            old = cursor.execute(OLD_WORKERS, (number,)).fetchall()
            cursor.executemany("delete from worker where id = ?", [(i,) for (i,) in old if not self._locks.alive(i)])
        self.worker = number
