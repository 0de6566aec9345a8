"""`yaoki doctor`: whether this machine, and this store, are fit to keep runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from yaoki.cli._examining import examine
from yaoki.cli._exits import Exit
from yaoki.cli._meter import Meter
from yaoki.cli._options import DebugOption, JsonOption, Session, StoreOption, session
from yaoki.cli._probe import Answer, about_place, about_sqlite, about_sync, about_workers
from yaoki.cli._probe_file import about_file
from yaoki.cli._store import open_store
from yaoki.cli._target import split_target
from yaoki.cli._views_check import shown_file
from yaoki.cli._views_doctor import about_examined, about_left, about_targets, doctor_lines
from yaoki.cli._views_text import plural
from yaoki.errors import JournalError
from yaoki.journal._place import default_fs_type, is_there, path_of, refuse_place
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaoki.journal import Journal

__all__ = ["doctor"]

_LEFT_MAX = 1_000


def doctor(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="Files with loops: does something in them slow every step?", show_default=False
        ),
    ] = None,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """
    Look whether this machine and this store are fit to keep runs, and say what to do where they are not.

    The place, the disk and its syncs, SQLite, the file's content, the clock, workers and what the dead left.
    Changes nothing. Exit 0, also with notes and warnings; 70 if something FAILs.
    """
    here = session(store, as_json=as_json)
    for file in files or []:
        split_target(file)
    _, path = path_of(here.store)
    with Meter(here) as meter:
        answers = list(_answers(here, path, meter))
        for file in files or []:
            meter.say(f"importing {file}")
            answers += about_examined(examine(file, "measure"), shown_file(file, here.commands.cwd))
    if as_json:
        here.out.data(answers)
    else:
        here.out.lines(doctor_lines(answers))
    return Exit.FAILED if any(answer.level == "FAIL" for answer in answers) else Exit.DONE


def _answers(here: Session, path: str, meter: Meter) -> Iterator[Answer]:
    yield from about_sqlite()
    try:
        refuse_place(path, default_fs_type)
    except JournalError as error:
        yield Answer(level="FAIL", about="store", text=str(error))
        return
    yield from about_place(path)
    yield about_sync(path, here.clock)
    if not is_there(path):
        then = "yaoki run creates it; --store or $YAOKI_STORE names another"
        yield Answer(level="note", about="store", text=f"none at {path} yet", then=then)
        return
    try:
        with open_store(here.store) as verbs:
            yield from _opened(here, verbs.store)
    except JournalError as error:
        yield Answer(level="FAIL", about="store", text=str(error))
        return
    yield from about_file(path, here.clock, lambda s: meter.say(f"looking through the store for {s:.0f} s"))


def _opened(here: Session, journal: Journal) -> Iterator[Answer]:
    counts = journal.counts()
    text = (
        f"{journal.path}, {plural(sum(counts.values()), 'run')} of {plural(len({name for name, _ in counts}), 'loop')}"
    )
    yield Answer(level="ok", about="store", text=text)
    brake = journal.paused()
    if brake is not None:
        since = here.now().time(brake.at_ms)
        text = f"paused since {since} by {brake.by or 'somebody'}: nothing begins"
        yield Answer(level="warn", about="brake", text=text, then=here.commands.verb("unpause"))
    yield from about_workers(journal.workers(), here.now().now_ms)
    yield from about_targets(journal.targets(), here.now())
    running = journal.list(states=(State.RUNNING,), limit=_LEFT_MAX)
    left = [(row.name, row.loop, row.file) for row in running if not journal.driven(row)]
    yield about_left(left, here.commands, more=len(running) == _LEFT_MAX)
