"""How a run ended, as facts, and what differs between an end after deaths and the undisturbed one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from yaoki.records import Begin, Effect, Settle, Spend, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yaoki import records
    from yaoki.runtime import Receipt
    from yaoki.testing._calls import CallLog
    from yaoki.testing._world import Outside

__all__ = ["Ending", "differences", "ending_of"]

_NANO_USD = 2e-9
_BOUNDS = ("calls", "retries", "turns", "tokens", "cost_usd")


class Ending(Struct, kw_only=True):
    """What is held against the undisturbed run; JSON, written by the life that saw the end."""

    status: str
    value: Any = None
    partial: Any = None
    waits_for: str = ""
    stopped_by: str = ""
    text: str = ""
    """Why the run is where it is; with the diff, where it waits for code."""
    spent: dict[str, float]
    budget: dict[str, float]
    people: list[tuple[str, str, str]]
    """Questions to people that no doubt raised: why, what, verdict."""
    unanswered: list[str]
    deeds: list[tuple[str, str, int]]
    """Effects as the world has them: what, key, how often."""
    effects: list[tuple[str, str, int]]
    """Effects as they left the tools: tool, key, how often."""
    cut: list[tuple[str, str, int]]
    """Calls that a death ended inside: each may have had its effect."""
    entered: int
    """Calls that were really made, by every process of the case together."""
    begun: int
    """Attempts as the journal has them."""
    tokens: float
    cost_usd: float
    """What those used: reserved in the begin, until settled with what was used."""
    keys: list[tuple[str, str]]
    """Action, slot and rung, and the key of it."""
    trail: list[tuple[str, str]] = []
    """The places this life came by: kind, and where."""


def ending_of(
    receipt: Receipt[Any], entries: list[records.Entry], calls: CallLog, world: Outside | None, budget: dict[str, float]
) -> Ending:
    """Gather the facts of a run that goes on no more."""
    whole: dict[str, Any] = msgspec.json.decode(receipt.to_json())
    begins = [record for _, _, record in entries if isinstance(record, Begin)]
    acted = [begin for begin in begins if begin.effect is not Effect.READ_ONLY and begin.key]
    tokens, cost_usd = _used(entries)
    done: Counter[tuple[str, str]] = Counter() if world is None else world.effects()
    return Ending(
        status=receipt.status.value,
        value=whole["value"],
        partial=whole["partial"],
        waits_for=receipt.waits_for,
        stopped_by=receipt.stopped_by,
        text="\n".join(filter(None, [receipt.text, receipt.diff if receipt.diff != receipt.text else ""])),
        spent=whole["spent"],
        budget=budget,
        people=[(a.why, a.call or a.text, a.verdict) for a in receipt.asks if a.why in ("ask", "approve")],
        unanswered=[ask.text for ask in receipt.asks if not ask.verdict and not ask.has_default],
        deeds=[(what, key, times) for (what, key), times in sorted(done.items())],
        effects=[(tool, key, times) for (tool, key), times in sorted(calls.effects().items())],
        cut=[(tool, key, times) for (tool, key), times in sorted(calls.cut().items())],
        entered=calls.entered(),
        begun=len(begins),
        tokens=tokens,
        cost_usd=cost_usd,
        keys=sorted({(f"{b.action} slot {b.slot} rung {b.rung}", b.key) for b in acted}),
    )


def _used(entries: list[records.Entry]) -> tuple[float, float]:
    used: dict[tuple[str, int], dict[str, float]] = {}
    settled: set[tuple[str, int]] = set()
    for seq, key, record in entries:
        if isinstance(record, Begin):
            used[key, record.attempt] = record.reserved or {}
        elif isinstance(record, Settle) and (key, record.attempt) not in settled:
            settled.add((key, record.attempt))
            if record.used is not None:
                used[key, record.attempt] = record.used
        elif isinstance(record, Spend):
            used[key, -seq] = {"tokens": record.tokens, "cost_usd": record.cost_usd}
    return sum(one.get("tokens", 0) for one in used.values()), sum(one.get("cost_usd", 0) for one in used.values())


def differences(ending: Ending, undisturbed: Ending, *, same: Callable[[Any], object], by_key: bool) -> list[str]:
    """Return what differs from the undisturbed end, and what is wrong by itself; one line each."""
    found = _wrong_by_itself(ending)
    if ending.status != undisturbed.status or ending.waits_for != undisturbed.waits_for:
        found.append(f"it is {_state(ending)}, undisturbed {_state(undisturbed)}{_because(ending)}")
        return found
    spent_up = ending.status == State.CAPPED and ending.stopped_by not in ("", "turns")
    for name in ("value", "partial"):
        got, expected = (None if v is None else same(v) for v in (getattr(ending, name), getattr(undisturbed, name)))
        if got != expected and not spent_up:
            found.append(f"{name}: {_short(got)}, undisturbed {_short(expected)}")
    for whose, got, cut, expected in (
        ("in the world", ending.deeds, [], undisturbed.deeds),
        ("by the calls that returned", ending.effects, ending.cut, undisturbed.effects),
    ):
        found += _effects_differing(whose, got, cut, expected, by_key=by_key, fewer=spent_up)
    if ending.people != undisturbed.people and not spent_up:
        found.append(f"people were asked {ending.people}, undisturbed {undisturbed.people}")
    return found


def _effects_differing(
    whose: str,
    got: list[tuple[str, str, int]],
    cut: list[tuple[str, str, int]],
    expected: list[tuple[str, str, int]],
    *,
    by_key: bool,
    fewer: bool,
) -> Iterable[str]:
    """Hold effects against the undisturbed ones; with `fewer`, a budget ran out and some may be missing."""
    done, wanted, open_ = (_counted(one, by_key=by_key) for one in (got, expected, cut))
    for name in sorted(done.keys() | wanted.keys()):
        times, should = done[name], wanted[name]
        if times == should or (times < should and (fewer or times + open_[name] >= should)):
            continue
        if by_key and not should:
            yield f"{name} was done {_times(times)} ({whose}), undisturbed never with this key"
        else:
            yield f"{name} was done {_times(times)} ({whose}), undisturbed {_times(should)}"


def _counted(effects: list[tuple[str, str, int]], *, by_key: bool) -> Counter[str]:
    counted: Counter[str] = Counter()
    for what, key, times in effects:
        counted[f"{what} [{key}]" if by_key else what] += times
    return counted


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _wrong_by_itself(ending: Ending) -> list[str]:
    found: list[str] = []
    spent, budget = ending.spent, ending.budget
    if spent["calls"] < max(ending.entered, ending.begun):
        made = max(ending.entered, ending.begun)
        found.append(f"budget refunded: {made} calls were made, {spent['calls']:g} are counted as spent")
    if spent["tokens"] < ending.tokens:
        found.append(f"budget refunded: {ending.tokens:g} tokens were used, {spent['tokens']:g} are counted as spent")
    if spent["cost_usd"] < ending.cost_usd - _NANO_USD:
        found.append(f"budget refunded: ${ending.cost_usd:.6f} was used, ${spent['cost_usd']:.6f} is counted as spent")
    found += [
        f"budget overspent: {spent[name]:g} of {budget[name]:g} {name}"
        for name in _BOUNDS
        if name in budget and spent[name] > budget[name] + _NANO_USD
    ]
    if ending.entered > ending.begun:
        found.append(f"{ending.entered} calls were made, the journal has the begin of {ending.begun}")
    of: dict[str, str] = {}
    seen: dict[str, str] = {}
    for place, key in ending.keys:
        if of.setdefault(place, key) != key:
            found.append(f"the key of one action changed: {of[place]}, then {key} (action {place})")
        if seen.setdefault(key, place) != place:
            found.append(f"two actions share the key {key}: {seen[key]} and {place}")
    found += [f"nobody answered: {text}" for text in ending.unanswered if State(ending.status).final]
    return found


def _state(ending: Ending) -> str:
    return f"waiting for {ending.waits_for}" if ending.waits_for else ending.status


def _because(ending: Ending) -> str:
    return f": {ending.text}" if ending.text else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:299]}…"  # noqa: PLR2004 - a few lines of a terminal
