"""
What a person should know about a loop before it runs. Pure: it looks at declarations and code, and calls nothing.

Shown by `yaoki check`, and by the workers before a run starts. A finding is no refusal: what cannot work
raises `DeclarationError` where it is declared, or in `Loop.resolve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_origin

from msgspec import Struct

from yaoki.policy import Retry
from yaoki.records import Effect
from yaoki.runtime._clients import keepers_of, retries_of
from yaoki.runtime._prices import prices_known
from yaoki.runtime._reach import codes_of, functions_of
from yaoki.runtime._signature import hints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from yaoki.runtime._clients import Keeper
    from yaoki.runtime._loop import Loop
    from yaoki.runtime._reach import Reached
    from yaoki.runtime._tool import Tool

__all__ = ["Finding", "findings", "place_of", "texts", "tool_findings"]


class Finding(Struct, frozen=True, kw_only=True):
    """One thing to know, about one tool or loop."""

    level: Literal["note", "warn"]
    """note: works as declared, and may surprise · warn: something declared has no effect, or more than it says."""
    code: str
    subject: str
    text: str
    """What it is and what to do about it, without the subject."""
    file: str = ""
    line: int = 0


_UNDECLARED = (
    "undeclared, so AT_MOST_ONCE: never sent again when its outcome is unknown; "
    "a person is asked. Takes a key, or only reads? Declare it: @tool(effect=…)"
)
_REPEATABLE = (Effect.READ_ONLY, Effect.IDEMPOTENT)
_TIMEOUT_S = 120
_SPENDS = ("cost_usd", "tokens")


def findings(loop: Loop[Any, Any], reached: Sequence[Reached]) -> list[Finding]:
    """Return what to know about the loop and the tools it reaches, by tool, in the order its code names them."""
    found: list[Finding] = []
    for one in reached:
        file, number = place_of(one.tool.fn)
        found += [_found(said, one.tool.name, file, number) for said in _about_tool(one)]
        found += [_found(said, one.tool.name, file, number) for said in _about_fit(loop, one.tool)]
    file, number = place_of(loop.fn)
    found += [_found(said, loop.name, file, number) for said in _about_loop(loop, reached)]
    return found


def _found(said: _Said, subject: str, file: str, number: int) -> Finding:
    return Finding(level=said.level, code=said.code, subject=subject, text=said.text, file=file, line=number)


def tool_findings(reached: Reached) -> list[Finding]:
    """Return what to know about a tool alone, whichever loop uses it."""
    file, number = place_of(reached.tool.fn)
    return [_found(said, reached.tool.name, file, number) for said in _about_tool(reached)]


def texts(found: Sequence[Finding]) -> list[str]:
    """Return the findings as lines, those that say the same of several tools as one."""
    subjects: dict[str, list[str]] = {}
    for one in found:
        subjects.setdefault(one.text, []).append(one.subject)
    return [f"{', '.join(names)}: {text}" for text, names in subjects.items()]


def place_of(fn: Callable[..., Any]) -> tuple[str, int]:
    """Return the file and the line a function begins at; `("", 0)` if it has no source."""
    codes = codes_of(fn)
    return (codes[0].co_filename, codes[0].co_firstlineno) if codes else ("", 0)


class _Said(NamedTuple):
    level: Literal["note", "warn"]
    code: str
    text: str


def _note(code: str, text: str) -> _Said:
    return _Said("note", code, text)


def _warn(code: str, text: str) -> _Said:
    return _Said("warn", code, text)


def _about_tool(reached: Reached) -> Iterator[_Said]:
    tool = reached.tool
    if tool.undeclared:
        yield _note("effect.undeclared", _UNDECLARED)
    yield from _about_repair(tool)
    for keeper in keepers_of(reached):
        yield _warn("client.retries", _about_client(tool, keeper))
    yield from _about_ladder(tool)


def _about_client(tool: Tool[Any, Any], keeper: Keeper) -> str:
    attempts = tool.retry.attempts_max
    return (
        f"its client {keeper.name} ({keeper.kind}) retries {_times(keeper.retries)} by itself, so "
        f"{_times(attempts, 'attempt', 'attempts')} can be {attempts * (keeper.retries + 1)} requests, which no "
        f"budget counts. Switch that off: {keeper.off}"
    )


def _about_repair(tool: Tool[Any, Any]) -> Iterator[_Said]:
    if tool.agent.validate is None or not tool.agent.repairs_max:
        return
    if not callable(tool.effect) and (tool.check is not None or tool.effect not in _REPEATABLE):
        text = (
            f"validate= rejects what a {tool.effect_of({}).name} call has done already, so it is never asked again, "
            "whatever repairs_max says: a person is asked. Only reads? Declare effect=Effect.READ_ONLY; "
            "else set repairs_max=0"
        )
        yield _warn("repair.never", text)
    elif "feedback" not in tool.params.injected:
        text = (
            "validate= may reject its output, but it cannot be told why, so it is never asked again. "
            "Add `*, feedback: Feedback | None = INJECTED`, or set repairs_max=0"
        )
        yield _warn("repair.untold", text)


def _about_ladder(tool: Tool[Any, Any]) -> Iterator[_Said]:
    retry = tool.retry
    declared = retry != Retry() or tool.timeout_s != _TIMEOUT_S
    fitting = int(retry.deadline_s // tool.timeout_s) if tool.timeout_s else retry.attempts_max
    if declared and retry.attempts_max > 1 and fitting < retry.attempts_max:
        text = (
            f"when each attempt takes its timeout_s={tool.timeout_s:g}, {fitting or 'not one'} of "
            f"attempts_max={retry.attempts_max} {'fits' if fitting <= 1 else 'fit'} in "
            f"deadline_s={retry.deadline_s:g}. Lower timeout_s, or raise Retry(deadline_s=…)"
        )
        yield _note("ladder.deadline", text)


def _about_fit(loop: Loop[Any, Any], tool: Tool[Any, Any]) -> Iterator[_Said]:
    """Say where one step alone, at its worst, wants more than the whole run may use."""
    budget, retry = loop.budget, tool.retry
    retries = retry.attempts_max - 1
    if budget.retries is not None and retries > budget.retries:
        yield _more(loop, _times(retries, "retry", "retries"), "retries", budget.retries)
    if budget.calls is not None and retry.attempts_max > budget.calls:
        yield _more(loop, _times(retry.attempts_max, "attempt", "attempts"), "calls", budget.calls)
    worst_s = retry.worst_case_s(tool.timeout_s)
    if budget.wall_s is not None and worst_s > budget.wall_s:
        yield _more(loop, f"{worst_s:,.0f} s", "wall_s", budget.wall_s)
    reserve = tool.agent.reserve
    for field, amount in () if reserve is None or callable(reserve) else reserve.items():
        bound = getattr(budget, field)
        if bound is not None and amount * retry.attempts_max > bound:
            yield _more(loop, f"{amount * retry.attempts_max:g} {field} by what its attempts reserve", field, bound)
    waits_s = retry.worst_case_s(0)
    if budget.retry_wait_s is not None and waits_s > budget.retry_wait_s:
        yield _more(loop, f"{waits_s:,.0f} s of waits", "retry_wait_s", budget.retry_wait_s)


def _more(loop: Loop[Any, Any], wants: str, field: str, bound: float) -> _Said:
    text = (
        f"one step can take {wants}, and all of {loop.name} has Budget({field}={bound:g}). "
        f"Give it a shorter Retry, or raise {field}"
    )
    return _note(f"budget.{field}", text)


def _about_loop(loop: Loop[Any, Any], reached: Sequence[Reached]) -> Iterator[_Said]:
    for name, value in loop.locals.items():
        known = retries_of(value)
        if known is not None and known[0] > 0:
            text = f"its client {name} retries {_times(known[0])} by itself, below every attempt. Switch that off: "
            yield _warn("client.retries", text + known[1])
    bounds = [field for field in _SPENDS if getattr(loop.budget, field) is not None]
    if bounds and not _reports(loop, reached):
        text = (
            f"has Budget({', '.join(f'{field}=…' for field in bounds)}), and nothing it calls reports what was spent, "
            "so that bound never holds. Say what a tool's result used, @tool(agent=ForModel(usage=…)), or report it "
            "after each call: run.spend(tokens=…, cost_usd=…)"
        )
        yield _warn("budget.unreported", text)
    elif loop.budget.cost_usd is not None and not prices_known():
        reading = [one.tool.name for one in reached if one.tool.agent.usage is None and _may_say_usage(one.tool)]
        if reading:
            text = (
                f"has Budget(cost_usd=…), and {', '.join(reading)} reports tokens, which nothing here can price, so "
                "they do not count. pip install yaoki[prices], or ForModel(usage=…) with a cost_usd"
            )
            yield _warn("budget.unpriced", text)


def _reports(loop: Loop[Any, Any], reached: Sequence[Reached]) -> bool:
    """Whether the code of the loop or of a tool names `spend`, or a tool says what it used."""
    agents = [one.tool.agent for one in reached]
    if any(agent.usage is not None or agent.reserve is not None for agent in agents):
        return True
    if any(_may_say_usage(one.tool) for one in reached):
        return True
    roots = [loop.fn, *(one.tool.fn for one in reached)]
    return any("spend" in code.co_names for root in roots for fn in functions_of(root) for code in codes_of(fn))


def _may_say_usage(tool: Tool[Any, Any]) -> bool:
    """Whether its results are looked at for what they used, and may say so: one with a `usage`, or of any shape."""
    if not tool.counts_usage:
        return False
    hint: Any = (hints_of(tool.fn) or {}).get("return", Any)
    fields: Any = getattr(hint, "__annotations__", None) or getattr(hint, "model_fields", None) or ()
    plain = (str, int, float, bool, bytes, type(None), list, tuple)
    return hint is Any or "usage" in fields or not (hint in plain or get_origin(hint) in plain or fields)


def _times(count: int, noun: str = "time", many: str = "times") -> str:
    return f"{count} {noun if count == 1 else many}"
