"""`yaoki runs`: which runs need somebody, and all the others."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import open_store, standing
from yaoki.cli._views_runs import grouped, light, runs_lines, select, status_names
from yaoki.cli._views_text import line

__all__ = ["runs"]


def runs(
    *,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="S", help="Only runs in that state or group, all of them, one a line."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """List the runs: those that need you first, with what to type next."""
    here = session(store, as_json=as_json)
    if status is not None and status not in status_names():
        raise CommandError("usage", f"--status {status} is no state or group: {', '.join(status_names())}")
    now = here.now()
    with open_store(here.store) as verbs:
        receipts = verbs.list()
        known = standing(verbs, receipts, now.now_ms)
    groups = grouped(receipts, known, now)
    chosen = select(receipts, status, groups) if status else receipts
    if as_json:
        here.out.data([light(receipt, groups[receipt.run_id]) for receipt in chosen])
        return Exit.DONE
    if not chosen:
        which = f"No {status} runs" if status else "No runs"
        here.out.lines([line(f"{which} in {here.store}.")])
        return Exit.DONE
    shown = runs_lines(chosen, now, here.commands, known=known, every=status is not None, cells_max=here.out.cells)
    here.out.lines(shown)
    return Exit.DONE
