"""The store as the verbs see it: opened without creating it, and errors that name what is close."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from yaoki.cli._exits import CommandError
from yaoki.errors import RunNotFound
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from yaoki.cli._options import Session
    from yaoki.runtime import Runner
    from yaoki.runtime._receipt import Receipt

__all__ = ["known_run", "left_alone", "open_store"]


def open_store(url: str) -> AbstractContextManager[Runner]:
    """Return the store, opened for verbs: it is not created, and no run is claimed."""
    from yaoki.runtime import Runner

    return Runner.verbs(url)


def left_alone(store: Runner, receipts: Iterable[Receipt[Any]]) -> set[str]:
    """Return the ids of the runs whose process died and which nobody has taken up since."""
    left: set[str] = set()
    for receipt in receipts:
        row = store.store.get(receipt.run_id) if receipt.status is State.RUNNING else None
        if row is not None and row.state is State.RUNNING and not store.store.driven(row):
            left.add(row.name)
    return left


def known_run(store: Runner, run_id: str, here: Session) -> Receipt[Any]:
    """
    Return the receipt of a run that must exist.

    Raises:
        CommandError: There is none of that id; the message names close ones.
    """
    try:
        return store.get(run_id)
    except RunNotFound as error:
        ids = [receipt.run_id for receipt in store.list()]
        close = get_close_matches(run_id, ids, n=3, cutoff=0.5) or [i for i in ids if i.startswith(run_id)][:3]
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        message = f"no run {run_id} in {here.store}{meant} All runs: {here.commands.verb('runs')}"
        raise CommandError(RunNotFound.code, message if close else message.replace(" All", ". All")) from error
