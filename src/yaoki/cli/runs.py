"""`yaoki runs`: which runs need somebody, and all the others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._deaths import known_loop
from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, LoopOption, Session, StoreOption, session
from yaoki.cli._picture import GROUPS, Picture, group_of, status_names
from yaoki.cli._store import open_store
from yaoki.cli._survey import survey
from yaoki.cli._views_runs import light, runs_lines
from yaoki.cli._views_text import line
from yaoki.cli._watching import watch_changes, watch_screen

if TYPE_CHECKING:
    from yaoki.runtime import Runner

__all__ = ["runs"]

_ROWS_BESIDE = 20
"""Of each group, where all groups are shown."""
_ROWS_CHOSEN = 1_000


def runs(
    *,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="S", help="Only runs in that state or group, one a line."),
    ] = None,
    loop: LoopOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep looking: drawn again on a terminal, a line a change in a pipe.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Rows at most. [default: 20 a group, 1,000 of a status]"),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """List the runs: those that need you first, with what to type next."""
    here = session(store, as_json=as_json)
    if status is not None and status not in status_names():
        raise CommandError("usage", f"--status {status} is no state or group: {', '.join(status_names())}")
    rows = limit or (_ROWS_CHOSEN if status or as_json else _ROWS_BESIDE)
    with open_store(here.store) as verbs:
        chosen = known_loop(verbs.store, loop)

        def look() -> Picture:
            return survey(verbs, here.now(), loop=chosen, status=status or "", limit=rows)

        if watch and (as_json or not sys.stdout.isatty()):
            watch_changes(here, verbs.store, loop=chosen, status=status or "")
        elif watch:
            watch_screen(here, look)
        elif as_json:
            _data(here, verbs, look(), chosen, rows)
        else:
            _lines(here, look(), status)
    return Exit.DONE


def _lines(here: Session, picture: Picture, status: str | None) -> None:
    nothing = picture.empty if picture.chosen is None else not picture.chosen.count
    lines = runs_lines(picture, here.now(), here.commands, cells_max=here.out.cells)
    if nothing:
        lines.append(line(f"No {status} runs in {here.store}." if status else f"No runs in {here.store}."))
    here.out.lines(lines)


def _data(here: Session, verbs: Runner, picture: Picture, loop: str, limit: int) -> None:
    """Write the runs chosen, or of every group as many as asked for, in the groups' order."""
    now = here.now()
    if picture.chosen is not None:
        found, count = picture.chosen.shown, picture.chosen.count
    else:
        looks = [survey(verbs, now, loop=loop, status=name, limit=limit).chosen for name in GROUPS]
        found = [one for group in looks if group is not None for one in group.shown][:limit]
        count = sum(group.count for group in picture.groups.values())
    here.out.data([light(one, group_of(one, picture, now)) for one in found])
    if len(found) < count:
        here.out.note(f"{len(found):,} of {count:,} runs; more with --limit {count}")
