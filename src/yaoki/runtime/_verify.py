"""A verdict on an output, from whoever may decide: a command, a schema, a function; never the model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from yaoki.classify import redact
from yaoki.codec import canonical
from yaoki.errors import DeclarationError, EncodingError, Unverified
from yaoki.records import Effect
from yaoki.runtime._signature import Local  # noqa: TC001 - an annotation that is read
from yaoki.runtime._step import fingerprint
from yaoki.runtime._tool import tool

if TYPE_CHECKING:
    from yaoki.runtime._run import AsyncRun, Run
    from yaoki.runtime._tool import Tool

__all__ = [
    "EVIDENCE_MAX",
    "Check",
    "Verdict",
    "about_of",
    "check_name",
    "gated",
    "is_async",
    "judged",
    "judged_async",
    "verify_tool",
]

EVIDENCE_MAX = 8_000
"""Characters of evidence that are kept, of its head and its tail."""
_TIMEOUT_S = 600.0
_TIMEOUT_MOST_S = 86_400.0
_REJECTIONS = (AssertionError, ValueError, EncodingError, msgspec.ValidationError)


class Verdict(Struct, frozen=True):
    """What a check says of an output, and why. True exactly if it passed."""

    passed: bool
    evidence: str = ""
    """At most 8,000 characters, redacted; the middle of more is left out."""
    check: str = ""
    """Who says so."""

    def __bool__(self) -> bool:
        """Whether the output is kept."""
        return self.passed


Check: TypeAlias = Callable[[Any], Verdict | bool | Awaitable[Verdict | bool | None] | None]
"""
Takes the output. None and True pass; False does not; nor does raising ValueError (so pydantic's ValidationError) or
AssertionError, with its message as evidence. Anything else it raises is a failure of the check, no verdict.
"""


def check_name(check: object) -> str:
    """Return how a check is called."""
    return str(getattr(check, "name", "") or getattr(check, "__name__", "") or type(check).__name__)


def about_of(output: object, check: object) -> str:
    """
    Return what identifies a verification: who is asked about what.

    Raises:
        DeclarationError: The check is none, or the output cannot be journaled.
    """
    if not callable(check):
        msg = f"run.verify: {check!r} is no check; give a function of the output, or one of yaoki.verify"
        raise DeclarationError(msg)
    try:
        return f"{check_name(check)} {fingerprint('verify', canonical(output))}"
    except EncodingError as error:
        msg = f"run.verify: the output cannot be told from another one, since it cannot be journaled: {error}"
        raise DeclarationError(msg) from None


@functools.lru_cache(maxsize=64)
def _tool_of(timeout_s: float, *, awaited: bool) -> Tool[Any, Any]:
    declared = tool(effect=Effect.READ_ONLY, timeout_s=timeout_s, name="run.verify")
    if awaited:
        return cast("Tool[Any, Any]", declared(_verify_async))
    return cast("Tool[Any, Any]", declared(_verify))


def _verify(about: str, check: Local[Any], output: Local[Any]) -> Verdict:  # noqa: ARG001 - its identity
    return judged(check, output)


async def _verify_async(about: str, check: Local[Any], output: Local[Any]) -> Verdict:  # noqa: ARG001 - its identity
    return await judged_async(check, output)


def verify_tool(check: object, *, awaited: bool) -> Tool[Any, Any]:
    """
    Return the tool that asks a check: READ_ONLY, so repeated after a death, and retried where the check itself fails.

    Raises:
        DeclarationError: An async check in a plain loop; a `timeout_s` that is no bound.
    """
    if not awaited and is_async(check):
        msg = f"run.verify: {check_name(check)} is async, but its loop is plain `def`"
        raise DeclarationError(msg)
    timeout_s = getattr(check, "timeout_s", _TIMEOUT_S)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= _TIMEOUT_MOST_S:
        msg = f"run.verify: {check_name(check)}.timeout_s is {timeout_s!r}; it lies above 0, and at most a day"
        raise DeclarationError(msg)
    return _tool_of(float(timeout_s), awaited=awaited)


def is_async(check: object) -> bool:
    """Whether a check is awaited."""
    return inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(type(check).__call__)


def judged(check: Any, output: object) -> Verdict:
    """Ask a plain check; what it raises, but for a rejection, propagates."""
    try:
        return _verdict(check, check(output))
    except _REJECTIONS as error:
        return _rejected(check, error)


async def judged_async(check: Any, output: object) -> Verdict:
    """Ask any check, a plain one in a thread; one with `end` is told when nobody waits for it any more."""
    import asyncio

    if is_async(check):
        try:
            return _verdict(check, await check(output))
        except _REJECTIONS as error:
            return _rejected(check, error)
    try:
        return await asyncio.to_thread(judged, check, output)
    except asyncio.CancelledError:
        end = getattr(check, "end", None)
        if end is not None:
            end()
        raise


def _verdict(check: object, said: object) -> Verdict:
    if isinstance(said, Verdict):
        return Verdict(said.passed, _bounded(said.evidence), said.check or check_name(check))
    if said is None or isinstance(said, bool):
        return Verdict(said is not False, "" if said is not False else "it said no", check_name(check))
    msg = f"run.verify: {check_name(check)} returned {type(said).__name__}; a check returns a Verdict, a bool or None"
    raise DeclarationError(msg)


def _rejected(check: object, error: Exception) -> Verdict:
    name = type(error).__name__
    return Verdict(passed=False, evidence=_bounded(f"{name}: {error}"), check=check_name(check))


def _bounded(evidence: str) -> str:
    text = redact(evidence)
    if len(text) <= EVIDENCE_MAX:
        return text
    half = EVIDENCE_MAX // 2 - 20
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"


def _kept(verdict: Verdict, value: object) -> object:
    """Return the loop's value if the gate lets it through."""
    if not verdict.passed:
        msg = f"{verdict.check} does not accept the result: {verdict.evidence or 'it gave no reason'}"
        raise Unverified(msg, verdict.evidence, value)
    return value


def gated(fn: Callable[..., Any], check: object) -> Callable[..., Any]:
    """Return a loop's function whose value must pass before its run completes."""
    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def verified_async(run: AsyncRun, /, *args: Any, **kwargs: Any) -> object:
            value = await fn(run, *args, **kwargs)
            return value if run.capped else _kept(await run.verify(value, cast("Check", check)), value)

        return verified_async

    @functools.wraps(fn)
    def verified(run: Run, /, *args: Any, **kwargs: Any) -> object:
        value = fn(run, *args, **kwargs)
        return value if run.capped else _kept(run.verify(value, cast("Check", check)), value)

    return verified
