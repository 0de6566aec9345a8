"""`yaoki runs --watch`: a picture that is drawn again on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from yaoki.cli._out import styled
from yaoki.cli._picture import Group, Picture, group_of
from yaoki.cli._store import living
from yaoki.cli._views_runs import changed_line, light, runs_lines
from yaoki.cli._views_text import wrapped
from yaoki.runtime._report import light_receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yaoki.cli._options import Session
    from yaoki.cli._views_text import Line
    from yaoki.journal import Journal, RunRow

__all__ = ["watch_changes", "watch_screen"]

_EVERY_S = 1.0
_SHARE = 10
"""Looking takes at most one part in this many of the time."""
_OVERLAP_MS = 2_000
"""Changes are looked for this far back: another process may have stamped one before it committed."""
_AT_ONCE = 10_000


def watch_screen(here: Session, look: Callable[[], Picture]) -> None:
    """Draw the picture about once a second until Ctrl-C, and leave the last one on the screen."""
    from rich.console import Console
    from rich.console import Group as Stack
    from rich.live import Live

    console = Console(file=sys.stdout, highlight=False)
    picture = look()

    def drawn() -> Stack:
        texts = styled(_fitting(here, picture, console.width, console.height - 2), console.width)
        foot = styled([[(f"{here.now().time(here.clock.now_ms())} · Ctrl-C ends", "dim")]], console.width)
        return Stack(*texts, *foot)

    try:
        with Live(drawn(), console=console, screen=True, auto_refresh=False) as live:
            while True:
                began_s = here.clock.monotonic_s()
                picture = look()
                live.update(drawn(), refresh=True)
                took_s = here.clock.monotonic_s() - began_s
                here.clock.sleep(max(_EVERY_S - took_s, _SHARE * took_s))
    except KeyboardInterrupt:
        pass
    here.out.lines(_fitting(here, picture, console.width, console.height - 2))


def _fitting(here: Session, picture: Picture, width: int, height: int) -> list[Line]:
    """Return the view with as many rows a group as let every group's head be seen."""
    lines: list[Line] = []
    shown = [*picture.groups.values(), *([picture.chosen] if picture.chosen is not None else [])]
    for rows in range(min(max(len(one.shown) for one in shown), height), -1, -1):
        fewer = replace(picture, groups={name: _cut(one, rows) for name, one in picture.groups.items()})
        if picture.chosen is not None:
            fewer.chosen = _cut(picture.chosen, rows)
        lines = runs_lines(fewer, here.now(), here.commands, cells_max=width)
        if sum(len(wrapped(one, width)) for one in lines) <= height:
            break
    return lines[: max(height, 1)]


def _cut(group: Group, rows: int) -> Group:
    return replace(group, shown=group.shown[:rows])


def watch_changes(here: Session, journal: Journal, *, loop: str, status: str) -> None:
    """Write each change of a run's state, as a line or as JSON, until Ctrl-C or until nobody reads."""
    try:
        for row in _changes(here, journal, loop):
            receipt, now = light_receipt(row), here.now()
            group = group_of(receipt, _picture(journal, row), now)
            if status not in ("", group, row.state.value):
                continue
            if here.out.as_json:
                here.out.item({"at": row.changed_ms, **light(receipt, group)})
            else:
                here.out.lines([changed_line(receipt, row.changed_ms, now)])
            if here.out.unread:
                return
    except KeyboardInterrupt:
        return


def _picture(journal: Journal, row: RunRow) -> Picture:
    died = frozenset({row.name}) if row.owner and not journal.driven(row) else frozenset[str]()
    return Picture(groups=dict[str, Group](), died=died, workers=living(journal))


def _changes(here: Session, journal: Journal, loop: str) -> Iterator[RunRow]:
    since_ms = here.clock.now_ms()
    seen = {row.id: _mark(row) for row in journal.changed_since(since_ms - _OVERLAP_MS, _AT_ONCE, loop=loop)}
    while True:
        began_s = here.clock.monotonic_s()
        if journal.changed():
            rows = journal.changed_since(since_ms - _OVERLAP_MS, _AT_ONCE, loop=loop)
            fresh = [row for row in rows if seen.get(row.id) != _mark(row)]
            seen = {row.id: _mark(row) for row in rows}
            since_ms = max([since_ms, *(row.changed_ms for row in rows)])
            yield from fresh
        took_s = here.clock.monotonic_s() - began_s
        here.clock.sleep(max(_EVERY_S / 2, _SHARE * took_s))


def _mark(row: RunRow) -> tuple[str, int, str]:
    return row.state.value, row.changed_ms, row.note
