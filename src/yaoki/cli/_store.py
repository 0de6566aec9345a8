"""The store as the verbs see it: opened without creating it, and errors that name what is close."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from yaoki.cli._exits import CommandError
from yaoki.cli._views_ask import open_asks
from yaoki.errors import RunNotFound
from yaoki.policy import Ask
from yaoki.records import State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from yaoki.cli._options import Session
    from yaoki.runtime import Runner
    from yaoki.runtime._receipt import Receipt

__all__ = ["Standing", "known_run", "left_alone", "open_store", "standing"]

_ENDED_READ_MAX = 200
"""Journals of ended runs read for a question they left open: the newest, and only while one can be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the rows of a store do not say about its runs, by their ids."""

    died: frozenset[str] = frozenset()
    """Those whose process died, and which nobody has taken up since."""
    asking: dict[str, str] = field(default_factory=dict[str, str])
    """The open question of each whose row names none: it is pending, or has ended."""


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


def standing(store: Runner, receipts: Iterable[Receipt[Any]], now_ms: int) -> Standing:
    """Return what must be looked up beside the rows: locks, and journals of runs that may ask."""
    runs = list(receipts)
    ended = sorted((r for r in runs if r.status.final and r.ended_at), key=lambda r: -r.ended_at)[:_ENDED_READ_MAX]
    answerable_ms = now_ms - int(Ask().expires_s * 1000)
    read = [r for r in runs if r.status is State.PENDING]
    read += [r for r in ended if r.ended_at > answerable_ms]
    asking: dict[str, str] = {}
    for receipt in read:
        text = _asks(store.get(receipt.run_id), now_ms)
        if text is not None:
            asking[receipt.run_id] = text
    return Standing(died=frozenset(left_alone(store, runs)), asking=asking)


def _asks(receipt: Receipt[Any], now_ms: int) -> str | None:
    return next((ask.text for ask in open_asks(receipt, now_ms)), None)


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
