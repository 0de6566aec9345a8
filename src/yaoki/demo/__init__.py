"""
`yaoki demo`: a vendor that misbehaves, a dozen tickets, workers killed with SIGKILL, and an audit.

The loop is the one in `examples/refunds`, unchanged; the command is `yaoki run`, as anybody would give it.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TextIO

    from yaoki.demo._audit import Audit
    from yaoki.demo._place import Place

__all__ = ["main"]

_SEEDS = 10_000


def main(
    seed: int | None = None,
    store: str | None = None,
    keep: bool = False,  # noqa: FBT001, FBT002 - the command's flags, passed by name
    as_json: bool = False,  # noqa: FBT001, FBT002 - the same
    out: TextIO | None = None,
) -> int:
    """
    Run the demo: about half a minute. Progress goes to stderr, the audit to `out`.

    Args:
        seed: Repeats faults and kill points; drawn if None.
        store: Where the runs go, a URL; a new file in the demo's folder if None. It must not hold runs
            of an earlier demo.
        keep: Keep the folder it worked in: store, vendor's log, ledger, and every command's output. It is
            also kept when the audit fails.
        as_json: Write the audit as one JSON document.
        out: Standard output if None.

    Returns:
        0 if nothing was duplicated or lost and every run completed, 1 if not, 2 if the store is in use.
    """
    from yaoki.clock import SystemClock
    from yaoki.demo._audit import audit
    from yaoki.demo._board import board_for
    from yaoki.demo._director import Director
    from yaoki.demo._place import Place, example_folder
    from yaoki.demo._plan import draw_plan

    clock = SystemClock()
    began_s = clock.monotonic_s()
    plan = draw_plan(clock.rng().randrange(_SEEDS) if seed is None else seed)
    if store and (taken := _taken(store)):
        sys.stderr.write(f"yaoki: {store} already has the run {taken}; name another store, or leave --store out\n")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="yaoki-demo-"))
    place = Place(folder=folder, store=store or f"sqlite:///{folder / 'yaoki.db'}", example=example_folder())
    good = False
    try:
        with _ending_in_order(), board_for(sys.stderr, lambda: clock.monotonic_s() - began_s) as board:
            board.say("", _opening(plan.seed, place))
            director = Director(place, plan, board, lambda: clock.monotonic_s() - began_s)
            found = audit(director.run())
        good = found.ok
        _write(found, as_json=as_json, out=out or sys.stdout)
    finally:
        if keep or not good:
            sys.stderr.write(f"Kept: {folder}\n")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if good else 1


def _opening(seed: int, place: Place) -> str:
    from yaoki.demo._place import TIMES

    times = ", ".join(f"{name} {value:g}" for name, value in TIMES.items())
    where = f"{place.example.name}/agent.py works through 12 tickets; its vendor misbehaves, its workers are killed"
    return f"{where}\nseed {seed} · the demo's own short times: {times}"


@contextmanager
def _ending_in_order() -> Generator[None]:
    """Let SIGTERM end the demo as Ctrl-C does: its commands first, then itself."""

    def stop(number: int, frame: object) -> None:
        del number, frame
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _taken(store: str) -> str:
    """Return a run id of the demo the store already has, or nothing."""
    from yaoki.demo._cases import CASES
    from yaoki.runtime import Runner

    tickets = {case.ticket for case in CASES}
    if not Path(store.removeprefix("sqlite:///")).exists():
        return ""
    with Runner.verbs(store) as runs:
        return next((receipt.run_id for receipt in runs.list() if receipt.run_id in tickets), "")


def _write(found: Audit, *, as_json: bool, out: TextIO) -> None:
    import msgspec

    from yaoki.demo._report import audit_lines, write_lines

    if as_json:
        out.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
        out.flush()
    else:
        write_lines(audit_lines(found), out)
