"""What a run's journal says it did: steps, attempts, restarts, counted from the records alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yaoki.records import Adopt, Answer, Begin, Claimed, Question, Refused, Settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yaoki.records import Entry, Failure, Record

__all__ = ["Recorded", "read_steps", "tool_of"]

_POSTS = 2**31


@dataclass(slots=True, kw_only=True)
class Recorded:
    """One run, as its journal has it."""

    done: Counter[str] = field(default_factory=Counter[str])
    """Completed steps by tool; sub-steps (a check) are none."""
    keys: set[str] = field(default_factory=set[str])
    """Idempotency keys of completed refunds."""
    retries: Counter[str] = field(default_factory=Counter[str])
    """Failed attempts that were followed by another one, by kind; a death counts as `process died`."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Failed attempts by reason, and calls of the model that could not become one."""
    claims: int = 0
    reused: int = 0
    """Completed steps that stood on record when a process took the run over; summed over such restarts."""
    repeated: list[str] = field(default_factory=list[str])
    """Steps begun again after they were complete: there must be none."""


def tool_of(identity: str) -> str:
    """Return the tool's name in a step's identity: `1.3//charge#0` is `charge`."""
    return identity.rpartition("/")[2].rpartition("#")[0]


def read_steps(entries: Iterable[Entry]) -> Recorded:
    """Count a run's records, given in the order of their seq."""
    reader = _Reader()
    for entry in _in_time(entries):
        reader.take(entry.key, entry.record)
    return reader.run


def _in_time(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Put what was written from outside (seq 2**31 and more) where it belongs in time."""
    written = list(entries)
    posts = [entry for entry in written if entry.seq >= _POSTS]
    for entry in written[: len(written) - len(posts)]:
        while posts and posts[0].record.at < entry.record.at:
            yield posts.pop(0)
        yield entry
    yield from posts


class _Reader:
    def __init__(self) -> None:
        self.run = Recorded()
        self._complete: set[str] = set()
        self._failed: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._counted: set[tuple[str, int]] = set()

    def take(self, identity: str, record: Record) -> None:
        match record:
            case Claimed():
                self.run.reused += len(self._complete) if self.run.claims else 0
                self.run.claims += 1
            case Begin() if "!" not in identity:
                self._begun(identity, record)
            case Settle(failure=failure) if failure is not None and "!" not in identity:
                self._failed_attempt(identity, record.attempt, failure)
            case Settle(outcome="ok") | Adopt(failure=None) if "!" not in identity:
                self._completed(identity)
            case Refused():
                self.run.failures[record.failure.reason] += 1
            case Question():
                self._asked[record.id] = identity
            case Answer(verdict="happened"):
                # The answer itself is what the step has for a value.
                self._completed(self._asked[record.question])
            case _:
                pass

    def _begun(self, identity: str, begin: Begin) -> None:
        if identity in self._complete:
            self.run.repeated.append(begin.call or identity)
        if identity in self._failed:
            self.run.retries[self._failed.pop(identity)] += 1
        self._keys[identity] = begin.key

    def _failed_attempt(self, identity: str, attempt: int, failure: Failure) -> None:
        died = failure.reason == "process.died"
        self._failed[identity] = "process died" if died else failure.kind.value
        # A check that finds nothing settles the same attempt once more.
        if (identity, attempt) not in self._counted:
            self._counted.add((identity, attempt))
            self.run.failures[failure.reason] += 1

    def _completed(self, identity: str) -> None:
        if identity in self._complete:
            return
        self._complete.add(identity)
        tool = tool_of(identity)
        self.run.done[tool] += 1
        if tool == "refund":
            self.run.keys.add(self._keys.get(identity, ""))
