"""What `Run` and `AsyncRun` share: everything that needs no waiting."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Raw

from yaoki.codec import codec_for
from yaoki.errors import DeclarationError, EncodingError, OutsideBranch, StepFailed
from yaoki.records import ABSENT, Gap, Hold, Record, Refused, Spend, Value
from yaoki.runtime import _context
from yaoki.runtime._effects import Suspend
from yaoki.runtime._fan import branch_names
from yaoki.runtime._ladder import drifted
from yaoki.runtime._live import Branch, Live
from yaoki.runtime._mailbox import TAKEN, Taken, data_of, taken_of
from yaoki.runtime._notes import notes_of
from yaoki.runtime._step import fingerprint
from yaoki.runtime._sync import commit_inline, cut_branch, poll_posts
from yaoki.runtime._toolbox import Settled, ToolCall, ToolResult, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from uuid import UUID

    from yaoki.codec import Codec
    from yaoki.records import Failure

__all__ = ["RunBase", "escape", "refuse_signal_name", "settled"]

_CALLS_MOST = 128
_KEY_CHARS = 100
_SLEEP_MOST_S = 10 * 366 * 86_400
_SPENT_MOST = 10**9
_SHOWN_BYTES = 200


class RunBase:
    """What both share: everything that needs no waiting."""

    def __init__(self, live: Live, *, restart_at_checkpoint: bool = False) -> None:
        self._live = live
        self._restart = restart_at_checkpoint

    @property
    def id(self) -> str:
        """The run's id."""
        return self._live.name

    @property
    def failures(self) -> list[Failure]:
        """
        Failures met in this turn so far, and before the first, also those that healed; oldest first, at most 1,000.

        Deaths of the process are left out. How far it had got is recorded, so that a replay sees the same.
        """
        history = self._live.history
        seq: int = self._recorded("failures", lambda: history.seq)
        return history.failures_at(seq)

    @property
    def replanned(self) -> list[Failure]:
        """Why earlier passes of this run failed, oldest first: `@loop(replans_max=)` lets it try another way."""
        return list(self._live.history.replanned)

    @property
    def remaining(self) -> dict[str, float]:
        """What is left of each bounded budget, by field. Recorded, so that a replay sees the same."""
        live = self._live

        def read() -> dict[str, float]:
            budget, spent = live.budget, live.history.spent
            left = {field: budget.left(spent, field) for field in budget.as_dict() if field != "wall_s"}
            if budget.wall_s is not None:
                left["wall_s"] = max(0.0, budget.wall_s - live.history.elapsed_wall_s(live.now_ms()))
            return left

        found: dict[str, float] = self._recorded("remaining", read)
        return found

    def notes(self) -> str:
        """
        Return what failed and has not succeeded since, as one message for a model; nothing if there is nothing.

        The newest 10 calls, a line each: bounded. Recorded, so that a replay reads the same.
        """
        found: str = self._recorded("notes", lambda: notes_of(self._live.history))
        return found

    @property
    def capped(self) -> str:
        """The budget that was used up as the loop's turns ended, as `budget.turns`; nothing while there is more."""
        return self._live.capped

    def now(self) -> datetime:
        """Return the time, UTC; a replay sees the same."""
        found: int = self._recorded("now", self._live.now_ms)
        return datetime.fromtimestamp(found / 1000, UTC)

    def random(self) -> float:
        """Return a random number in [0, 1); a replay sees the same."""
        found: float = self._recorded("random", self._live.clock.rng().random)
        return found

    def uuid(self) -> UUID:
        """Return a fresh id; a replay sees the same."""
        from uuid import UUID

        found: str = self._recorded("uuid", self._live.clock.new_id)
        return UUID(found)

    def gap(self, text: str) -> None:
        """Note that something is missing from the result; it stands on the receipt. At most 2,000 characters."""
        self._once("gap", lambda at: Gap(at=at, text=_whole(text[:2000])))

    def spend(self, *, calls: int = 0, tokens: int = 0, cost_usd: float = 0.0) -> None:
        """
        Report what the loop used of its budget itself; counted once, also when replayed.

        Args:
            calls: A whole number, at most 10^9.
            tokens: A whole number, at most 10^9.
            cost_usd: Finite and not negative, at most 10^9.

        Raises:
            DeclarationError: An amount that is none; nothing was counted.
        """
        amounts: dict[str, object] = {"calls": calls, "tokens": tokens, "cost_usd": cost_usd}
        for name, amount in amounts.items():
            if not isinstance(amount, (int, float) if name == "cost_usd" else int) or isinstance(amount, bool):
                msg = f"run.spend: {name}={amount!r} is no {'number' if name == 'cost_usd' else 'whole number'}"
                raise DeclarationError(msg)
            if not 0 <= amount <= _SPENT_MOST:
                msg = f"run.spend: {name}={amount!r} lies between 0 and {_SPENT_MOST:,}"
                raise DeclarationError(msg)
        spend = {"calls": int(calls), "tokens": int(tokens), "cost_usd": float(cost_usd)}
        self._once("spend", lambda at: Spend(at=at, **spend))  # type: ignore[arg-type]

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """
        Name a branch for the steps inside; in a task you started, the only way to call steps.

        Raises:
            OutsideBranch: Called outside the run.
        """
        parent = self._place("scope", own=False)
        child = parent.child(branch_names(parent, f"scope[{escape(name)}]"))
        child.owner = self._live.driver.whoami()
        branches: set[Branch] | None = getattr(self._live.driver, "branches", None)
        if branches is not None:
            branches.add(child)
        # Also for a scope in a task of its own: what the parent does between steps, a resume repeats.
        apart = child.owner != parent.owner
        parent.children += 1
        parent.apart += apart
        token = _context.enter(child)
        try:
            yield
        finally:
            _context.leave(token)
            parent.children -= 1
            parent.apart -= apart
            parent.passing = parent.passing or child.passing  # also one that was swallowed inside
            if branches is not None:
                branches.discard(child)
                driver: Any = self._live.driver
                driver.check_quiet()

    def _signal_wait(self, name: str, into: Any, timeout_s: float | None) -> tuple[Branch, str, int]:
        """Record that the loop waits for a signal from now on; return the branch, the wait's identity and its end."""
        if timeout_s is not None and not 0 <= timeout_s <= _SLEEP_MOST_S:
            msg = f"run.wait_signal: timeout_s={timeout_s} lies between 0 and {_SLEEP_MOST_S:,} (ten years)"
            raise DeclarationError(msg)
        refuse_signal_name(name)
        schema = ABSENT if into is None else Raw(msgspec.json.encode(codec_for(into).schema()))

        def make(at: int) -> Hold:
            until = 0 if timeout_s is None else at + int(timeout_s * 1000)
            return Hold(at=at, since=at, until=until, reason="signal", call=name, schema=schema)

        branch = self._place("wait_signal")
        key, record = self._once("wait_signal", make)
        if not isinstance(record, Hold) or record.call != name:
            recorded = f"run.wait_signal({record.call!r})" if isinstance(record, Hold) else type(record).__name__
            self._drift(key, recorded, f"run.wait_signal({name!r})")
        return branch, key, record.until

    def _signal_taken(self, branch: Branch, key: str, name: str, until_ms: int, into: Any) -> tuple[bool, Any]:
        """
        Return whether the wait is over, and the signal's value; the oldest one nobody took is taken, and recorded.

        Raises:
            TimeoutError: It is over without a signal.
            EncodingError: The signal is not of that type; that is recorded, and it is not taken.
        """
        live = self._live
        codec = codec_for(Any if into is None else into)
        with live.lock:
            point = live.history.points.get(f"{key}{TAKEN}")
            if point is None and branch.ended_before:
                return False, None
            found = None if point is None else taken_of(point[1])
            if found is None or (found.misfit and live.history.signals.untaken_at(found.misfit) is not None):
                found = self._take_signal(key, name, until_ms, codec, found)
        if found is None:
            return False, None
        if found.misfit:
            raise EncodingError(found.why)
        if not found.seq:
            msg = f"run {live.name}: no signal {name!r} came in time"
            raise TimeoutError(msg)
        try:
            value = codec.decode(found.value)
        except EncodingError as error:
            shown = bytes(found.value)[:_SHOWN_BYTES].decode(errors="replace")
            self._drift(key, f"signal {name!r} = {shown}", f"run.wait_signal({name!r}) -> {codec.type_name} ({error})")
        return True, value

    def _take_signal(self, key: str, name: str, until_ms: int, codec: Codec, known: Taken | None) -> Taken | None:
        """Record how the wait ends, unless it goes on; one that found a signal of another type looks at it anew."""
        live = self._live
        if live.journal.changed():
            poll_posts(live)
        seq, signal = live.history.signals.oldest(name) or (0, None)
        if signal is not None and until_ms and signal.at >= until_ms:
            seq, signal = 0, None  # it came too late: what a run is told does not hang on when it looks
        if signal is None and not (until_ms and live.now_ms() >= until_ms):
            return None
        ending = Taken(seq=seq, value=data_of(signal))
        try:
            codec.decode(ending.value)
        except EncodingError as error:
            if signal is not None:
                why = f"run {live.name}: signal {name!r} is not what run.wait_signal(into=…) takes: {error}"
                ending = Taken(misfit=seq, why=why)
        if known is None or not ending.misfit:
            self._flush()
            commit_inline(live, f"{key}{TAKEN}", Value(at=live.now_ms(), value=Raw(msgspec.json.encode(ending))))
        return ending

    def _signal_suspend(self, branch: Branch, name: str, until_ms: int) -> Suspend:
        """Return how a branch waits for a signal; where a `run.timeout` ended that, in the journal, for this one."""
        if branch.ended_before:
            return Suspend("replay")
        return Suspend("signal", until_ms=until_ms, text=f"signal {name}")

    # --- shared machinery

    def _place(self, what: str, *, own: bool = True) -> Branch:
        here = _context.here()
        if not isinstance(here, Branch) or here.live is not self._live:
            msg = f"run {self._live.name}: run.{what} was used outside its loop; nothing was executed"
            raise OutsideBranch(msg)
        if own:
            here.enter(f"run.{what}")
            if here.cut:
                cut_branch(self._live, f"run.{what}")
        return here

    def _recorded(self, name: str, read: Callable[[], Any]) -> Any:
        key, record = self._once(name, lambda at: Value(at=at, value=Raw(msgspec.json.encode(read()))))
        if not isinstance(record, Value):
            self._drift(key, type(record).__name__.lower(), f"run.{name}")
        return msgspec.json.decode(record.value)

    def _once(self, name: str, make: Callable[[int], Record]) -> tuple[str, Record]:
        """Return the recorded point, or record it now."""
        live = self._live
        branch = self._place(name)
        key = branch.next_key(f"run.{name}")
        with live.lock:
            live.ask(key)
            found = live.history.points.get(key)
            if found is not None:
                return key, found[1]
            left_out = "" if branch.replaying else branch.next_left_out()
            if left_out:
                self._drift(key, left_out, f"run.{name}")
            self._flush()
            record = make(live.now_ms())
            commit_inline(live, key, record)
        return key, record

    def _flush(self) -> None:
        self._live.flush()

    def _drift(self, key: str, recorded: str, called: str) -> NoReturn:
        steps = drifted(self._live, key, recorded, called)
        next(steps)
        raise self._live.signal()

    def _sleep_hold(self, seconds: float) -> tuple[Branch, int]:
        if not 0 <= seconds <= _SLEEP_MOST_S:
            msg = f"run.sleep({seconds}): seconds lie between 0 and {_SLEEP_MOST_S:,} (ten years)"
            raise DeclarationError(msg)

        def make(at: int) -> Hold:
            return Hold(at=at, since=at, until=at + int(seconds * 1000), reason="sleep")

        branch = self._place("sleep")
        _, record = self._once("sleep", make)
        assert isinstance(record, Hold)
        return branch, record.until

    def _timeout_key(self, seconds: float) -> tuple[Branch, str]:
        if not 0 < seconds <= _SLEEP_MOST_S:
            msg = f"run.timeout({seconds}): seconds are above zero, and at most {_SLEEP_MOST_S:,} (ten years)"
            raise DeclarationError(msg)
        branch = self._place("timeout")
        return branch, branch.next_key("run.timeout")

    def _refuse_call(self, branch: Branch, call: ToolCall, error: StepFailed) -> ToolResult:
        """Record a model's call that could not become an attempt, and tell the model."""
        key = branch.next_key("run.refused")
        live = self._live
        with live.lock:
            left_out = "" if branch.replaying or key in live.history.points else branch.next_left_out()
            live.ask(key)
            shown = _whole(f"{call.name}(…)"[:300])
            if left_out:
                self._drift(key, left_out, shown)
            if key not in live.history.points:
                self._flush()
                call_id = _whole(str(call.id)[:200])
                refused = Refused(at=live.now_ms(), failure=error.failure, call=shown, call_id=call_id)
                commit_inline(live, key, refused)
        return result_of(call, error)

    def _call_keys(self, calls: Sequence[ToolCall]) -> list[str]:
        if len(calls) > _CALLS_MOST:
            msg = f"run.call_tools takes at most {_CALLS_MOST} calls at once; there are {len(calls)}"
            raise DeclarationError(msg)
        return [str(i) for i in range(len(calls))]


_NAME_MAX = 200


def refuse_signal_name(name: str) -> None:
    """Refuse what is no signal's name."""
    if not (0 < len(name) <= _NAME_MAX and name.isprintable()):
        msg = f"signal {name[:40]!r}: its name has 1 to {_NAME_MAX} printable characters"
        raise DeclarationError(msg)


def _whole(text: str) -> str:
    """Return a text as it can be stored: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def settled(outcome: object) -> Settled[Any]:
    """Return a branch's end: its value, or the failure of the step that ended it."""
    return Settled(failure=outcome.failure) if isinstance(outcome, StepFailed) else Settled(value=outcome)


def escape(text: str) -> str:
    """Return a text as part of an identity, where `/`, `#` and `!` mean something."""
    for mark in "%/#!":
        text = text.replace(mark, f"%{ord(mark):02x}")
    if len(text) > _KEY_CHARS:  # long keys stay apart by their hash
        return f"{text[: _KEY_CHARS - 25]}~{fingerprint('key', text.encode())}"
    return text
