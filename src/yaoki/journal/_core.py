"""One store held by one object: its connection, the lock around it, and what happens after a failed write."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import apsw

from yaoki.errors import JournalError
from yaoki.journal._faults import translate
from yaoki.journal._foreign import let_go

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from yaoki.clock import Clock
    from yaoki.journal._alive import Liveness
    from yaoki.journal._barrier import Barrier
    from yaoki.journal._sqlite import Connection, Cursor, Row, Value

__all__ = ["Core"]


class Core:
    """
    The connection and its failures.

    Any thread may call; a lock keeps one statement or transaction in the connection at a time. A failed
    write poisons: every later write raises the same JournalError, since what is in memory may no longer
    be what is in the store. Reads go on.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        url: str,
        path: str,
        clock: Clock,
        locks: Liveness,
        barrier: Barrier,
    ) -> None:
        self.url = url
        self.path = path
        self.worker = 0
        self.failed: JournalError | None = None
        self._gone: JournalError | None = None
        self._clock = clock
        self._locks = locks
        self._lock = threading.RLock()
        self._connection = connection
        self._cursor = self._connection.cursor()
        self._barrier = barrier
        barrier.on_failure = self._poison
        self._last_acts: dict[str, Callable[[], None]] = {}
        self._stirred = False  # a post, a redrive or a new run, by this very connection
        self._claimed_posts: dict[int, int] = {}  # by run: the newest post when it was claimed here
        self._data_version = self._one("pragma data_version")
        _OPEN.add(self)

    def _read(self, sql: str, bindings: Sequence[Value] = (), doing: str = "read") -> list[Row]:
        if self._gone is not None:
            raise JournalError(str(self._gone)) from self._gone
        try:
            with self._lock:
                return self._cursor.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise translate(error, self.path, doing) from error

    def _one(self, sql: str, bindings: Sequence[Value] = ()) -> Any:  # noqa: ANN401 - the caller knows its column
        rows = self._read(sql, bindings)
        return rows[0][0] if rows else None

    @contextmanager
    def _transaction(self, doing: str) -> Generator[Cursor, None, None]:
        """BEGIN IMMEDIATE … COMMIT. An exception of the caller's rolls back; one of SQLite's poisons too."""
        self._refuse_failed()
        with self._lock:
            try:
                self._cursor.execute("begin immediate")
                yield self._cursor
                self._cursor.execute("commit")
            except apsw.Error as error:
                self._rollback()
                raise self._broken(error, doing) from error
            except BaseException:
                self._rollback()
                raise

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            with suppress(apsw.Error):  # poisoned or not, nothing of it was committed
                self._cursor.execute("rollback")

    def _broken(self, error: apsw.Error, doing: str) -> JournalError:
        failure = translate(error, self.path, doing)
        self._poison(failure)
        return failure

    def _poison(self, failure: JournalError) -> None:
        if self.failed is None:
            self.failed = failure

    def _refuse_failed(self) -> None:
        if self.failed is not None:
            raise type(self.failed)(str(self.failed)) from self.failed

    def _retire(self, why: str) -> None:
        """Nothing works any more: closed, or in a forked child."""
        self._gone = JournalError(f"store {self.path}: {why}")
        self.failed = self._gone

    def forget(self) -> None:
        """In a forked child: give the parent's lock and files back, and touch SQLite no more."""
        self._retire(
            f"this process was forked from worker process {os.getppid()}, which holds the store. "
            "Open a journal of its own here, or start the process with the spawn method."
        )
        let_go(self.path)
        _INHERITED.append(self._connection)  # never closed: that would act on the parent's files
        self._locks.close()
        self._barrier.drop()


_OPEN: weakref.WeakSet[Core] = weakref.WeakSet()
_INHERITED: list[Connection] = []


def _after_fork_in_child() -> None:
    for core in list(_OPEN):
        core.forget()
    _OPEN.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
