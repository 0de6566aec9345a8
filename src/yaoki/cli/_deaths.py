"""Dead runs, read with as little of the store as says why each died."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from yaoki.classify import redact
from yaoki.cli._exits import CommandError
from yaoki.cli._meter import Meter
from yaoki.cli._spans import span_ms
from yaoki.cli._views_steps import identity
from yaoki.records import Ended, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaoki.cli._options import Session
    from yaoki.journal import Brief, Journal
    from yaoki.runtime import Runner

__all__ = ["Death", "Which", "dead_runs", "deaths", "every_run", "known_loop"]


class Death(Struct, frozen=True, kw_only=True):
    """How one run died."""

    run_id: str
    loop: str
    at: int
    tool: str
    """Whose step it was; empty if it was the loop's own."""
    reason: str
    """The failure's code, or what stopped it: `http.401`, `crashes`."""
    text: str
    fingerprint: str
    """Equal for deaths that differ only in ids, numbers and times."""


def deaths(journal: Journal, meter: Meter, *, loop: str = "", since_ms: int = 0, reason: str = "") -> Iterator[Death]:
    """
    Yield the dead runs of a loop that ended at or after a time, by a reason; the oldest run first.

    `reason` is a prefix up to a dot (`http.401` has `http.401.revoked`), or a pattern with `*`.
    """
    for row in every_run(journal, meter):
        if row.state is not State.DEAD or loop not in ("", row.loop) or row.ended_ms < since_ms:
            continue
        death = _death(journal, row)
        if not reason or _matches(death.reason, reason):
            yield death


class Which(Struct, frozen=True, kw_only=True):
    """The options that choose among the dead, as they were typed."""

    loop: str | None = None
    reason: str | None = None
    older_than: str | None = None
    since: str | None = None

    @property
    def narrows(self) -> bool:
        """Whether one was typed."""
        return any(one is not None for one in (self.loop, self.reason, self.older_than, self.since))


def dead_runs(verbs: Runner, here: Session, which: Which) -> list[str]:
    """
    Return the ids of the dead runs that were meant, the oldest run first.

    Raises:
        CommandError: No run of that loop, or no length of time.
    """
    now_ms = here.now().now_ms
    before_ms = now_ms - (span_ms(which.older_than, option="--older-than") if which.older_than is not None else 0)
    since_ms = now_ms - span_ms(which.since, option="--since") if which.since is not None else 0
    loop = known_loop(verbs.store, which.loop)
    with Meter(here) as meter:
        found = deaths(verbs.store, meter, loop=loop, since_ms=since_ms, reason=which.reason or "")
        return [death.run_id for death in found if death.at <= before_ms]


def every_run(journal: Journal, meter: Meter) -> Iterator[Brief]:
    """Yield all runs without their inputs and values, a page at a time, in the order they were created."""
    total = sum(journal.counts().values())
    after = seen = 0
    while rows := journal.briefs(after=after):
        for row in rows:
            seen += 1
            meter.at(seen, max(seen, total), "runs looked at")
            yield row
        after = rows[-1].id


def known_loop(journal: Journal, loop: str | None) -> str:
    """
    Return the loop asked for; empty is any.

    Raises:
        CommandError: The store has no run of it; the message lists the loops it has.
    """
    if loop is None:
        return ""
    known = sorted({name for name, _ in journal.counts()})
    if loop not in known:
        there = ", ".join(known) or "none"
        said = f"--loop {loop or '(empty)'}: no run of that loop in the store; there: {there}"
        raise CommandError("loop.not_found", said)
    return loop


def _death(journal: Journal, row: Brief) -> Death:
    entry = journal.last_driven(row.id)
    ended = entry.record if entry is not None and isinstance(entry.record, Ended) else None
    failure = ended.failure if ended is not None else None
    step = ended.step if ended is not None else ""
    reason = failure.reason if failure is not None else (ended.stopped_by if ended is not None else "")
    said = failure.message if failure is not None and failure.message != failure.reason else ""
    return Death(
        run_id=row.name,
        loop=row.loop,
        at=row.ended_ms,
        tool=identity(step).name if step else "",
        reason=reason or "unknown",
        text=redact(said or row.note),
        fingerprint=failure.fingerprint if failure is not None else "",
    )


def _matches(reason: str, wanted: str) -> bool:
    if "*" in wanted:
        return fnmatchcase(reason, wanted)
    return reason == wanted or reason.startswith(f"{wanted}.")
