"""Questions a step raises, and what each answer makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw

from yaoki.policy import Ask
from yaoki.records import ABSENT, Executed, Question, Record
from yaoki.runtime._effects import EffectOf, Steps, Suspend
from yaoki.runtime._live import Halt, Live

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._past import Asked, Past
    from yaoki.runtime._step import Step

_EXPIRES_S = Ask().expires_s
_WORTH_ASKING_MS = 2_000
"""A shorter wait is over before anybody has read the question."""

__all__ = ["asked_in_place_of", "carry_out_answer", "doubt_left", "doubts_left", "question_of", "until_answered"]


def question_of(
    live: Live,
    step: Step,
    past: Past,
    why: Literal["doubt", "ask", "approve", "orphan"],
    *,
    text: str | None = None,
    options: list[str] | None = None,
    note: str = "",
    expires_s: float = _EXPIRES_S,
    retries: bool = False,
) -> Question:
    """Return the question about a step: bound to it and its arguments, with the answer's schema."""
    now_ms = live.now_ms()
    begin = past.begin
    return Question(
        at=now_ms,
        id=f"q{len(live.history.questions) + 1}",
        why=why,
        text=text or _text(step, past, why),
        call=step.call,
        args=step.args,
        executed=past.executed,
        attempt=past.attempts,
        attempts_max=begin.attempts_max if begin is not None else 0,
        type=step.declared.codec.type_name,
        schema=_schema(step),
        options=options,
        expires_at=now_ms + int(expires_s * 1000),
        note=note,
        retries=retries,
    )


def asked_in_place_of(live: Live, step: Step, past: Past, next_at: int) -> Question | None:
    """Return the question a person who watches is asked in place of a wait; None: nobody does, or it is short."""
    wait_ms = next_at - live.now_ms()
    if not live.limits.interactive or wait_ms < _WORTH_ASKING_MS:
        return None
    return question_of(live, step, past, "ask", expires_s=wait_ms / 1000, retries=True)


def doubt_left(live: Live, past: Past, question_id: str, note: str) -> Question:
    """Return the question about a step that nothing waits for any more, though its action is in doubt."""
    now_ms = live.now_ms()
    name = "" if "!" in past.step else past.tool
    tool = next((tool for tool in live.loop.tools() if tool.name == name), None)
    return Question(
        at=now_ms,
        id=question_id,
        why="doubt",
        text=f"did {past.call or past.step} happen?",
        call=past.call,
        args=past.args,
        executed=past.executed,
        attempt=past.attempts,
        attempts_max=past.begin.attempts_max if past.begin is not None else 0,
        type=tool.codec.type_name if tool is not None else "",
        schema=Raw(msgspec.json.encode(tool.codec.schema())) if tool is not None else ABSENT,
        expires_at=now_ms + int(_EXPIRES_S * 1000),
        note=note,
    )


def doubts_left(live: Live, note: str, *, cut: bool = False, whole: bool = False) -> list[tuple[str, Record]]:
    """
    Return a question for each step in doubt that nobody drives and nobody was asked about; or only those `cut`.

    At the end of the `whole` run also for those that an earlier pass left.
    """
    stale = live.history.orphans() if whole else []
    left = [
        past
        for past in [*live.history.steps.values(), *stale]
        if past.doubt_unasked and past.step not in live.driven and (past.cut_by_timeout or not cut)
    ]
    number = len(live.history.questions) + 1
    return [(past.step, doubt_left(live, past, f"q{number + i}", note)) for i, past in enumerate(left)]


def _schema(step: Step) -> Raw:
    return Raw(msgspec.json.encode(step.declared.codec.schema()))


def _text(step: Step, past: Past, why: str) -> str:
    if why == "doubt":
        if past.executed is Executed.YES:
            return f"{step.call} happened, but its result is lost. What was it?"
        return f"did {step.call} happen?"
    failure = past.last.failure if past.last is not None else None
    said = f" ({failure.reason}: {failure.message[:200]})" if failure is not None else ""
    return f"{step.call} failed{said}. What now?"


def until_answered(live: Live, asked: Asked, step_key: str) -> Steps:
    """Wait for somebody; a question that has expired is a dead letter of the step it is about."""
    question = asked.question
    if question.expires_at and live.now_ms() >= question.expires_at:
        text = f"nobody answered {question.id} in time: {question.text}"
        live.stop_with(Halt(to="dead", text=text, stopped_by="question.expired", step=step_key))
        yield Suspend("halt")
    yield Suspend("person", question=question.id, until_ms=question.expires_at, text=question.text)


def carry_out_answer(
    live: Live, step: Step, past: Past, asked: Asked
) -> Generator[EffectOf, Any, Literal["again", "attempt", "skip", "abort"]]:
    """
    Wait for the answer, then say what follows.

    again: look at the step anew (it has a value now) · attempt: it did not happen, go on, with one more
    attempt if none was left · skip · abort. An expired question without a default is a dead letter.
    """
    while asked.answer is None:
        if past.settled:
            return "again"
        if asked.question.retries and live.now_ms() >= asked.question.expires_at:
            return "attempt"
        yield from until_answered(live, asked, step.key)
    match asked.answer.verdict:
        case "happened" | "value":
            return "again"
        case "not-happened" | "approved" | "retry":
            return "attempt"
        case "skip":
            return "skip"
        case "abort" | "refused":
            return "abort"
