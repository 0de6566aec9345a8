"""`yaoki backup`: a consistent copy of a store that is in use."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._meter import Meter
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._store import open_store
from yaoki.cli._views_text import line, size

__all__ = ["backup"]


def backup(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file that is not there yet.", show_default=False)],
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """
    Copy the store to a new file while runs go on: whole, consistent, on disk when this returns.

    The copy has the same runs and the same keys. Work on it only when the original is gone.
    """
    here = session(store, as_json=as_json)
    path = path.removeprefix("sqlite:///")
    _refuse(path)
    with open_store(here.store) as verbs, Meter(here) as meter:
        copied = verbs.store.backup(
            path, lambda done, total: meter.at(done * 4 // 1024, total * 4 // 1024, "MB copied")
        )
    if as_json:
        here.out.data({"path": os.path.realpath(path), "bytes": copied})
    else:
        look = here.commands.verb("runs", "--store", f"sqlite:///{path}")
        here.out.lines([line("Copied ", (size(copied), "head"), f" to {path}"), line("Look   ", (look, "command"))])
    return Exit.DONE


def _refuse(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - as typed, links and all
    if not path or os.path.isdir(path):  # noqa: PTH112
        raise CommandError("usage", f"backup {path or '(empty)'}: name a file, for example backups/yaoki.db")
    if not path.isprintable():
        raise CommandError("usage", f"backup {path!r}: name a file by printable characters alone")
    if os.path.lexists(path):
        raise CommandError("backup.exists", f"backup: {path} exists; nothing is overwritten. Choose another name")
    if not os.path.isdir(folder):  # noqa: PTH112
        raise CommandError("backup.no_folder", f"backup: there is no folder {folder}; create it first")
