"""The scopes of one run's steps: what bars them, and what their attempts mean for everybody who shares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from yaoki.policy import Bar, Probe, after_attempt, bar_of, come_back_ms, places_taken, scopes_of
from yaoki.records import Circuit, Failure, FailureKind, Scope
from yaoki.runtime._waits import skipping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.journal import Change, ScopeView
    from yaoki.records import Begin, Charge, Settle
    from yaoki.runtime._live import Live
    from yaoki.runtime._step import Step
    from yaoki.runtime._tool import Tool

__all__ = ["Scopes"]

_GRACE_MS = 5_000
"""How long after its timeout a probe may still settle before its place is another's."""
_SAID_MS = 1_000
"""A retry due so soon after its scope may be used again is due because the server said so."""
_PASSED_THROUGH = Failure(kind=FailureKind.UNKNOWN, reason="cancelled", scope=Scope.PROCESS)
"""What a cancelled attempt says of its scope: nothing."""


class Scopes:
    """
    Asked before each attempt of a run whether its scope may be used, and told how it ended.

    A begin is appended only if no scope has changed since it was admitted; one that takes a probe's place, and a
    settle that changes a scope, do so in the transaction of their record.
    """

    __slots__ = ("_begun", "_live", "turned")

    def __init__(self, live: Live) -> None:
        self._live = live
        self._begun: dict[str, Step] = {}
        """The steps with an attempt under way, begun by this process."""
        self.turned: tuple[Circuit, ...] = ()
        """Circuits that the record written last opened or closed; for who shows it."""

    # --- questions

    def clear(self, step: Step) -> bool:
        """Whether nothing that was seen so far concerns a step's scope: then its begin needs no more than `enter`."""
        live = self._live
        if live.journal.all_well and not live.history.unavailable:
            return True
        view = live.journal.seen_scopes
        if view.generation < 0:
            view = live.journal.scopes()
        names = scopes_of(_scope_of(step))
        return not any(
            name in view.paused or name in live.history.unavailable or _in_the_way(view.circuits.get(name))
            for name in names
        )

    def bar(self, step: Step) -> Bar | None:
        """Return what keeps a step from beginning now: a person, a cooldown, a breaker; as the store has it now."""
        return self._bar_at(step.tool, _scope_of(step), step.key)

    def given_up(self, step: Step, bar: Bar | None = None) -> str:
        """Return the scope that a run with `reset="never"` does not use any more, or nothing."""
        return self._given_up_at(step.tool, _scope_of(step), bar)

    def shut(self, step: Step, tool: Tool[Any, Any], values: dict[str, Any]) -> Bar | None:
        """
        Return why a tool is not waited for where another may act in its place; None: it may be used now, or soon.

        That is a scope that is paused, open (a probe under way included), given up by this run, or that cools down
        for longer than a run stays in memory.
        """
        scope = tool.scope_of(values) or tool.name
        bar = self._bar_at(tool, scope, step.key)
        gone = self._given_up_at(tool, scope, bar)
        if gone and (bar is None or bar.why != "pause"):
            return Bar(gone, "breaker", reason="not used any more in this run")
        if bar is None or bar.why != "cooldown":
            return bar
        live = self._live
        return bar if bar.until_ms - live.now_ms() > live.limits.park_after_s * 1000 else None

    def _bar_at(self, tool: Tool[Any, Any], scope: str, key: str) -> Bar | None:
        view = self._live.journal.scopes()
        for name in scopes_of(scope):
            brake = view.paused.get(name)
            if brake is not None:
                return Bar(name, "pause", since_ms=brake.at_ms, reason=brake.by)
        return None if skipping() else self._timed_bar(tool, scope, key, view)

    def _given_up_at(self, tool: Tool[Any, Any], scope: str, bar: Bar | None) -> str:
        breaker = tool.breaker
        if breaker is None or breaker.reset != "never" or skipping():
            return ""
        if bar is not None and bar.why == "breaker":
            return bar.scope
        gone = self._live.history.unavailable
        return next((name for name in scopes_of(scope) if name in gone), "") if gone else ""

    def back_ms(self, step: Step, next_ms: int, deadline_ms: int) -> int:
        """Return when a retry comes back: not all at the moment at which the server said that all may."""
        if not self._live.journal.seen_scopes.circuits or skipping():
            return next_ms
        live = self._live
        bar = self._timed_bar(step.tool, _scope_of(step), step.key, live.journal.scopes())
        if bar is None or bar.probed or not bar.until_ms <= next_ms < bar.until_ms + _SAID_MS:
            return next_ms
        spread_from = msgspec.structs.replace(bar, until_ms=next_ms)
        return come_back_ms(spread_from, f"{live.name} {step.key}", now_ms=live.now_ms(), deadline_ms=deadline_ms)

    # --- records

    def places(self, step: Step, begin: Begin) -> Change:
        """Return what a begin changes of its scope: it takes a probe's place where one is due, or is refused."""
        scope = _scope_of(step)
        until_ms = begin.at + begin.timeout_ms + _GRACE_MS

        def change(view: ScopeView) -> Sequence[Circuit] | None:
            if any(name in view.paused for name in scopes_of(scope)):
                return None
            if skipping():
                return ()
            if self._timed_bar(step.tool, scope, step.key, view) is not None:
                return None
            return places_taken(view.circuits, scope, self._probe(step.key, until_ms)) if step.tool.breaker else ()

        return change

    def enter_clear(self, step: Step, begin: Begin, seq: int) -> bool:
        """Append a begin that is `clear`; False if any scope has changed since, and it must be asked again."""
        live = self._live
        if not live.journal.append_if(live.run, live.epoch, seq, step.key, begin):
            return False
        self._begun[step.key] = step
        return True

    def begun(self, step: Step) -> None:
        """Note that this process has begun an attempt of a step: how it ends is told to its scope."""
        self._begun[step.key] = step

    def plain(self, key: str, settle: Settle) -> bool:
        """Whether a settle says nothing to any scope that is not known; then it may be written with others."""
        step = self._begun.get(key)
        if step is not None and (settle.outcome == "ok" or settle.cause is not None):
            known = self._live.journal.seen_scopes.circuits
            if not known or not any(name in known for name in scopes_of(_scope_of(step))):
                del self._begun[key]
                return True
        return step is None

    def settle(self, key: str, settle: Settle, seq: int, charge: Charge | None = None) -> None:
        """
        Append a settle with its charge, and change in the same transaction what it says of its scope.

        Raises:
            Fenced: As for `Journal.append`.
        """
        live = self._live
        step = self._begun.get(key)
        if step is None:
            live.journal.append(live.run, live.epoch, seq, ((key, settle),), charge)
            return
        written = live.journal.append_if
        if charge is None and self.plain(key, settle) and written(live.run, live.epoch, seq, key, settle):
            return
        items = [(key, settle)]
        self._begun.pop(key, None)
        breaker, scope, turned = step.tool.breaker, _scope_of(step), list[Circuit]()
        failure = _PASSED_THROUGH if settle.outcome == "cancelled" else settle.failure

        def change(view: ScopeView) -> Sequence[Circuit]:
            known = view.circuits
            changed = after_attempt(known, scope, failure, now_ms=settle.at, breaker=breaker, probe=self._probe(key))
            turned[:] = [one for one in changed if _is_open(one) != _is_open(known.get(one.scope))]
            opened = next((one.scope for one in turned if one.opened_ms), "")
            if opened and breaker is not None and breaker.reset == "never":
                items[0] = (key, msgspec.structs.replace(settle, unavailable=opened))
            return changed

        live.journal.append_ruled(live.run, live.epoch, seq, items, change=change, charge=charge)
        live.history.note_unavailable(items[0][1])
        self.turned = tuple(turned)

    def _probe(self, key: str, until_ms: int = 0) -> Probe:
        return Probe(self._live.journal.worker, self._live.run, key, until_ms)

    def _timed_bar(self, tool: Tool[Any, Any], scope: str, key: str, view: ScopeView) -> Bar | None:
        live = self._live
        return bar_of(
            view.circuits,
            scope,
            now_ms=live.now_ms(),
            alive=live.journal.lives,
            breaks=tool.breaker is not None,
            me=self._probe(key),
        )


def _scope_of(step: Step) -> str:
    return step.tool.scope_of(step.values) or step.tool.name


def _in_the_way(circuit: Circuit | None) -> bool:
    return circuit is not None and bool(circuit.opened_ms or circuit.cool_ms)


def _is_open(circuit: Circuit | None) -> bool:
    return circuit is not None and bool(circuit.opened_ms)
