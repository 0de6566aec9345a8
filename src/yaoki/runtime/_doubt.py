"""Questions a step raises, and what each answer makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw

from yaoki.policy import Ask
from yaoki.records import Executed, Question
from yaoki.runtime._effects import EffectOf, Suspend
from yaoki.runtime._live import Halt, Live

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._past import Asked, Past
    from yaoki.runtime._step import Step

_EXPIRES_S = Ask().expires_s

__all__ = ["carry_out_answer", "doubt_left", "question_of"]


def question_of(
    live: Live,
    step: Step,
    past: Past,
    why: Literal["doubt", "ask"],
    *,
    text: str | None = None,
    note: str = "",
    expires_s: float = _EXPIRES_S,
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
        type=step.tool.codec.type_name,
        schema=_schema(step),
        expires_at=now_ms + int(expires_s * 1000),
        note=note,
    )


def doubt_left(live: Live, past: Past, question_id: str) -> Question:
    """Return the question about a step whose run ends while its action is in doubt; nothing waits for the answer."""
    now_ms = live.now_ms()
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
        expires_at=now_ms + int(_EXPIRES_S * 1000),
        note="The run ended while this was open; an answer is recorded, nothing is sent.",
    )


def _schema(step: Step) -> Raw:
    return Raw(msgspec.json.encode(step.tool.codec.schema()))


def _text(step: Step, past: Past, why: str) -> str:
    if why == "doubt":
        if past.executed is Executed.YES:
            return f"{step.call} happened, but its result is lost. What was it?"
        return f"did {step.call} happen?"
    failure = past.last.failure if past.last is not None else None
    said = f" ({failure.reason}: {failure.message[:200]})" if failure is not None else ""
    return f"{step.call} failed{said}. What now?"


def carry_out_answer(
    live: Live, step: Step, past: Past, asked: Asked
) -> Generator[EffectOf, Any, Literal["again", "attempt", "skip", "abort"]]:
    """
    Wait for the answer, then say what follows.

    again: look at the step anew (it has a value now) · attempt: it did not happen, go on, with one more
    attempt if none was left · skip · abort. An expired question without a default is a dead letter.
    """
    question = asked.question
    while asked.answer is None:
        if past.settled:
            return "again"
        if question.expires_at and live.now_ms() >= question.expires_at:
            text = f"nobody answered {question.id} in time: {question.text}"
            live.stop_with(Halt(to="dead", text=text, stopped_by="question.expired", step=step.key))
            yield Suspend("halt")
        yield Suspend("person", question=question.id, until_ms=question.expires_at, text=question.text)
    match asked.answer.verdict:
        case "happened" | "value":
            return "again"
        case "not-happened":
            return "attempt"
        case "skip":
            return "skip"
        case "abort" | "refused":
            return "abort"
