"""Questions of a run: asked, answered, moot. Part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from yaoki.runtime._past import Asked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaoki.records import Answer, Question, Value
    from yaoki.runtime._past import Past

__all__ = ["TAKEN", "Inbox"]

TAKEN = "!answer"
"""Ends the key under which it is recorded what the loop went on with."""
_POINT = "/run.ask#"
_OF_A_CALL = frozenset({"orphan", "approve"})


class Inbox:
    """Every question by its id; those the loop itself asked also by their point."""

    def __init__(self) -> None:
        self.by_id: dict[str, Asked] = {}
        self.at_point: dict[str, Asked] = {}
        self.refused: dict[str, Answer] = {}
        """Calls that a person did not allow, by action: an equal one of this pass is refused too."""
        self._ahead: dict[str, str] = {}

    def foresee(self, answers: Iterable[Answer]) -> None:
        """Note the first verdict on each question: posts are met last, and a redrive must know what came before it."""
        for answer in answers:
            self._ahead.setdefault(answer.question, answer.verdict)

    def ask(self, key: str, question: Question, past: Past | None) -> bool:
        """Something is asked; return whether the loop itself does, at a point of its own."""
        asked = self.by_id[question.id] = Asked(question, past, key)
        if past is not None:
            past.given_up = False
            for earlier in past.questions:
                earlier.superseded = True
            past.questions = (*past.questions, asked)
        elif _POINT in key:
            self.at_point[key] = asked
            return True
        return False

    def answer(self, seq: int, answer: Answer) -> None:
        """The first answer counts."""
        asked = self.by_id.get(answer.question)
        if asked is None or asked.answer is not None:
            return
        asked.answer = answer
        asked.answer_seq = seq
        past = asked.past
        if past is None:
            return
        past.note_answer(asked, answer)
        if answer.verdict == "refused" and asked.ladder == past.ladder and not asked.superseded:
            self.refused[past.action] = answer

    def take(self, key: str, record: Value) -> None:
        """The loop goes on."""
        asked = self.at_point.get(key.removesuffix(TAKEN))
        if asked is not None:
            asked.taken = msgspec.json.decode(record.value)

    def redriven(self) -> list[str]:
        """A new ladder: what the loop asked in vain is asked once more; return the points to forget."""
        self.refused.clear()
        again: list[str] = []
        for key, asked in list(self.at_point.items()):
            verdict = asked.answer.verdict if asked.answer is not None else self._ahead.get(asked.question.id)
            if asked.taken in ("", "answer") and verdict in (None, "abort"):
                asked.superseded = True
                del self.at_point[key]
                again += [key, f"{key}{TAKEN}"]
        return again

    def leave_pass(self, left: Iterable[Past]) -> None:
        """A new pass: what is asked about a call, or by the loop, is not there any more; it asks anew."""
        self.refused.clear()
        for asked in self.at_point.values():
            asked.superseded = asked.superseded or asked.open
        self.at_point.clear()
        for past in left:
            for asked in past.questions:
                asked.superseded = asked.superseded or (asked.question.why in _OF_A_CALL and asked.open)
