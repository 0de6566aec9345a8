"""
Many reported errors at once: JSON lines in, JSON lines out, and how they agree with labels if there are any.

Labels are `kind`, `accept` (further kinds that are right) and `resend`, scored as "again as it is" (`yes`,
`if_idempotent`) or "not as it is" (`no`, `after_action`), and `retry_after_s`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

import msgspec

from yaoki.classify import FailureKind, classify, is_control_flow, reported, resend
from yaoki.cli._exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CONTROL", "Answer", "Score", "answer", "read_rows"]

CONTROL: Final = "control"
"""What stands for a kind where the error is control flow, and no failure."""

_AGAIN: Final = frozenset({"yes", "if_idempotent"})
_EXACT_S: Final = 0.001


class Answer(msgspec.Struct, kw_only=True):
    """What is said of one row."""

    id: object
    kind: str
    executed: str
    scope: str
    resend: str
    retry_after_s: float | None
    rule: str


def read_rows(lines: Iterable[str], name: str) -> Iterator[dict[str, object]]:
    """
    Yield the row of each line that is not blank.

    Raises:
        CommandError: A line is no JSON object.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row: object = msgspec.json.decode(line)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise CommandError("input.not_json", f"{name}:{number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise CommandError("input.not_json", f"{name}:{number}: expected an object, one a line")
        fields = cast("dict[str, object]", row)
        fields.setdefault("id", number)
        yield fields


def answer(row: dict[str, object], *, now_ms: int) -> Answer:
    """Return what Yaoki says of a row."""
    error = reported(row)
    failure = classify(error, now_ms=now_ms)
    steering = isinstance(error, BaseException) and is_control_flow(error)
    return Answer(
        id=row["id"],
        kind=CONTROL if steering else failure.kind.value,
        executed=failure.executed.value,
        scope=failure.scope.value,
        resend="no" if steering else resend(failure),
        retry_after_s=failure.retry_after_s,
        rule=failure.evidence.partition(" ")[2] or failure.evidence,
    )


@dataclass(slots=True)
class Score:
    """How answers agree with the rows' labels; rows without any are left out."""

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """By (label, answer); an answer that the row accepts counts as the label."""
    resends: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])
    """By (may be sent again as it is, was)."""
    waits: Counter[bool] = field(default_factory=Counter[bool])
    wrong: list[str] = field(default_factory=list[str])
    """Ids of rows that would be sent again although that cannot succeed."""

    def add(self, row: dict[str, object], said: Answer) -> None:
        """Count a row with what was said of it."""
        label, accept, wanted = row.get("kind"), row.get("accept"), row.get("resend")
        if isinstance(label, str):
            right = said.kind == label or (isinstance(accept, list) and said.kind in cast("list[object]", accept))
            self.kinds[label, label if right else said.kind] += 1
        if isinstance(wanted, str):
            self.resends[wanted in _AGAIN, said.resend in _AGAIN] += 1
            if wanted not in _AGAIN and said.resend in _AGAIN:
                self.wrong.append(str(row["id"]))
        if isinstance(wait := row.get("retry_after_s"), (int, float)):
            self.waits[said.retry_after_s is not None and abs(said.retry_after_s - wait) <= _EXACT_S] += 1

    def kind_order(self) -> list[str]:
        """Return the kinds that occur, in the order of the contract, control flow last."""
        seen = {kind for pair in self.kinds for kind in pair}
        known = [kind.value for kind in FailureKind if kind.value in seen]
        return known + sorted(seen - set(known))
