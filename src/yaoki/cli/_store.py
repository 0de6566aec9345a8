"""The store as the verbs see it: opened without creating it, and errors that name what is close."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from yaoki.cli._exits import CommandError
from yaoki.errors import RunNotFound
from yaoki.records import State

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from yaoki.cli._options import Session
    from yaoki.journal import Journal
    from yaoki.runtime import Runner
    from yaoki.runtime._receipt import Receipt

__all__ = ["ID_MAX", "known_run", "left_alone", "living", "open_store"]

ID_MAX = 200
"""Characters of a run's id."""
_COMPARED_MAX = 10_000
"""Ids a mistyped one is compared with: the newest."""


def open_store(url: str) -> AbstractContextManager[Runner]:
    """Return the store, opened for verbs: it is not created, and no run is claimed."""
    from yaoki.runtime import Runner

    return Runner.verbs(url)


def left_alone(journal: Journal, run_id: str) -> bool:
    """Whether the run's process died and nobody has taken it up since."""
    row = journal.get(run_id)
    return row is not None and row.state is State.RUNNING and not journal.driven(row)


def living(journal: Journal) -> int:
    """Return how many worker processes of the store live; one that drives many runs at once is one."""
    return len({(worker.host, worker.pid) for worker in journal.workers() if worker.alive})


def known_run(store: Runner, run_id: str, here: Session) -> Receipt[Any]:
    """
    Return the receipt of a run that must exist.

    Raises:
        CommandError: There is none of that id; the message names close ones, or says that it was discarded.
    """
    try:
        return store.get(run_id)
    except RunNotFound as error:
        raise CommandError(RunNotFound.code, _not_found(store.store, run_id, here)) from error


def _not_found(journal: Journal, run_id: str, here: Session) -> str:
    every = here.commands.verb("runs")
    if not run_id:
        return f"the run's id is empty. All runs: {every}"
    if len(run_id) > ID_MAX:
        return f"no run {run_id[:40]}…: an id has at most {ID_MAX} characters. All runs: {every}"
    stone = journal.tombstone(run_id)
    if stone is not None:
        by = f" by {stone.by}" if stone.by else ""
        when = here.now().time(stone.at_ms)
        return f"run {run_id} ({stone.loop}, {stone.state.value}) was discarded {when}{by}; nothing is left of it"
    ids = [row.name for row in journal.list(limit=_COMPARED_MAX, newest=True)]
    close = get_close_matches(run_id, ids, n=3, cutoff=0.5) or [one for one in ids if one.startswith(run_id)][:3]
    if close:
        return f"no run {run_id} in {here.store}; did you mean {' or '.join(close)}? All runs: {every}"
    return f"no run {run_id} in {here.store}. All runs: {every}"
