"""Many runs on one store: what a runner serves, takes, and puts aside."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from yaoki.errors import DeclarationError, EncodingError, Paused, RunBusy, RunNotFound
from yaoki.runtime._live import Halt
from yaoki.runtime._loop import Bound
from yaoki.runtime._signature import show_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.journal import Claim, Journal, RunRow
    from yaoki.runtime._loop import Loop

__all__ = ["LOOK_S", "Board", "Docket", "Slots", "Until", "served_loops"]

Until = Literal["idle", "stopped"]

LOOK_S = 0.2
"""How often a worker with a free slot looks for runs: reads of an index, no lock. Answers are taken within 1 s."""
_CONCURRENCY_MAX = 10_000


def served_loops(loops: Sequence[Loop[..., Any]], *, is_async: bool, until: str, concurrency: int) -> dict[str, Any]:
    """
    Return the loops to serve by name, or refuse what `work` was given.

    Raises:
        DeclarationError: No loop, one of the other kind, two of one name, or a Local parameter nobody fills in.
    """
    if until not in ("idle", "stopped"):
        msg = f"work(until={until!r}): it is 'idle' or 'stopped'"
        raise DeclarationError(msg)
    if not 1 <= concurrency <= _CONCURRENCY_MAX:
        msg = f"work(concurrency={concurrency}): it lies between 1 and {_CONCURRENCY_MAX:,}"
        raise DeclarationError(msg)
    found: dict[str, Any] = {}
    for one in loops:
        if not hasattr(one, "bind_data"):
            msg = f"work takes loops, as @loop makes them, not {type(one).__name__}: runner.work(my_loop)"
            raise DeclarationError(msg)
        if one.is_async is not is_async:
            other = "AsyncRunner" if one.is_async else "Runner"
            msg = f"loop {one.name} is {'async' if one.is_async else 'plain `def`'}; serve it with {other}"
            raise DeclarationError(msg)
        if found.get(one.name, one) is not one:
            msg = f"work was given two loops called {one.name}; a run names only one: @loop(name=…)"
            raise DeclarationError(msg)
        one.refuse_open_locals()
        one.resolve()
        found[one.name] = one
    if not found:
        msg = "work was given no loop to serve"
        raise DeclarationError(msg)
    return found


class Board:
    """What all threads of one `work` must know of runs: those put aside, and those that wait for code, by number."""

    def __init__(self, journal: Journal, loops: dict[str, Any]) -> None:
        self.aside: set[int] = set()
        self.code = journal.waiting_for_code(loops)


class Docket:
    """
    The runs one call of `work` may take: those that can go on, each that waits for other code once, none put aside.

    A run is put aside when it cannot be driven here at all (its records cannot be read, its loop ended the process);
    others may take it, and so may the next call.
    """

    def __init__(self, journal: Journal, loops: dict[str, Any], board: Board | None = None) -> None:
        """
        Take stock.

        Args:
            journal: Over which runs are claimed.
            loops: By name.
            board: That of the same call of `work`, where this is one thread's docket.
        """
        self.loops = loops
        self.tally: Counter[str] = Counter()
        self._journal = journal
        self._board = board or Board(journal, loops)

    def take(self, free: int) -> list[Claim]:
        """Claim up to `free` runs."""
        if free <= 0:
            return []
        claims = self._journal.claim_many(free, loops=self.loops, without=self._board.aside)
        while len(claims) < free and self._board.code and self._journal.paused() is None:
            try:
                claims.append(self._journal.claim(self._board.code.pop()))
            except (RunBusy, RunNotFound, Paused, ValueError, IndexError):  # somebody was faster
                continue
        return claims

    def call_of(self, claim: Claim) -> tuple[Bound[Any], Halt | None]:
        """Return the call a run was made with, or why its loop, which has changed since, cannot be called so."""
        loop: Loop[..., Any] = self.loops[claim.row.loop]
        try:
            return loop.bind_data(claim.row.input), None
        except EncodingError as wrong:
            recorded = show_call(loop.name, msgspec.json.decode(claim.row.input, type=dict[str, object]), frozenset())
            diff = f"- recorded: {recorded}\n+ takes:    {loop.name}{loop.signature}"
            halt = Halt(to="code", text=f"its input does not fit the loop: {wrong}", diff=diff)
            return Bound(loop, {}, claim.row.input), halt

    def driven(self, name: str) -> RunRow | None:
        """Count where a run was left; return its row."""
        row = self._journal.get(name)
        if row is not None:
            self.tally[row.state.value] += 1
        return row

    def put_aside(self, claim: Claim, error: BaseException) -> None:
        """
        Let a run go that cannot be driven here, and say so in the log and on its row.

        Raises:
            JournalError: The store itself cannot be written any more.
        """
        if self._journal.failed is not None:
            raise self._journal.failed
        import logging

        row = claim.row
        logging.getLogger("yaoki").error(
            "run %s: cannot be driven here, left to others: %s: %s", row.name, type(error).__name__, error
        )
        self._board.aside.add(row.id)
        self._journal.release(row.id, row.epoch, note=f"cannot be driven: {error}")


class Slots:
    """The threads of one `work`: how many drive a run just now, and what ended one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.driving = 0
        self.tally: Counter[str] = Counter()
        self.failed: BaseException | None = None

    def count(self, change: int) -> None:
        """One more drives, or one less."""
        with self._lock:
            self.driving += change

    def add(self, tally: Counter[str]) -> None:
        """Add what one thread has counted."""
        with self._lock:
            self.tally.update(tally)
