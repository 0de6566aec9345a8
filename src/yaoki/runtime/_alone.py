"""
Policy without a run: the same decisions, nothing journaled, the original exception at the end.

The success path is a plain call. Only with the first failure in hand is the ladder entered: a generator of
waits and further calls, driven by a sync or an async loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from yaoki.classify import attempt_timed_out, classify, is_control_flow
from yaoki.errors import OutsideRun
from yaoki.policy import Ladder, Retry, decide
from yaoki.records import Effect, Executed, Failure, strongest
from yaoki.runtime import _context
from yaoki.runtime._waits import SYSTEM_CLOCK, wait_sync

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._tool import Tool

__all__ = [
    "AttemptTimeout",
    "Pause",
    "Plan",
    "ask_check",
    "call_alone",
    "happened_on_wire",
    "plan_of",
    "recover",
    "recover_sync",
]


class Pause(Struct, frozen=True):
    """Wait so long, then make the call again (or ask the check first)."""

    delay_s: float
    check: bool = False


class Plan(Struct):
    """What a ladder outside a run needs to know about its call."""

    name: str
    effect: Effect
    retry: Retry
    timeout_s: float | None
    on: tuple[type[BaseException], ...] | None = None
    has_check: bool = False
    check_after_s: float = 5


def recover(plan: Plan, error: BaseException, started_ms: int) -> Generator[Pause, BaseException | None, None]:
    """
    Decide after each failure; yield the pause before the next attempt, be sent its exception, or closed.

    Returning means giving up: the caller raises the last exception, which by then carries a note. A
    check that says "not happened" is reported by sending None.
    """
    clock = SYSTEM_CLOCK
    executed, previous, same, attempts = Executed.NO, "", 0, 1
    while True:
        now_ms = clock.now_ms()
        if is_control_flow(error) or (plan.on is not None and not isinstance(error, plan.on)):
            return
        failure = classified(error, plan.timeout_s)
        if plan.on is not None and failure.kind.value in _BY_HAND:
            failure = _as_transient(failure)
        executed = strongest(executed, failure.executed)
        if not isinstance(error, _CheckedError):  # that one was counted before its check was asked
            same = same + 1 if failure.fingerprint == previous else 1
        previous = failure.fingerprint
        ladder = Ladder(
            effect=plan.effect,
            executed=executed,
            attempts=attempts,
            attempts_max=plan.retry.attempts_max,
            deadline_ms=started_ms + int(plan.retry.deadline_s * 1000),
            base_s=plan.retry.base_s,
            cap_s=plan.retry.cap_s,
            unknown_attempts=plan.retry.unknown_attempts,
            same_error_limit=plan.retry.same_error_limit,
            same_error=same,
            has_check=plan.has_check,
            check_after_s=plan.check_after_s,
        )
        decision = decide(failure, ladder, now_ms=now_ms, rng=clock.rng())
        if decision.do == "check":
            verdict = yield Pause(max(0, decision.next_at - now_ms) / 1000, check=True)
            if verdict is not None:
                return
            executed = Executed.NO
            error = _not_happened(error, failure)
            continue
        if decision.do not in ("retry", "repair"):
            _add_note(error, plan.name, attempts, clock.now_ms() - started_ms, failure, decision.why)
            return
        attempts += 1
        again = yield Pause(max(0, decision.next_at - now_ms) / 1000)
        assert again is not None
        error = again


_BY_HAND = frozenset({"unknown", "permanent", "programming"})


def _as_transient(failure: Failure) -> Failure:
    """`on=` is the caller's word that these can heal."""
    from yaoki.records import FailureKind

    return _with(failure, kind=FailureKind.TRANSIENT)


def _with(failure: Failure, **changes: Any) -> Failure:
    import msgspec

    return msgspec.structs.replace(failure, **changes)


class _CheckedError(Exception):
    """Carries a failure whose action a check found not to have happened."""


def _not_happened(error: BaseException, failure: Failure) -> BaseException:
    checked = _CheckedError(str(error))
    checked.failure = _with(failure, executed=Executed.NO)  # type: ignore[attr-defined]
    checked.original = error  # type: ignore[attr-defined]
    return checked


def classified(error: BaseException, timeout_s: float | None) -> Failure:
    """Return what an attempt's exception is; our own attempt timeout is known by its mark."""
    known = getattr(error, "failure", None)
    if isinstance(error, _CheckedError) and isinstance(known, Failure):
        return known
    if isinstance(error, AttemptTimeout):
        return attempt_timed_out(timeout_s or 0.0)
    return classify(error, now_ms=SYSTEM_CLOCK.now_ms())


class AttemptTimeout(TimeoutError):  # noqa: N818 - says what happened
    """An attempt ran into its own `timeout_s`."""


def _add_note(error: BaseException, name: str, attempts: int, took_ms: int, failure: Failure, why: str) -> None:
    times = f"{attempts} attempt" + ("s" if attempts > 1 else "")
    original = getattr(error, "original", error)
    original.add_note(f"yaoki: {name} gave up after {times} in {took_ms / 1000:.1f} s ({failure.reason}; {why})")


def call_alone(
    tool: Tool[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    owner: object = None,
    meant: bool = False,
    key: str = "",
) -> object:
    """
    Use a tool outside any run: its policy alone.

    Args:
        tool: What to call.
        args: By position.
        kwargs: By name, without what is injected.
        owner: A method's `self`.
        meant: Whether it may be called while this process drives a run, whatever its effect.
        key: The idempotency key, for a check; by default a fresh one.

    Raises:
        TypeError: The caller sends a parameter that Yaoki fills in.
        OutsideRun: It needs an approval, or has an effect while this process drives a run, unless it is meant.
    """
    if not meant and tool.approve is not None:
        msg = (
            f"{tool.name} was called without a run, where nobody can allow it; nothing was executed. "
            f"Call it in a loop, or {tool.name}.outside(…) if it is meant without approval."
        )
        raise OutsideRun(msg)
    if not meant and tool.effect is not Effect.READ_ONLY and _context.driving():
        _refuse_outside(tool, args, kwargs)
    injected = tool.params.injected
    if injected:
        if not injected.isdisjoint(kwargs):
            tool.params.bind(args, kwargs)  # raises, as it does inside a run
        kwargs = {**kwargs, **injected_alone(tool, key)}
    if owner is not None:
        args = (owner, *args)
    try:
        return tool.alone(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - classified, and raised again unless it heals
        return recover_sync(tool, args, kwargs, error)


def injected_alone(tool: Tool[Any, Any], key: str = "") -> dict[str, Any]:
    """Return injected arguments for a call without a run: a fresh key, kept through its retries and for its check."""
    values: dict[str, Any] = {
        "idempotency_key": key,
        "feedback": None,
        "timeout_s": tool.timeout_s,
    }
    if not key and "idempotency_key" in tool.params.injected:
        values["idempotency_key"] = SYSTEM_CLOCK.new_id()
    return {name: values[name] for name in tool.params.injected}


def _refuse_outside(tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if tool.effect_of(tool.params.bind(args, kwargs)) is Effect.READ_ONLY:
        return
    msg = (
        f"{tool.name} was called without a run while this process drives one; nothing was executed. A thread or "
        f"pool loses the run's context: call it from the loop, or say that it is meant with {tool.name}.outside(…)."
    )
    raise OutsideRun(msg)


def plan_of(tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
    """Return what the ladder needs to know about a tool's call."""
    effect = tool.effect_of(_given(tool, args, kwargs))
    return Plan(tool.name, effect, tool.retry, tool.timeout_s, None, tool.check is not None, tool.check_after_s)


def _given(tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, object]:
    """Return the arguments by name, without a method's `self` and what was injected."""
    own = args[1:] if tool.is_method else args
    return tool.params.bind(own, {name: value for name, value in kwargs.items() if name not in tool.params.injected})


def recover_sync(
    tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException | None
) -> object:
    """Enter the ladder with the first attempt's exception; return a value or raise the last one."""
    assert error is not None
    ladder = recover(plan_of(tool, args, kwargs), error, SYSTEM_CLOCK.now_ms())
    try:
        pause = next(ladder)
        while True:
            wait_sync(pause.delay_s)
            if pause.check:
                answer = happened_on_wire(ask_check(tool, args, kwargs))
                if answer is not None:
                    return tool.codec.decode(answer)
                pause = ladder.send(None)
                continue
            try:
                return tool.fn(*args, **kwargs)
            except Exception as again:  # noqa: BLE001
                error = again
                pause = ladder.send(again)
    except StopIteration:
        raise error from error.__cause__
    finally:
        # The error's traceback holds this frame: without this the two, and a socket in it, wait for the collector.
        error = None
        ladder.close()


def ask_check(tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask a tool's check about this call; an async check answers with an awaitable."""
    check = tool.check
    assert check is not None
    owner = args[0] if check.is_method else None
    key: str = kwargs.get("idempotency_key", "") if "idempotency_key" in tool.params.injected else ""
    return call_alone(check, (), _given(tool, args, kwargs), owner=owner, meant=True, key=key)


def happened_on_wire(verdict: Any) -> bytes | None:
    """Return the value a check says happened, as JSON, or None."""
    import msgspec

    return None if verdict is None else msgspec.json.encode(verdict["happened"])
