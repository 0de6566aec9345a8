"""The journal: what the runtime writes, and how it opens and closes a store."""

from __future__ import annotations

import os
import platform
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from yaoki.errors import DeclarationError, EncodingError, Fenced, JournalError, StoreRefused
from yaoki.journal._alive import liveness
from yaoki.journal._barrier import Barrier, default_sync
from yaoki.journal._codec import encode
from yaoki.journal._connect import open_store, outwait
from yaoki.journal._faults import translate
from yaoki.journal._foreign import hold, let_go, our_own
from yaoki.journal._groups import ENSURE, Groups
from yaoki.journal._noting import Noting
from yaoki.journal._owning import FINISH
from yaoki.journal._place import default_fs_type, is_there, path_of, refuse_place, refuse_sqlite
from yaoki.journal._reading import BY_NAME
from yaoki.journal._rows import row_of
from yaoki.journal._scoping import APPEND, fenced
from yaoki.records import State, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from yaoki.clock import Clock
    from yaoki.journal._barrier import Deliver, Sync
    from yaoki.journal._rows import RunRow
    from yaoki.journal._scoping import Change
    from yaoki.records import Charge, Circuit, Group, Record

__all__ = ["Journal"]

NAME_MAX = 200
INPUT_MAX_BYTES = 16 << 20
"""As much as a result may have by default: it is read whenever the run is claimed."""

CREATE = """
    insert into run (name, loop, state, input, file, grp, created_ms, changed_ms)
    values (?1, ?2, 'pending', ?3, ?4, ?5, ?6, ?6) on conflict (name) do nothing"""
LEAVE = """
    update run set state = ?3, wake_ms = ?4, waits_for = ?5, note = ?6, value = ?7, owner = 0, changed_ms = ?8,
        ended_ms = ?9, cost_nusd = ?10
    where id = ?2 and epoch = ?1 and owner <> 0"""


class Journal(Noting, Groups):
    """
    A store, held by one object: by a worker, which may claim runs, or by a verb, which may not.

    *Written* is in the WAL and survives the process; every method returns with its writes written.
    *Synced* survives power loss: `sync`, `sync_async`, `post`, `reopen` and `close` give that, and `mark`
    within `sync_every_ms`. A failed write or sync poisons: `failed` is set, and every later write raises.
    Any thread may call. A forked child cannot use it and holds nothing of it.
    """

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        clock: Clock,
        create: bool = True,
        worker: bool = True,
        sync: Sync | None = None,
        sync_every_ms: int = 100,
        fs_type: Callable[[str], str] | None = None,
        vfs: str = "",
    ) -> Journal:
        """
        Open a store, creating it (mode 0600) if need be.

        Every refusal comes before any change: no file is made, none is written.

        Args:
            url: `sqlite:///rel.db`, `sqlite:////abs.db`; `None` is `$YAOKI_STORE` or `sqlite:///yaoki.db`.
            clock: For the times in the store. Waiting for other processes takes the machine's time.
            create: Whether a missing store may be created.
            worker: Whether to become a worker, which can claim. Its lock is held for the life of this object.
            sync: Brings the `-wal` of that descriptor to the disk, or raises OSError. Default fdatasync.
            sync_every_ms: How long what was marked may stay unsynced.
            fs_type: Returns the file system type of a directory. Default `/proc/self/mountinfo`.
            vfs: SQLite's file layer by name, for tests of failing disks.

        Raises:
            StoreRefused: Not a store's URL, missing, network file system, old SQLite, newer schema, another
                program's database, read-only place.
            StoreCorrupt: The file is no database.
            JournalError: It could not be opened for another reason.
        """
        url, path = path_of(url)
        refuse_sqlite()
        refuse_place(path, fs_type or default_fs_type)
        if not create and not is_there(path):
            raise StoreRefused(f"no store at {path}; yaoki run creates one, --store names another.")
        with ExitStack() as undo, _translated(path), our_own():
            connection = open_store(path, vfs)
            undo.callback(connection.close)
            locks = liveness(path)
            undo.callback(locks.close)
            barrier = Barrier(path, vfs, sync=sync or default_sync, sync_every_ms=sync_every_ms)
            undo.callback(barrier.drop)
            journal = cls(connection, url=url, path=path, clock=clock, locks=locks, barrier=barrier)
            hold(path)
            undo.callback(let_go, path)
            if worker:
                outwait(connection, path)
                journal._register(os.getpid(), platform.node(), os.environ.get("YAOKI_MARK", "")[:100])
            undo.pop_all()
        return journal

    def close(self) -> None:
        """Sync, take leave as a worker, and free the lock. What is still owned counts as left by a death."""
        if self._gone is not None:
            return
        try:
            while self._last_acts and self.failed is None:
                self._last_acts.popitem()[1]()
        finally:
            self._take_leave()

    def before_close(self, name: str, act: Callable[[], None]) -> None:
        """Have something done as this journal is closed; once for each name. A killed process does it not."""
        self._last_acts[name] = act

    def _take_leave(self) -> None:
        with suppress(JournalError):  # a verb that only read must not fail for want of this row
            if self.worker and self.failed is None:
                with self._transaction("take leave") as cursor:
                    cursor.execute(FINISH, (self._clock.now_ms(), self.worker))
        try:
            if self.failed is None:
                self._barrier.wait()
        finally:
            self._retire("this journal was closed.")
            self._barrier.close()
            with self._lock, suppress(apsw.Error):
                self._connection.close()
            let_go(self.path)
            self._locks.close()

    def create(self, name: str, *, loop: str, input: bytes, file: str = "", group: str = "") -> RunRow:  # noqa: A002
        """
        Insert a pending run, or return the run that has this name; an existing one is never changed.

        Raises:
            DeclarationError: The name is empty, it or the group over 200 characters, or not printable.
            EncodingError: The input has more than 16 MB.
            InputMismatch: A run of that name was discarded: the keys of its effects were made from it.
        """
        if not (0 < len(name) <= NAME_MAX and name.isprintable()):
            raise DeclarationError(f"run id {name[:40]!r}: must be 1 to {NAME_MAX} printable characters.")
        if not (len(group) <= NAME_MAX and group.isprintable()):
            raise DeclarationError(f"group {group[:40]!r}: must be at most {NAME_MAX} printable characters.")
        if len(input) > INPUT_MAX_BYTES:
            raise EncodingError(
                f"run {name}: its input has {len(input):,} bytes; {INPUT_MAX_BYTES:,} is the most. "
                "Put it into a file, and give the run its name."
            )
        with self._transaction("create a run") as cursor:
            self._refuse_discarded(name)
            cursor.execute(CREATE, (name, loop, input, file, group, self._clock.now_ms()))
            if group:
                cursor.execute(ENSURE, (group,))
            row = cursor.execute(BY_NAME, (name,)).fetchall()[0]
        self._stirred = True
        return row_of(row)

    def append(
        self, run: int, epoch: int, seq: int, items: Sequence[tuple[str, Record]], charge: Charge | None = None
    ) -> None:
        """
        Write records of a run this worker drives, from `seq` on: all of them or, if fenced, none.

        `charge` is what they change of the run's group, counted in the same transaction.

        Raises:
            Fenced: The run was claimed by another since, or left.
        """
        if len(items) != 1 or charge is not None:
            with self._transaction("append to the journal") as cursor:
                self._append_all(run, epoch, seq, items)
                if charge is not None:
                    self._charge(cursor, charge)
            return
        if self.failed is not None:
            self._refuse_failed()
        key, record = items[0]
        body = encode(record)
        try:
            with self._lock:
                self._cursor.execute(APPEND, (epoch, run, seq, kind_of(record), key, body))
                inserted = self._connection.changes()
        except apsw.Error as error:
            raise self._broken(error, "append to the journal") from error
        if not inserted:
            raise fenced(run, epoch)

    def append_ruled(
        self,
        run: int,
        epoch: int,
        seq: int,
        items: Sequence[tuple[str, Record]],
        *,
        change: Change,
        charge: Charge | None = None,
        admits: Callable[[Group], bool] | None = None,
    ) -> tuple[Circuit, ...] | None:
        """
        Append records with what they mean for scopes and for the run's group, in one transaction, or nothing at all.

        `change` is given the scopes as they are in it, and returns the circuits that become others, in full; None
        refuses. Only then `admits`, if given, is asked with the group as it is: refused, the run is made pending
        when something of the group's budget comes back, if it waits by then. Neither may use this journal.

        Return what `change` returned; None if one of them refused.

        Raises:
            Fenced: As for `append`.
        """
        now_ms = self._clock.now_ms()
        with self._transaction("append to the journal") as cursor:
            changed = change(self.scopes())
            if changed is None:
                return None
            if admits is not None and charge is not None and not self._admitted(cursor, charge, admits):
                return None
            self._append_all(run, epoch, seq, items)
            for one in changed:
                self._keep(cursor, one, now_ms)
            if charge is not None:
                self._charge(cursor, charge)
        return tuple(changed)

    def append_batch(
        self,
        batch: Sequence[tuple[int, int, int, Sequence[tuple[str, Record]]]],
        charges: Sequence[Charge | None] = (),
    ) -> list[BaseException | None]:
        """
        Write records of many runs, `(run, epoch, seq, items)` each, in one transaction.

        `charges` are those of each, as for `append`; none at all where no run is in a group.

        Returns, in order, `None` or the `Fenced` of that run, whose items are left out. Keep a batch to
        about 64 records: other processes wait for it.
        """
        results: list[BaseException | None] = []
        with self._transaction("append to the journal") as cursor:
            for i, (run, epoch, seq, items) in enumerate(batch):
                try:
                    self._append_all(run, epoch, seq, items)
                except Fenced as fenced:  # by its first item: the epoch cannot change inside the transaction
                    results.append(fenced)
                else:
                    results.append(None)
                    charge = charges[i] if charges else None
                    if charge is not None:
                        self._charge(cursor, charge)
        return results

    def leave(
        self,
        run: int,
        epoch: int,
        seq: int,
        items: Sequence[tuple[str, Record]],
        *,
        state: State,
        wake_ms: int = 0,
        waits_for: str = "",
        note: str = "",
        value: bytes | None = None,
        seen: int = 0,
        paused: str = "",
        cost_nusd: int = 0,
        waits_for_group: tuple[str, int] | None = None,
    ) -> None:
        """
        Write the last records of this drive and let the run go, in one transaction.

        A final `state` sets the run's end. A run left sleeping or waiting while a post came that its driver had
        not read is left `pending` instead, so no answer is slept over: `seen` is the highest seq of a post the
        driver has taken into account, if any came since the claim. Likewise `paused`, the scope whose brake it waits
        for, which may be off by now; and `waits_for_group`, the group whose budget it waits for, and how often that
        had freed when it was refused.

        Raises:
            Fenced: As for `append`; nothing was written.
        """
        now_ms = self._clock.now_ms()
        with self._transaction("leave a run") as cursor:
            self._append_all(run, epoch, seq, items)
            if state in (State.SLEEPING, State.WAITING):
                seen = max(seen, self._claimed_posts.get(run, 0))
                missed = waits_for_group is not None and self.freed(waits_for_group[0]) > waits_for_group[1]
                missed = missed or bool(paused and paused not in self.scopes().paused)
                if missed or self._last_post(run) > seen:
                    state, wake_ms = State.PENDING, 0
            ended_ms = now_ms if state.final else 0
            cursor.execute(
                LEAVE, (epoch, run, state.value, wake_ms, waits_for, note, value, now_ms, ended_ms, cost_nusd)
            )
            if not self._connection.changes():
                raise fenced(run, epoch)
        self._claimed_posts.pop(run, None)

    def mark(self) -> None:
        """Ask that what is written be synced within `sync_every_ms`."""
        self._barrier.mark()

    def soon(self) -> None:
        """Start a sync without waiting for it: it begins within 4 ms, or is covered by another before that."""
        self._barrier.soon()

    def sync(self) -> None:
        """Return when all that was written before is synced. A failure is final: JournalError, now and later."""
        if self.failed is not None:
            self._refuse_failed()
        self._barrier.wait()

    def sync_async(self, waiter: object) -> None:
        """Hand `waiter` to `deliver`, from the syncer's thread, once all that was written before is synced."""
        if self.failed is not None:
            self._refuse_failed()
        self._barrier.enqueue(waiter)

    @property
    def deliver(self) -> Deliver:
        """Called in the syncer's thread with the waiters one sync has served, and the error if it failed."""
        return self._barrier.deliver

    @deliver.setter
    def deliver(self, deliver: Deliver) -> None:
        self._barrier.deliver = deliver


@contextmanager
def _translated(path: str) -> Generator[None, None, None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path, "open it") from error
    except OSError as error:
        raise JournalError(f"store {path}: cannot open it: {error.strerror}. Check the path and the disk.") from error
