"""`yaoki run`: a loop under a small supervisor, until its run is final or waits for somebody."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._exits import CommandError, exit_for
from yaoki.cli._input import encoded, read_input
from yaoki.cli._options import (
    DebugOption,
    InputOption,
    JsonOption,
    NotifyOption,
    Session,
    StoreOption,
    TargetArgument,
    addresses,
    session,
)
from yaoki.cli._report import Job
from yaoki.cli._store import ID_MAX, known_run, open_store
from yaoki.cli._target import split_target
from yaoki.cli._views_show import show_lines

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["checked_id", "fresh_id", "run"]

_RANDOM = 6
"""Hexadecimal characters that make a fresh id one of 16 million."""


def run(
    target: TargetArgument,
    *,
    input_: InputOption = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Names the run; the same id goes on where it was.")
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask here, in place of waiting, and go on with the answer.")
    ] = False,
    notify: NotifyOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Run a loop, or go on with it: restarts its worker when it dies, prints the receipt."""
    import msgspec

    from yaoki.cli._asking import go_on, refuse_without_terminal
    from yaoki.cli._charges import OneRun
    from yaoki.cli._supervisor import Interrupted, supervise

    here = session(store, as_json=as_json)
    if interactive:
        refuse_without_terminal()
    path, loop = split_target(target)
    given = msgspec.UNSET if input_ is None else msgspec.Raw(encoded(read_input(input_), what="--input"))
    name = checked_id(run_id) if run_id is not None else fresh_id(path, loop, here)
    named = run_id is None or here.out.watched
    told = addresses(notify)
    job = Job(target=target, run_id=name, store=here.store, input=given, name_it=named, debug=debug, notify=told)
    job = msgspec.structs.replace(job, interactive=interactive)
    again = False
    while True:
        charge = OneRun(job, here, again=again)
        try:
            supervise(charge, here)
        except Interrupted as ended:
            typed = here.commands.dress("yaoki " + shlex.join(["run", target, "--run-id", name]))
            raise CommandError("interrupted", f"stopped; nothing is lost. Go on: {typed}", 128 + ended.number) from None
        finally:
            charge.close()
        if not (interactive and go_on(name, here)):
            break
        again = True
    return _receipt(name, here, path)


def _receipt(run_id: str, here: Session, path: Path) -> int:
    with open_store(here.store) as store:
        receipt = known_run(store, run_id, here)
        entries = [] if here.out.as_json else store.journal(run_id)
    if here.out.as_json:
        here.out.data(receipt.to_json())
    else:
        receipt.file = str(path.resolve())  # where it is now: the store has where it was when the run began
        here.out.lines(show_lines(receipt, entries, here.now(), here.commands, steps=False))
    return exit_for(receipt.status)


def fresh_id(path: Path, loop: str, here: Session) -> str:
    """Return a new run's id, made of the loop's name."""
    stem = re.sub(r"[^A-Za-z0-9_.-]", "-", loop or path.stem)
    return f"{stem}-{here.clock.new_id()[:_RANDOM]}"


def checked_id(run_id: str) -> str:
    """Return a run id as it was typed, or raise CommandError."""
    if not run_id.strip():
        raise CommandError("usage", "--run-id is empty; leave it out for a fresh id")
    if not run_id.isprintable() or len(run_id) > ID_MAX:
        raise CommandError("usage", f"--run-id takes at most {ID_MAX} printable characters on one line")
    return run_id
