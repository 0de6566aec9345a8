"""`run.ask`: a question of the loop itself, at a named point of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Raw, Struct

from yaoki.codec import Codec, codec_for, fits
from yaoki.errors import DeclarationError, EncodingError, StepFailed
from yaoki.policy import ASK_EXPIRES_S
from yaoki.records import ABSENT, Executed, FailureKind, Question, Value
from yaoki.runtime._effects import Suspend
from yaoki.runtime._failures import own_failure
from yaoki.runtime._inbox import TAKEN
from yaoki.runtime._live import Halt
from yaoki.runtime._run_base import RunBase
from yaoki.runtime._step import fingerprint
from yaoki.runtime._sync import commit_inline, poll_posts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.runtime._live import Branch
    from yaoki.runtime._past import Asked

__all__ = ["ASK_EXPIRES_S", "NOTHING", "Asking", "Asks"]

NOTHING: Any = ABSENT
"""No default."""
_TEXT_MAX = 2_000
_OPTIONS_MAX = 100
_OPTION_MAX = 200
_EXPIRES_MOST_S = 10 * 366 * 86_400


class Asking(Struct, frozen=True):
    """A question as the code asks it, looked at before anything is recorded."""

    text: str
    codec: Codec
    schema: Raw
    options: list[str] | None
    default: Raw
    expires_s: float

    @property
    def args(self) -> str:
        """What binds an answer to what was asked: the text, the type and the options."""
        return fingerprint("run.ask", msgspec.json.encode([self.text, self.schema, self.options]))


class Asks(RunBase):
    """What both kinds of run share of asking."""

    def _asking(
        self, question: str, into: Any, options: Sequence[str] | None, default: Any, expires_s: float
    ) -> Asking:
        """
        Return the question, or refuse it.

        Raises:
            DeclarationError: An empty or too long text, options that are none, a time or a default that cannot work.
            EncodingError: A type that no answer can have.
        """
        if not question.strip() or len(question) > _TEXT_MAX:
            raise DeclarationError(f"run.ask: a question has 1 to {_TEXT_MAX:,} characters")
        if not 0 < expires_s <= _EXPIRES_MOST_S:
            raise DeclarationError(f"run.ask: expires_s={expires_s} is above 0, and at most ten years")
        listed = None if options is None else list(options)
        if listed is not None:
            _refuse_options(listed)
        codec = codec_for(into)
        schema = codec.schema() if listed is None else {**codec.schema(), "enum": listed}
        encoded = ABSENT
        if default is not NOTHING:
            encoded = Raw(codec.encode(default))
            wrong = fits(schema, msgspec.json.decode(encoded))
            if wrong is not None:
                raise DeclarationError(f"run.ask: its default cannot be an answer: {wrong}")
        return Asking(question, codec, Raw(msgspec.json.encode(schema)), listed, encoded, expires_s)

    def _ask_point(self, asking: Asking) -> tuple[Branch, str]:
        """Record the question, or find it recorded; return the branch and the point's identity."""

        def make(at: int) -> Question:
            return Question(
                at=at,
                id=f"q{len(self._live.history.questions) + 1}",
                why="ask",
                text=asking.text,
                args=asking.args,
                executed=Executed.NO,
                type=asking.codec.type_name,
                schema=asking.schema,
                options=asking.options,
                expires_at=at + int(asking.expires_s * 1000),
                default=asking.default,
            )

        branch = self._place("ask")
        key, record = self._once("ask", make)
        if not isinstance(record, Question) or record.args != asking.args:
            recorded = f"run.ask({record.text!r})" if isinstance(record, Question) else type(record).__name__
            self._drift(key, recorded, f"run.ask({asking.text!r})")
        return branch, key

    def _ask_outcome(self, branch: Branch, key: str, asking: Asking) -> tuple[bool, Any]:
        """
        Return whether the question is over, and what the loop goes on with; recorded before it does.

        Raises:
            StepFailed: A person said to abort, or the answer is not of the type after all.
        """
        live = self._live
        with live.lock:
            asked = live.history.inbox.at_point[key]
            if not asked.taken and not self._ask_over(branch, key, asked):
                return False, None
        if asked.taken == "timeout":
            return False, None
        if asked.taken == "default" or asked.answer is None or asked.answer.verdict == "skip":
            return True, asking.codec.decode(asked.question.default)
        if asked.answer.verdict != "value":
            self._ask_failed(key, "ask.aborted", f"{asking.text}: a person said to stop here")
        try:
            return True, asking.codec.decode(asked.answer.value)
        except EncodingError as error:
            self._ask_failed(key, "value.mismatch", f"the answer to {asked.question.id} does not fit: {error}")

    def _ask_over(self, branch: Branch, key: str, asked: Asked) -> bool:
        """Take the answer, or the default once it is time; without one the run is then a dead letter."""
        live = self._live
        # A `run.timeout` around it ended the wait, in the journal: that comes again, whatever was answered since.
        if branch.ended_before:
            return False
        if asked.open and live.journal.changed():
            poll_posts(live)
        question = asked.question
        if asked.open:
            if live.halt is not None or not question.expires_at or live.now_ms() < question.expires_at:
                return False
            if question.default is ABSENT:
                text = f"nobody answered {question.id} in time: {question.text}"
                live.stop_with(Halt(to="dead", text=text, stopped_by="question.expired", step=key))
                return False
        self._ask_taken(key, "default" if asked.open else "answer")
        return True

    def _ask_taken(self, key: str, what: str) -> None:
        self._flush()
        commit_inline(self._live, f"{key}{TAKEN}", Value(at=self._live.now_ms(), value=Raw(msgspec.json.encode(what))))

    def _ask_cut(self, key: str) -> None:
        """The wait was cancelled by a `run.timeout` around it: nobody needs to answer any more."""
        if not self._live.history.inbox.at_point[key].taken and not self._live.detached:
            self._ask_taken(key, "timeout")

    def _ask_suspend(self, branch: Branch, key: str) -> Suspend:
        """Return how the branch waits for the answer, or for the end of a run that has none to expect."""
        if self._live.halt is not None:
            return Suspend("halt")
        if branch.ended_before:
            return Suspend("replay")
        question = self._live.history.inbox.at_point[key].question
        return Suspend("person", question=question.id, until_ms=question.expires_at, text=question.text)

    def _ask_failed(self, key: str, reason: str, text: str) -> NoReturn:
        failure = own_failure(FailureKind.PERMANENT, reason, text, Executed.NO)
        message = f"run {self._live.name}: {text} ({reason}). See: yaoki show {self._live.name}"
        raise StepFailed(message, failure=failure, run_id=self._live.name, step=key)


def _refuse_options(options: list[str]) -> None:
    texts: list[object] = list(options)
    if not 1 <= len(texts) <= _OPTIONS_MAX or len(set(options)) != len(options):
        raise DeclarationError(f"run.ask: options are 1 to {_OPTIONS_MAX} different texts")
    for one in texts:
        if not isinstance(one, str) or not 0 < len(one) <= _OPTION_MAX or not one.isprintable():
            raise DeclarationError(f"run.ask: option {one!r} is no text of 1 to {_OPTION_MAX} printable characters")
