"""`yaoki show`: why a run is where it is, and what to type next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from yaoki.cli._exits import Exit
from yaoki.cli._options import DebugOption, JsonOption, RunArgument, StoreOption, session
from yaoki.cli._store import known_run, left_alone, living, open_store
from yaoki.cli._views_journal import journal_data, journal_lines
from yaoki.cli._views_next import Around
from yaoki.cli._views_show import show_lines

__all__ = ["show"]


def show(
    run: RunArgument,
    *,
    journal: Annotated[bool, typer.Option("--journal", help="Every record, one a line.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Say why a run is where it is, and what to type next."""
    here = session(store, as_json=as_json)
    with open_store(here.store) as verbs:
        receipt = known_run(verbs, run, here)
        entries = verbs.journal(run) if journal or not as_json else []
        around = Around(
            left=left_alone(verbs.store, run),
            gone=bool(receipt.file) and not Path(receipt.file).exists(),
            workers=living(verbs.store),
            brake=verbs.store.paused(),
            group=verbs.store.group(receipt.group) if receipt.group else None,
        )
    if as_json:
        body = receipt.to_json()
        if journal:
            body = msgspec.json.encode({**msgspec.json.decode(body), "journal": journal_data(entries)})
        here.out.data(body)
    elif journal:
        here.out.lines(journal_lines(entries, here.now()))
    else:
        here.out.lines(show_lines(receipt, entries, here.now(), here.commands, around=around))
    return Exit.DONE
