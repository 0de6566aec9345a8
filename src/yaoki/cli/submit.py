"""`yaoki submit`: a run for a worker to drive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._exits import Exit
from yaoki.cli._input import encoded, read_input
from yaoki.cli._options import DebugOption, InputOption, JsonOption, StoreOption, TargetArgument, session
from yaoki.cli._target import split_target
from yaoki.cli._views_text import line
from yaoki.cli.run import checked_id, fresh_id

if TYPE_CHECKING:
    from yaoki.cli._options import Session
    from yaoki.runtime import Runner

__all__ = ["submit"]


def submit(
    target: TargetArgument,
    *,
    input_: InputOption = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Names the run; again, it is submitted once.")
    ] = None,
    group: Annotated[str, typer.Option("--group", metavar="G", help="Names the runs that belong together.")] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Leave a run in the store for a worker; it is on disk when this returns."""
    import msgspec

    from yaoki.cli._loading import bound_of
    from yaoki.runtime import Runner

    here = session(store, as_json=as_json)
    path, loop = split_target(target)
    given = msgspec.UNSET if input_ is None else msgspec.Raw(encoded(read_input(input_), what="--input"))
    name = checked_id(run_id) if run_id is not None else fresh_id(path, loop, here)
    with _quiet_stdout():
        bound = bound_of(target, given, name, here.store)
    with Runner(here.store, submits_only=True) as runner:
        receipt = runner.submit(bound, run_id=name, group=group)
        served = _served(runner)
    if as_json:
        here.out.data(receipt.to_json())
        return Exit.DONE
    for note in bound.loop.preflight():
        here.out.note(note)
    here.out.lines([line((name, "head"), f"  {receipt.status.value}")])
    if receipt.status.value == "pending" and not served:
        _say_who(here, target)
    return Exit.DONE


def _served(runner: Runner) -> bool:
    return any(worker.alive for worker in runner.store.workers())


def _say_who(here: Session, target: str) -> None:
    file = target.rpartition(":")[0] or target
    here.out.note(f"no worker is alive on this store; start one: {here.commands.dress(f'yaoki worker {file}')}")


class _quiet_stdout:  # noqa: N801 - reads as what it does
    """What a file prints while it is imported goes to stderr: stdout is the command's."""

    def __enter__(self) -> None:
        self._before = sys.stdout
        sys.stdout = sys.stderr

    def __exit__(self, *_: object) -> None:
        sys.stdout = self._before
