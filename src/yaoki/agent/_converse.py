"""The tool loop: model, calls, results, again, until there is an answer that is accepted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from yaoki.agent._forms import Form, form_of
from yaoki.agent._stall import StallGuard, action_of, signature_of
from yaoki.codec import codec_for
from yaoki.errors import DeclarationError, EncodingError, StepFailed, Unverified
from yaoki.records import Executed, Failure, FailureKind
from yaoki.runtime import BoundTool, Check, Toolbox, ToolCall, ToolResult, Verdict
from yaoki.verify import unfenced

if TYPE_CHECKING:
    from yaoki.runtime import AsyncRun, Run

__all__ = ["Model", "Reply", "Talk", "aconverse", "converse"]

T = TypeVar("T")

_REJECTIONS_MOST = 100
_SEEN_ROUNDS = 4
_NO_TOOLS = Toolbox()


class Reply(Protocol):
    """What a model says: `message` is what is appended to the transcript, as the vendor's client gives it."""

    @property
    def text(self) -> str:
        """What it says in words; the answer where it asks for no tool."""
        ...

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The tools it asks for."""
        ...

    @property
    def message(self) -> Any:  # noqa: ANN401 - the vendor's
        """A dict, a list of them, or an object with `model_dump`."""
        ...


Model: TypeAlias = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Any]
"""
Takes the messages and the tools as the vendor wants them, and returns a `Reply`; awaitable in an async loop. Make it a
READ_ONLY tool, so that its replies are recorded.
"""


@dataclass
class Talk:
    """What is saved of a conversation after each turn: a transcript that a vendor accepts as it is."""

    messages: list[dict[str, Any]]
    seen: list[str] = field(default_factory=list[str])
    """Signatures of the last calls, for the stall guard."""
    rejected: list[str] = field(default_factory=list[str])
    """Of outputs that were not accepted since the last call of a tool."""
    failing: bool = False
    """Whether there is something to note."""
    replans_told: int = 0


def converse(
    run: Run,
    model: Model,
    task: str,
    *,
    form: str | None = None,
    tools: Toolbox = _NO_TOOLS,
    into: type[T] = str,  # type: ignore[assignment]  # the default of T
    verify: Check | None = None,
    guard: StallGuard | None = StallGuard(),  # noqa: B008 - frozen
    rejections_max: int = 3,
) -> T:
    """
    Let a model work on a task with tools until its answer is accepted; the loop of most agents.

    It takes the run's turns, and saves the conversation after each: a resume goes on in the turn that was under way.
    Unknown tools, wrong arguments and failed calls are answered to the model. What failed and has not succeeded since
    is noted beside what is sent. An answer that is not of the type, or does not pass, is told to the model with the
    reason.

    Args:
        run: The loop's own, in which no `run.turns` was used.
        model: See `Model`.
        task: The first message.
        form: How the vendor writes a conversation down: `anthropic`, `openai` or `responses`. A model of
            `yaoki.models` says so itself.
        tools: What it may call.
        into: The answer's type; other than text it is read as JSON.
        verify: Who decides whether the answer is kept; it decides once for each answer.
        guard: Against going in circles; None switches it off. Tools with `ForModel(poll=True)` are left out.
        rejections_max: Answers in a row that may be rejected, 1 to 100; the same one twice is the end at once.

    Raises:
        StepFailed: A call of the model failed for good, or `agent.stalled`: it goes in circles.
        Unverified: No answer was accepted; the run ends `capped`.
        DeclarationError: What cannot work.
    """
    desk = _Desk[T](_form_of(model, form), tools, into, guard, rejections_max)
    for talk in run.turns(Talk(desk.form.opening(task))):
        if desk.to_tell(talk, len(run.replanned)):
            desk.tell_replanned(talk, [one.message for one in run.replanned])
        reply: Reply = model(desk.sent(talk, run.notes() if talk.failing else ""), desk.specs)
        asked = desk.asked(talk, reply)
        if asked is not None:
            desk.answered(talk, asked, run.call_tools(tools, asked.calls), run.id)
            continue
        answer = desk.read(reply.text)
        if answer.verdict.passed and verify is not None:
            answer = _Answer(answer.value, run.verify(answer.value, verify))
        if answer.verdict.passed:
            return cast("T", answer.value)
        desk.reject(talk, reply.text, answer)
    raise _none_left()


async def aconverse(
    run: AsyncRun,
    model: Callable[[list[dict[str, Any]], list[dict[str, Any]]], Awaitable[Any]],
    task: str,
    *,
    form: str | None = None,
    tools: Toolbox = _NO_TOOLS,
    into: type[T] = str,  # type: ignore[assignment]  # the default of T
    verify: Check | None = None,
    guard: StallGuard | None = StallGuard(),  # noqa: B008 - frozen
    rejections_max: int = 3,
) -> T:
    """Let a model work on a task, as `converse`, in an async loop; calls of one turn go side by side."""
    desk = _Desk[T](_form_of(model, form), tools, into, guard, rejections_max)
    async for talk in run.turns(Talk(desk.form.opening(task))):
        if desk.to_tell(talk, len(run.replanned)):
            desk.tell_replanned(talk, [one.message for one in run.replanned])
        reply: Reply = await model(desk.sent(talk, run.notes() if talk.failing else ""), desk.specs)
        asked = desk.asked(talk, reply)
        if asked is not None:
            desk.answered(talk, asked, await run.call_tools(tools, asked.calls), run.id)
            continue
        answer = desk.read(reply.text)
        if answer.verdict.passed and verify is not None:
            answer = _Answer(answer.value, await run.verify(answer.value, verify))
        if answer.verdict.passed:
            return cast("T", answer.value)
        desk.reject(talk, reply.text, answer)
    raise _none_left()


def _form_of(model: object, form: str | None) -> str:
    known = form or getattr(getattr(model, "fn", model), "form", None)
    if known is None:
        msg = "converse: form= says how the model's vendor writes a conversation: 'anthropic', 'openai' or 'responses'"
        raise DeclarationError(msg)
    return str(known)


def _none_left() -> Unverified:
    return Unverified("the turns are used up, and no answer was accepted")


class _Asked(NamedTuple):
    """A turn's calls: those that are made, and what is told of those that are not, by their place."""

    calls: list[ToolCall]
    whole: list[ToolCall]
    refused: dict[int, ToolResult]
    signs: dict[int, str]


class _Answer(NamedTuple):
    value: Any
    verdict: Verdict


class _Desk(Generic[T]):
    """What the two loops share: all but calling and waiting."""

    def __init__(self, form: str, tools: Toolbox, into: type[T], guard: StallGuard | None, rejections_max: int) -> None:
        if not 1 <= rejections_max <= _REJECTIONS_MOST:
            msg = f"converse: rejections_max={rejections_max!r} lies between 1 and {_REJECTIONS_MOST}"
            raise DeclarationError(msg)
        self.form: Form = form_of(form)
        self.specs = self.form.tools(tools.specs())
        self._guard = guard
        self._rejections_max = rejections_max
        self._into = into
        try:
            self._codec = codec_for(into)
        except EncodingError as error:
            msg = f"converse: into={into!r}: {error}"
            raise DeclarationError(msg) from None
        plain = [one.tool if isinstance(one, BoundTool) else one for one in tools.tools]
        self._polls = frozenset(one.name for one in plain if one.agent.poll)

    # --- what is sent

    def sent(self, talk: Talk, notes: str) -> list[dict[str, Any]]:
        """Return the transcript with the notes at its end: they are sent, and not kept."""
        talk.failing = bool(notes)
        return [*talk.messages, *(self.form.told(notes) if notes else ())]

    def to_tell(self, talk: Talk, replans: int) -> bool:
        """Whether a pass failed that the model has not been told of."""
        return replans > talk.replans_told

    def tell_replanned(self, talk: Talk, why: list[str]) -> None:
        """Tell why the last pass failed."""
        talk.replans_told = len(why)
        word = f"What you did last ended in a failure: {why[-1]}\nTry another way. What was done before stands."
        talk.messages += self.form.told(word)

    # --- calls

    def asked(self, talk: Talk, reply: Reply) -> _Asked | None:
        """Append what the model said; return its calls, without those that would only go on with a cycle."""
        talk.messages += self.form.said(reply.message)
        whole = list(reply.calls)
        if not whole:
            return None
        made: list[ToolCall] = []
        refused: dict[int, ToolResult] = {}
        signs: dict[int, str] = {}
        seen = list(talk.seen)
        for place, call in enumerate(whole):
            again = self._goes_on(seen, call)
            if not again:
                made.append(call)
                continue
            seen.append(again)
            signs[place] = again
            text = f"{call.name} was not executed: the same calls, with the same results, are going round in a circle."
            refused[place] = ToolResult(id=call.id, text=f"{text} Do something else.", is_error=True)
        return _Asked(made, whole, refused, signs)

    def answered(self, talk: Talk, asked: _Asked, made: Sequence[ToolResult], run_id: str) -> None:
        """
        Append the results, and a word where the calls begin to go in circles.

        Raises:
            StepFailed: They have, and were told so.
        """
        coming = iter(made)
        results = [asked.refused.get(place) or next(coming) for place in range(len(asked.whole))]
        for place, (call, result) in enumerate(zip(asked.whole, results, strict=True)):
            if call.name not in self._polls:
                talk.seen.append(asked.signs.get(place) or signature_of(action_of(call.name, call.args), result.text))
        word = self._look(talk, run_id, told=bool(asked.refused))
        talk.messages += self.form.results(results, word)
        talk.rejected.clear()
        talk.failing = talk.failing or any(one.is_error for one in results)

    def _goes_on(self, seen: list[str], call: ToolCall) -> str:
        if self._guard is None or call.name in self._polls:
            return ""
        return self._guard.refused(seen, action_of(call.name, call.args))

    def _look(self, talk: Talk, run_id: str, *, told: bool) -> str:
        if self._guard is None:
            return ""
        state, period = self._guard.look(talk.seen), self._guard.cycle(talk.seen)
        if len(talk.seen) > _SEEN_ROUNDS * self._guard.kept:  # seldom: what is appended is stored as such
            del talk.seen[: -self._guard.kept]
        if state == "over":
            raise _stalled(period, run_id)
        if state != "told" or told:
            return ""
        what = "The last call was made before" if period == 1 else f"The last {period} calls were made before"
        return f"{what}, with the same result. Doing it once more will not change that: do something else."

    # --- answers

    def read(self, text: str) -> _Answer:
        """Return the answer as its type, or why it is none."""
        if self._into is str:
            empty = not text.strip()
            return _Answer(text, Verdict(passed=not empty, evidence="the answer is empty" if empty else ""))
        try:
            return _Answer(self._codec.decode(unfenced(text).encode("utf-8", "replace")), Verdict(passed=True))
        except EncodingError as error:
            evidence = f"it is no {self._codec.type_name}: {error} Answer with JSON alone."
            return _Answer(None, Verdict(passed=False, evidence=evidence))

    def reject(self, talk: Talk, text: str, answer: _Answer) -> None:
        """
        Tell the model why its answer is not accepted.

        Raises:
            Unverified: It was the same as one before, or one too many.
        """
        sign = blake2b(text.strip().encode("utf-8", "replace"), digest_size=9).hexdigest()
        evidence = answer.verdict.evidence
        again, number = talk.rejected[-1:] == [sign], len(talk.rejected) + 1
        if again or number >= self._rejections_max:
            what = "the same answer was given again and" if again else f"answer {number} of {self._rejections_max}"
            msg = f"{what} is not accepted: {evidence}"
            raise Unverified(msg, evidence, answer.value)
        talk.rejected.append(sign)
        talk.messages += self.form.told(f"Your answer was not accepted. {evidence}")


def _stalled(period: int, run_id: str) -> StepFailed:
    what = "call" if period == 1 else f"{period} calls"
    message = f"the model goes in circles: the same {what}, with the same results, although it was told so"
    failure = Failure(
        kind=FailureKind.SEMANTIC,
        reason="agent.stalled",
        message=message,
        executed=Executed.NO,
        evidence="yaoki: stall guard",
        fingerprint="agent.stalled",
    )
    return StepFailed(message, failure=failure, run_id=run_id)
