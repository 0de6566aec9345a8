"""`yaoki check`: what a person should know about a file's loops and tools before they run."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._examining import examine
from yaoki.cli._exits import Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption, session
from yaoki.cli._target import split_target
from yaoki.cli._views_check import check_lines

__all__ = ["check"]


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE[:LOOP]", help="A file with loops and tools, or one loop of it.", show_default=False
        ),
    ],
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if there is anything to say: for CI.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """
    Look at loops and tools before they run; import them and call nothing.

    Says which effects are undeclared, which ladders and budgets do not fit, which clients retry by themselves,
    which repairs cannot happen. Exit 0, also with notes and warnings; 1 with --strict if there are any; 2 if a
    file cannot be imported, or `yaoki run` would refuse a loop of it.
    """
    here = session(store, as_json=as_json)
    for target in files:
        split_target(target)
    examined = [examine(target) for target in dict.fromkeys(files)]
    if as_json:
        here.out.data(examined)
    else:
        here.out.lines(check_lines(examined, here.commands.cwd))
    levels = {found.level for one in examined for found in one.findings}
    if "error" in levels or any(one.error for one in examined):
        return Exit.USAGE
    return Exit.DEAD if strict and levels else Exit.DONE
