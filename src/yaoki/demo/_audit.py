"""
The audit: the vendor's own log and the ledger, held against the tickets and against the journal. Pure.

Four witnesses that know nothing of each other: the tickets say what was wanted, the vendor's log and the
ledger file what was done, the journal what the runs believe, the demo's director what was killed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from yaoki.demo._cases import CASES, EFFECT_TOOLS, Case, effects_of, same
from yaoki.demo._plan import Kill, Plan  # noqa: TC001 - msgspec reads the annotations of what it decodes
from yaoki.demo._steps import read_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.demo._shop import Event
    from yaoki.demo._steps import Recorded
    from yaoki.records import Entry

__all__ = ["Asked", "Audit", "Evidence", "Killed", "RunSeen", "Tally", "audit"]


KILLS_MIN = 7
"""Fall seven times."""


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """A SIGKILL that was sent."""

    kill: Kill
    pid: int
    at_s: float
    """Since the demo began."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question a run had for a person, and what the person did."""

    run: str
    ask: str
    call: str
    looked: str
    """What the person looked at, and saw."""
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """How a run ended, and its journal."""

    ticket: str
    status: str
    """The run's state; `absent` if the store knows no such run."""
    final: bool
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything the audit looks at."""

    plan: Plan
    cases: Sequence[Case]
    """The tickets that were to be worked through."""
    vendor: list[Event]
    ledger: list[str]
    runs: list[RunSeen]
    kills: list[Killed]
    asked: list[Asked]
    took_s: float
    times: dict[str, float] = field(default_factory=dict[str, float])


class Tally(msgspec.Struct, kw_only=True):
    """One kind of effect, over all tickets."""

    wanted: int = 0
    done: int = 0
    journaled: int = 0
    """Completed steps in the journal."""
    duplicated: int = 0
    lost: int = 0
    unwanted: int = 0
    """Done, though no ticket called for it."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict and what it rests on. `ok` only if `problems` is empty."""

    ok: bool
    problems: list[str]
    seed: int
    took_s: float
    times: dict[str, float]
    """The demo's own short times, in seconds."""
    runs: dict[str, int]
    """Runs by state."""
    effects: dict[str, Tally]
    """By tool: refund, send_mail, append_ledger."""
    kills: list[Killed]
    kills_between: int
    """Of them, between an effect and its record."""
    restarts: int
    steps: int
    steps_reused: int
    retries: dict[str, int]
    """By the kind of failure that was healed."""
    failures: dict[str, int]
    """Failed attempts by reason, and calls of the model that could not become one."""
    asked: list[Asked]
    requests: int
    faults: dict[str, int]
    """What the vendor did on purpose, by kind."""
    keys_deduplicated: int
    """Refunds the vendor was sent again with a key it knew."""
    plan: Plan


def audit(evidence: Evidence) -> Audit:
    """Hold the witnesses against each other."""
    runs = {run.ticket: read_steps(run.entries) for run in evidence.runs}
    tallies = _tally(evidence, runs)
    problems = [
        *_problems_of_kills(evidence),
        *_problems_of_runs(evidence, runs),
        *_problems_of_effects(tallies),
        *_problems_of_belief(evidence, runs),
    ]
    steps: Counter[str] = Counter()
    retries: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for run in runs.values():
        steps.update(run.done)
        retries.update(run.retries)
        failures.update(run.failures)
    return Audit(
        ok=not problems,
        problems=problems,
        seed=evidence.plan.seed,
        took_s=round(evidence.took_s, 2),
        times=evidence.times,
        runs=dict(Counter(run.status for run in evidence.runs)),
        effects=tallies,
        kills=evidence.kills,
        kills_between=sum(killed.kill.when == "after" for killed in evidence.kills),
        restarts=sum(max(run.claims - 1, 0) for run in runs.values()),
        steps=steps.total(),
        steps_reused=sum(run.reused for run in runs.values()),
        retries=dict(retries.most_common()),
        failures=dict(failures.most_common()),
        asked=evidence.asked,
        requests=sum(event.event == "request" for event in evidence.vendor),
        faults=dict(sorted(Counter(event.fault for event in evidence.vendor if event.fault).items())),
        keys_deduplicated=sum(event.event == "replayed" for event in evidence.vendor),
        plan=evidence.plan,
    )


def _tally(evidence: Evidence, runs: dict[str, Recorded]) -> dict[str, Tally]:
    wanted = Counter((call.tool, same(call.tool, call.args)) for case in evidence.cases for call in effects_of(case))
    done = Counter((event.tool, same(event.tool, event.args)) for event in evidence.vendor if event.event == "effect")
    done.update(("append_ledger", same("append_ledger", {"line": line})) for line in evidence.ledger)
    tallies = {tool: Tally() for tool in EFFECT_TOOLS}
    for tool, call in wanted | done:
        tally = tallies[tool]
        ask, got = wanted[tool, call], done[tool, call]
        tally.wanted += ask
        tally.done += got
        tally.lost += max(ask - got, 0)
        if ask:
            tally.duplicated += max(got - ask, 0)
        else:
            tally.unwanted += got
    for run in runs.values():
        for tool, tally in tallies.items():
            tally.journaled += run.done[tool]
    return tallies


def _problems_of_kills(evidence: Evidence) -> list[str]:
    """Return what is wrong if hardly anybody was killed: such a demo shows nothing, however well it ends."""
    struck, least = len(evidence.kills), min(len(evidence.plan.kills), KILLS_MIN)
    return [f"only {struck} workers could be killed; {least} at least were to be"] if struck < least else []


def _problems_of_runs(evidence: Evidence, runs: dict[str, Recorded]) -> list[str]:
    seen = evidence.runs
    known = {run.ticket for run in seen}
    problems = [f"{case.ticket} never ran" for case in evidence.cases if case.ticket not in known]
    problems += [f"{run.ticket} is {run.status}; it did not end" for run in seen if not run.final]
    problems += [f"{run.ticket} ended {run.status}" for run in seen if run.final and run.status != "completed"]
    for ticket, run in runs.items():
        problems += [f"{ticket}: {call} was executed again after it was on record" for call in run.repeated]
    return problems


def _problems_of_effects(tallies: dict[str, Tally]) -> list[str]:
    problems: list[str] = []
    for tool, tally in tallies.items():
        for count, what in ((tally.duplicated, "duplicated"), (tally.lost, "lost"), (tally.unwanted, "unwanted")):
            if count:
                problems.append(f"{tool}: {count} {what}")
    return problems


def _problems_of_belief(evidence: Evidence, runs: dict[str, Recorded]) -> list[str]:
    """Return where the journal and the world disagree, ticket by ticket, and key by key."""
    done = Counter((event.ticket, event.tool) for event in evidence.vendor if event.event == "effect")
    lines = {str(c.args["line"]): case.ticket for case in CASES for c in effects_of(case) if c.tool == "append_ledger"}
    done.update((lines.get(line, ""), "append_ledger") for line in evidence.ledger)
    problems = [
        f"{ticket}: the journal has {run.done[tool]} {tool}, the world {done[ticket, tool]}"
        for ticket, run in runs.items()
        for tool in EFFECT_TOOLS
        if run.done[tool] != done[ticket, tool]
    ]
    believed = {key for run in runs.values() for key in run.keys}
    used = {event.key for event in evidence.vendor if event.event == "effect" and event.tool == "refund"}
    if believed != used:
        problems.append(
            f"refund keys differ: {len(believed - used)} only in the journal, {len(used - believed)} only at the vendor"
        )
    return problems
