"""Questions of a run: asked, answered, moot. Part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from yaoki.runtime._past import Asked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from yaoki.records import Answer, Question, Redrive, Value
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
        self._ahead: dict[str, tuple[int, str]] = {}
        self._orders = 0

    def foresee(self, answers: Iterable[tuple[int, Answer]]) -> None:
        """Note the first verdict on each question: posts are met last, and a redrive must know what came before it."""
        for seq, answer in answers:
            self._ahead.setdefault(answer.question, (seq, answer.verdict))

    def verdict_on(self, asked: Asked | None, posts: int) -> str:
        """Return what had been answered to a question when the newest post was this one; nothing if nobody had."""
        if asked is None:
            return ""
        seq, verdict = self._ahead.get(asked.question.id, (0, ""))
        return verdict if seq <= posts else ""

    def ask(self, key: str, question: Question, past: Past | None) -> bool:
        """Something is asked; return whether the loop itself does, at a point of its own."""
        asked = self.by_id[question.id] = Asked(question, past, key)
        asked.order = self._orders
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
        if answer.verdict == "refused" and asked.order == self._orders and not asked.superseded:
            self.refused[past.action] = answer

    def take(self, key: str, record: Value) -> None:
        """The loop goes on."""
        asked = self.at_point.get(key.removesuffix(TAKEN))
        if asked is not None:
            asked.taken = msgspec.json.decode(record.value)

    def redriven(self, redrive: Redrive) -> list[str]:
        """
        A new ladder: what the loop asked in vain is asked once more; return the points to forget.

        An answer that the loop has had stays, unless the run ended at it.
        """
        self.refused.clear()
        self._orders += 1
        again: list[str] = []
        for key, asked in list(self.at_point.items()):
            verdict = self.verdict_on(asked, redrive.posts)
            unheard = not asked.taken and verdict in ("", "abort")
            if unheard or (asked.taken == "answer" and verdict == "abort" and key == redrive.step):
                asked.superseded = True
                del self.at_point[key]
                again += [key, f"{key}{TAKEN}"]
        return again

    def leave_pass(self, left: Iterable[Past]) -> None:
        """A new pass: what is asked about a call, or by the loop, is not there any more; it asks anew."""
        self.refused.clear()
        self._orders += 1
        for asked in self.at_point.values():
            asked.superseded = asked.superseded or asked.open
        self.at_point.clear()
        self._leave(left)

    def leave_end(self, left: Iterable[Past], points: Collection[str]) -> None:
        """What the pass did at its end will be done elsewhere: what is asked about that is not there any more."""
        for key in [key for key in self.at_point if key in points]:
            asked = self.at_point.pop(key)
            asked.superseded = asked.superseded or asked.open
        self._leave(left)

    def _leave(self, left: Iterable[Past]) -> None:
        for past in left:
            for asked in past.questions:
                asked.superseded = asked.superseded or (asked.question.why in _OF_A_CALL and asked.open)
