"""
What goes wrong, and when: drawn from a seed, before anything runs.

Every kind of misbehaviour comes up in every demo; the seed decides whom it meets. A fault is bound to
the n-th request a ticket makes at an endpoint, a kill to the ticket's n-th effect, so the same seed
repeats both however the processes are scheduled. No endpoint misbehaves more than twice towards one
ticket, so every ladder of eight attempts can heal.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from yaoki.demo._cases import CASES, Case, effects_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CALM", "Endpoint", "Fault", "FaultKind", "Kill", "Plan", "Slip", "draw_plan"]

Endpoint: TypeAlias = Literal["model", "orders", "refunds", "mails", "mail-log"]

FaultKind: TypeAlias = Literal[
    "429-seconds",
    "429-date",
    "529",
    "503-refused",
    "502",
    "502-after",
    "reset",
    "reset-after",
    "late",
    "truncated",
]
"""
429-seconds, 429-date: rate limited, with Retry-After in either form · 529: overloaded · 503-refused: with
Retry-After, so nothing was done · 502, reset: nothing was done, but the caller cannot know · `…-after`: the
same, after the work · late: no answer within the caller's timeout, after the work · truncated: half of the
answer, after the work.
"""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is not answered as it should be."""

    ticket: str
    endpoint: Endpoint
    request: int
    """Which of the ticket's requests at this endpoint, from 1; retries count."""
    kind: FaultKind


class Slip(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of the model that is well-formed HTTP and wrong all the same, once per ticket and stage."""

    ticket: str
    stage: int
    """Index into the case's stages; the verdict's is their number."""
    kind: Literal["malformed-json", "unknown-tool", "bad-arguments"]


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """A SIGKILL for the worker that drives a ticket."""

    ticket: str
    tool: str
    """Whose call it interrupts: a tool of the example."""
    number: int
    """The ticket's effect, from 1; for `ask_model` the ticket's model request, from 1."""
    when: Literal["before", "after"]
    """Before the effect, its begin being on record; or after it, before its outcome is."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that will go wrong in one demo."""

    seed: int = 0
    faults: tuple[Fault, ...] = ()
    slips: tuple[Slip, ...] = ()
    kills: tuple[Kill, ...] = ()

    def fault(self, ticket: str, endpoint: str, request: int) -> FaultKind | None:
        """Return what befalls a ticket's n-th request at an endpoint."""
        for fault in self.faults:
            if (fault.ticket, fault.endpoint, fault.request) == (ticket, endpoint, request):
                return fault.kind
        return None

    def kill(self, ticket: str, tool: str, number: int) -> Kill | None:
        """Return the kill that waits for a ticket's n-th effect."""
        for kill in self.kills:
            if (kill.ticket, kill.tool, kill.number) == (ticket, tool, number):
                return kill
        return None


CALM = Plan()
"""Nothing goes wrong."""

_FAULTS: tuple[tuple[Endpoint, tuple[FaultKind, ...]], ...] = (
    (
        "model",
        ("429-seconds", "429-date", "529", "529", "503-refused", "502", "reset", "late", "truncated"),
    ),
    ("orders", ("502", "reset", "truncated", "429-seconds")),
    ("refunds", ("late", "reset-after", "502-after", "truncated", "503-refused")),
    ("mails", ("late", "reset-after", "reset", "502")),
)
_KILLS: tuple[tuple[str, tuple[Literal["before", "after"], ...]], ...] = (
    ("ask_model", ("before",)),
    ("refund", ("after", "after")),
    ("send_mail", ("after", "after", "before")),
    ("append_ledger", ("after", "after", "before")),
)
_SLIPS: tuple[Literal["malformed-json", "unknown-tool", "bad-arguments"], ...] = (
    "malformed-json",
    "malformed-json",
    "unknown-tool",
    "bad-arguments",
)
_TOOL_AT: dict[Endpoint, str] = {
    "model": "ask_model",
    "orders": "find_order",
    "refunds": "refund",
    "mails": "send_mail",
    "mail-log": "sent_mail",
}


def draw_plan(seed: int, cases: Sequence[Case] = CASES) -> Plan:
    """Return the plan of a seed; the same one on every machine."""
    dice = Random(f"yaoki demo {seed}")  # noqa: S311 - faults, not secrets
    kills = tuple(_draw_kills(dice, cases))
    faults = tuple(_draw_faults(dice, cases, kills))
    return Plan(seed=seed, faults=faults, slips=tuple(_draw_slips(dice, cases)), kills=kills)


def _draw_kills(dice: Random, cases: Sequence[Case]) -> Iterable[Kill]:
    struck: dict[str, set[str]] = {}
    for tool, moments in _KILLS:
        calls = _numbered(tool, cases)
        dice.shuffle(calls)
        # A mail and a ledger line may be under way together, and one death would serve for both.
        taken = struck.setdefault(tool, set()) | (struck["send_mail"] if tool == "append_ledger" else set[str]())
        for when in moments:
            ticket, number = next(call for call in calls if call[0] not in taken)
            taken.add(ticket)
            struck[tool].add(ticket)
            yield Kill(ticket=ticket, tool=tool, number=number, when=when)


def _draw_faults(dice: Random, cases: Sequence[Case], kills: Sequence[Kill]) -> Iterable[Fault]:
    for endpoint, kinds in _FAULTS:
        tool = _TOOL_AT[endpoint]
        killed = {kill.ticket for kill in kills if kill.tool == tool}
        requests = [
            (case.ticket, request)
            for case in cases
            if case.ticket not in killed
            for request in range(1, _requests(tool, case) + 1)
        ]
        dice.shuffle(requests)
        met: dict[str, int] = {}
        for kind in kinds:
            at = next(at for at in requests if met.get(at[0], 0) < 2)  # noqa: PLR2004 - see the module's docstring
            requests.remove(at)
            met[at[0]] = met.get(at[0], 0) + 1
            yield Fault(ticket=at[0], endpoint=endpoint, request=at[1], kind=kind)
    # A check that cannot ask at first: the one of a mail whose sender was killed.
    doubtful = [kill.ticket for kill in kills if kill.tool == "send_mail"]
    if doubtful:
        yield Fault(ticket=dice.choice(doubtful), endpoint="mail-log", request=1, kind="502")


def _draw_slips(dice: Random, cases: Sequence[Case]) -> Iterable[Slip]:
    tickets = [case.ticket for case in cases if any(call.tool == "refund" for call in effects_of(case))]
    dice.shuffle(tickets)
    for ticket, kind in zip(tickets, _SLIPS, strict=False):
        case = next(case for case in cases if case.ticket == ticket)
        refunding = next(i for i, stage in enumerate(case.stages) if stage[0].tool == "refund")
        stage = dice.randrange(len(case.stages) + 1) if kind == "malformed-json" else refunding
        yield Slip(ticket=ticket, stage=stage, kind=kind)


def _numbered(tool: str, cases: Sequence[Case]) -> list[tuple[str, int]]:
    """Return (ticket, number) of everything a kill of this tool may be bound to."""
    if tool == "ask_model":
        return [(case.ticket, n) for case in cases for n in range(2, len(case.stages) + 2)]
    return [
        (case.ticket, number)
        for case in cases
        for number, call in enumerate(effects_of(case), start=1)
        if call.tool == tool
    ]


def _requests(tool: str, case: Case) -> int:
    """Return how many requests a case makes with this tool when nothing goes wrong."""
    if tool == "ask_model":
        return len(case.stages) + 1
    return sum(call.tool == tool for stage in case.stages for call in stage)
