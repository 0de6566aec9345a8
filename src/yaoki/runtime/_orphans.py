"""
Effects that an earlier pass made and this one has not asked for: orphans.

A re-planned pass may want the same thing in other words: `charge(A-1009, 4200)` was done, `charge(A-1009, 42.00)`
is asked for. No key shows that. So while a tool has an orphan, a different call of it is not made unasked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaoki.records import Effect, Executed, Gap, Hold
from yaoki.runtime._doubt import question_of
from yaoki.runtime._effects import Write

if TYPE_CHECKING:
    from collections.abc import Generator

    from yaoki.runtime._effects import EffectOf
    from yaoki.runtime._history import History
    from yaoki.runtime._live import Live
    from yaoki.runtime._past import Past
    from yaoki.runtime._step import Step

__all__ = ["orphan_lines", "orphans_asked_about", "tool_has_orphans"]

_ASKS = frozenset({Effect.AT_MOST_ONCE, Effect.CHECKED})
_SHOWN = 3


def tool_has_orphans(live: Live, step: Step) -> bool:
    """Whether an earlier pass left effects of this very tool."""
    return bool(live.history.stale_tools) and step.tool.name in live.history.stale_tools


def orphans_asked_about(live: Live, step: Step, past: Past | None, slot: int) -> Generator[EffectOf, Any, bool]:
    """
    Hold a new call of a tool against the orphans of that tool; return whether a person has been asked.

    AT_MOST_ONCE and CHECKED ask: send it, skip it, abort, or the earlier one stands for it. KEYED and IDEMPOTENT
    go on with a gap noted; READ_ONLY, `orphan="allow"`, and a call that takes the slot of an orphan itself, go on.
    """
    effect = step.effect
    if step.tool.orphan == "allow" or effect is Effect.READ_ONLY or (past is not None and past.sent_beside):
        return False
    orphans = live.history.orphans_of(step.tool.name, step.action, slot)
    if not orphans:
        return False
    listed = ", ".join(one.call or one.step for one in orphans[:_SHOWN])
    more = f" and {len(orphans) - _SHOWN} more" if len(orphans) > _SHOWN else ""
    if effect not in _ASKS:
        key = f"{step.key}!gap.orphan"
        if key not in live.history.points:
            text = f"{step.call}: sent, although an earlier pass did {listed}{more} and this one does not ask for it"
            yield Write(key, Gap(at=live.now_ms(), text=text))
        return False
    if past is None:
        yield Write(step.key, _held(live, step))
        past = live.history.steps[step.key]
    text = f"an earlier pass did {listed}{more}; this one asks for {step.call} instead. Send it too?"
    yield Write(step.key, question_of(live, step, past, "orphan", text=text, options=["send", "skip", "abort"]))
    return True


def _held(live: Live, step: Step) -> Hold:
    now_ms = live.now_ms()
    args = "" if step.args == step.action else step.args
    return Hold(at=now_ms, since=now_ms, reason="question", action=step.action, args=args, call=step.call)


def orphan_lines(history: History) -> list[str]:
    """Return the orphans for people: what was done, whether that is certain, whether a call waits on its answer."""
    holds = [past.hold for past in history.steps.values() if not past.begun and past.adopt is None]
    joined = {hold.joins for hold in holds if hold is not None}
    lines: list[str] = []
    for past in history.orphans():
        known = "done" if past.settled or past.executed is Executed.YES else "may be done"
        here = "an equal call of this one waits for its answer" if past.step in joined else "not asked for in this one"
        lines.append(f"{past.call or past.step}: {known} in an earlier pass, {here}")
    return lines
