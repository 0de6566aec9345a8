"""`run.turns`: the state that is saved at the end of each turn, and where a resume starts."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Raw

from yaoki.codec import Codec, codec_for
from yaoki.errors import EncodingError, StateError
from yaoki.records import Value
from yaoki.runtime._doubt import doubts_left
from yaoki.runtime._effects import Suspend
from yaoki.runtime._fields import parts_come_back
from yaoki.runtime._leaving import OVER
from yaoki.runtime._live import Halt
from yaoki.runtime._sync import commit_inline, cut_branch

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.records import Checkpoint
    from yaoki.runtime._live import Branch, Live
    from yaoki.runtime._states import Part

_SHOWN_BYTES = 200
_LEFT_BEHIND = "The loop went on without it; an answer is recorded, nothing is sent."

__all__ = ["AsyncTurns", "Turns", "TurnsCore"]

S = TypeVar("S")

_IMMUTABLE = (str, bytes, int, float, bool, complex, tuple, frozenset, type(None), Enum)


class TurnsCore(Generic[S]):
    """What both kinds of `turns` share: begin a turn, end a turn."""

    def __init__(self, branch: Branch, default: S, *, restart: bool = False) -> None:
        live = branch.live
        branch.enter("run.turns")
        if branch is not live.main:
            msg = f"run {live.name}: turns belong to the loop itself, not to a branch of it"
            raise StateError(msg)
        if live.turning:
            msg = f"run {live.name}: a second run.turns; a run has one, since its state is what a resume starts from"
            raise StateError(msg)
        _refuse_immutable(live.name, default)
        live.turning = True
        self._live = live
        self._branch = branch
        self._restart = restart
        self._kind = type(default)
        self._codec = _state_codec(live.name, self._kind)
        self._state: S | None = None
        self._turn = 0
        checkpoint = live.history.checkpoint
        saved = live.history.state
        data = self._encode(default) if saved is None else saved
        self._nulls = b"null" in data
        self._done = checkpoint.turn if checkpoint is not None else 0
        self._next: S = self._decode(data) if saved is None else self._come_back(data)

    def begin(self) -> None:
        """Start the next turn."""
        live = self._live
        turn = self._done + 1
        spent = live.history.turns_before + turn
        if self._turn == 0:
            self._leave_prelude()
        self._turn = turn
        live.move_to(turn)
        live.history.spent.turns = max(live.history.spent.turns, spent)
        self._state = self._next

    def over(self) -> bool:
        """
        Whether no turn is left; the one under way is then not checkpointed, its steps stay the open segment.

        Recorded, so that a replay ends here too, whatever was added since. Only where somebody has redriven the run
        do its turns go on: what it did after them is then left behind, and its effects are adopted by equal calls.
        """
        live = self._live
        most = live.budget.turns
        none_left = most is not None and live.history.turns_before + (self._turn or self._done) >= most
        key = f"{live.prefix}/run.turns{OVER}"
        known = live.history.points.get(key)
        if known is None and not none_left:
            return False
        goes_on = known is not None and not none_left and live.history.redriven_seq > known[0]
        with live.lock:
            if known is None or goes_on:
                live.flush()
                commit_inline(live, key, Value(at=live.now_ms(), value=Raw(b"false" if goes_on else b"true")))
            if goes_on:
                live.recall()
                return False
        live.capped = "budget.turns"
        return True

    def end(self, references: int) -> Checkpoint:
        """
        Return the record that ends the turn; the state is copied here.

        Raises:
            StateError: The state was rebound, steps are still open, or the state cannot be saved.
        """
        live = self._live
        if references <= 0:
            msg = (
                f"run {live.name}, turn {self._turn}: the state was replaced by another object, which would be lost. "
                "Change it in place (state.x = …, items.append(…), items[:] = …)."
            )
            raise StateError(msg)
        if live.main.active or live.main.held or live.main.children:
            msg = f"run {live.name}, turn {self._turn}: steps are still open at the end of the turn; await them first"
            raise StateError(msg)
        state = self._state
        assert state is not None
        if type(state) is not self._kind:
            msg = f"run {live.name}: the state's type changed to {type(state).__name__}"
            raise StateError(msg)
        data = self._write(state)
        history = live.history
        record, parts = history.saved.record(data, at=live.now_ms(), turn=self._turn, results=history.results)
        self._check(state, data, parts)
        self._next = state
        self._done = self._turn
        return record

    def _check(self, state: S, data: bytes, parts: list[Part] | None) -> None:
        """
        Refuse what would not come back; in what did not change since it last did, nothing is looked at twice.

        A number that is none is written as null, so an unchanged null may have become one: where the state holds any,
        all its numbers are looked at.
        """
        if parts is None:
            self._nulls = b"null" in data
        elif not self._nulls:
            self._nulls = any(b"null" in part.value for part in parts)
        if self._nulls:
            with self._saying():
                self._codec.refuse_non_finite(state)
        if parts is None or not parts_come_back(self._kind, parts):
            self._decode(data)

    def look_for_drift(self) -> None:
        """Park the run for code where it left recorded steps out, or was cut by a cancel nobody can repeat."""
        where = f"the end of turn {self._turn}" if self._turn else "its first turn"
        keys = self._live.history.unasked(self._live.asked)
        if not self._turn:  # what lies before the first turn; the rest is what the turn will ask for
            prelude = f"{self._live.history.pass_}.0/"
            keys = [key for key in keys if key.startswith(prelude)]
        if keys:
            park_unasked(self._live, keys, where)
        if self._branch.cut:
            cut_branch(self._live, where)

    def saved(self) -> None:
        """Forget what the checkpoint made history."""
        prefix = self._live.prefix
        self._live.asked = {key for key in self._live.asked if not key.startswith(prefix)}
        if self._restart:  # a test's: what comes next has been through the journal
            self._next = self._decode(self._live.history.state or b"")

    def count(self) -> int:
        """Return how many references to the state there are, this object's own included."""
        return sys.getrefcount(self._state)

    def _leave_prelude(self) -> None:
        if self._live.main.active or self._live.main.children:
            msg = f"run {self._live.name}: steps are still open where turns begin; await them first"
            raise StateError(msg)

    def _encode(self, state: S) -> bytes:
        with self._saying():
            return self._codec.encode(state)

    def _write(self, state: S) -> bytes:
        with self._saying():
            return self._codec.encode_unchecked(state)

    @contextmanager
    def _saying(self) -> Generator[None]:
        try:
            yield
        except EncodingError as error:
            msg = f"run {self._live.name}: the state cannot be saved: {error}"
            raise StateError(msg) from None

    def _come_back(self, data: bytes) -> Any:
        """Return the state that was saved; where the code wants another type by now, the run is parked for code."""
        try:
            return self._codec.decode(data)
        except EncodingError as error:
            live, kind, shown = self._live, self._kind.__name__, data[:_SHOWN_BYTES].decode(errors="replace")
            text = f"the state saved at the end of turn {self._done} does not come back as a {kind}: {error}"
            diff = f"at run.turns\n- recorded: {shown}\n+ called:   {kind}"
        live.stop_with(Halt(to="code", text=text, diff=diff))
        self._branch.passing = live.signal()
        raise self._branch.passing

    def _decode(self, data: bytes) -> Any:
        try:
            return self._codec.decode(data)
        except EncodingError as error:
            msg = f"run {self._live.name}: the state does not come back as a {self._kind.__name__}: {error}"
            raise StateError(msg) from None


def park_unasked(live: Live, keys: list[str], where: str) -> None:
    """Recorded steps that the code no longer asks for: park the run with a diff."""
    shown = keys[:10]
    lines: list[str] = []
    for key in shown:
        past = live.history.steps.get(key)
        lines.append(f"- recorded: {past.call if past is not None and past.call else key}")
    more = f"\n  and {len(keys) - len(shown)} more" if len(keys) > len(shown) else ""
    diff = f"by {where}\n" + "\n".join(lines) + more + "\n+ called:   nothing"
    text = f"the code reached {where} without asking for {len(keys)} recorded step{'s' if len(keys) > 1 else ''}"
    live.stop_with(Halt(to="code", text=text, diff=diff, step=keys[0]))


def _refuse_immutable(name: str, default: object) -> None:
    config = getattr(type(default), "__struct_config__", None)
    parameters = getattr(type(default), "__dataclass_params__", None)
    model: dict[str, Any] = getattr(type(default), "model_config", None) or {}
    name_of = type(default).__name__
    frozen = (
        (config is not None and config.frozen)
        or (parameters is not None and parameters.frozen)
        or bool(model.get("frozen"))
    )
    if isinstance(default, _IMMUTABLE) or frozen:
        msg = (
            f"run {name}: run.turns needs a state that is changed in place; {name_of} is immutable. "
            "Use a dataclass, a msgspec Struct, a pydantic model, a list or a dict."
        )
        raise StateError(msg)


def _state_codec(name: str, kind: type) -> Codec:
    try:
        return codec_for(kind)
    except EncodingError as error:
        msg = f"run {name}: a state of type {kind.__name__} cannot be saved: {error}"
        raise StateError(msg) from None


def _references(core: TurnsCore[Any]) -> int:
    """
    Return how many references to the state the caller holds.

    The loop variable is one. None left means that it was rebound, so the changes sit in an object nobody
    will save. Our own are subtracted as a probe of the same shape counts them.
    """
    return core.count() - _OWN_REFERENCES


class _Probe:
    def __init__(self) -> None:
        self._state = object()

    def count(self) -> int:
        return sys.getrefcount(self._state)


_OWN_REFERENCES = _Probe().count()


class Turns(TurnsCore[S]):
    """The sync iterator."""

    def __iter__(self) -> Turns[S]:
        """Return itself."""
        return self

    def __next__(self) -> S:
        """Save the turn that ended, then start the next."""
        live = self._live
        if self._turn and self._state is not None:
            self._branch.enter("run.turns")
            if self.over():
                raise StopIteration
            references = _references(self)
            with live.lock:
                self._stop_at_drift()
                record = self.end(references)
                for key, question in doubts_left(live, _LEFT_BEHIND):
                    commit_inline(live, key, question)
                commit_inline(live, "", record)
                self.saved()
            self._state = None
        elif not self._turn:
            if self.over():
                raise StopIteration
            with live.lock:
                self._stop_at_drift()
        self.begin()
        self._next = None  # type: ignore[assignment]  # handed over: only the caller and `_state` hold it now
        return self._state  # type: ignore[return-value]

    def _stop_at_drift(self) -> None:
        self.look_for_drift()
        if self._live.halt is not None:
            self._live.driver.hold(Suspend("halt"), self._branch)  # type: ignore[attr-defined]


class AsyncTurns(TurnsCore[S]):
    """The async iterator."""

    def __aiter__(self) -> AsyncTurns[S]:
        """Return itself."""
        return self

    async def __anext__(self) -> S:
        """Save the turn that ended, then start the next."""
        if self._turn and self._state is not None:
            self._branch.enter("run.turns")
            if self.over():
                raise StopAsyncIteration
            await self._save(_references(self))
            self._state = None
        elif not self._turn:
            if self.over():
                raise StopAsyncIteration
            await self._stop_at_drift()
        self.begin()
        self._next = None  # type: ignore[assignment]
        return self._state  # type: ignore[return-value]

    async def _stop_at_drift(self) -> None:
        self.look_for_drift()
        if self._live.halt is None:
            return
        driver: Any = self._live.driver
        driver.enter_op(self._branch)
        try:
            await driver.hold(Suspend("halt"), self._branch)
        finally:
            driver.leave_op(self._branch)

    async def _save(self, references: int) -> None:
        await self._stop_at_drift()
        driver: Any = self._live.driver
        record = self.end(references)
        for key, question in doubts_left(self._live, _LEFT_BEHIND):
            await driver.commit(key, question)
        await driver.commit("", record)
        self.saved()
