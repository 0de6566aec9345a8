"""`yaoki demo`: a misbehaving vendor, a dozen tickets, at least seven kills, and an audit."""

from __future__ import annotations

from typing import Annotated

import typer

from yaoki.cli._options import DebugOption, JsonOption, StoreOption  # noqa: TC001 - typer reads them

__all__ = ["demo"]


def demo(
    *,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Repeats faults and kill points; drawn if left out.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the files it worked with, and say where.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Show it: a local vendor that fails on purpose, workers killed with SIGKILL, and an audit of every effect."""
    from yaoki.demo import main

    return main(seed=seed, store=store, keep=keep, as_json=as_json)
