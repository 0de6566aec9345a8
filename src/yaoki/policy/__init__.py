"""
Pure decisions: backoff, breakers, budgets, admission, the gate, the ladder, its rungs.

Nothing here reads a clock, rolls a die, writes or waits: history, policy, `now_ms` and `rng` go in, a decision
comes out. Every engine and the simulator use the same ones.
"""

from yaoki.policy._admit import Admission, admit, crash_verdict
from yaoki.policy._backoff import backoff_ceiling_s, full_jitter_s
from yaoki.policy._breaker import (
    Bar,
    Breaker,
    Probe,
    after_attempt,
    bar_of,
    come_back_ms,
    places_taken,
    scopes_of,
    unavailable,
)
from yaoki.policy._budget import Budget
from yaoki.policy._decide import Ladder, decide, end_of_ladder
from yaoki.policy._gate import allows_repeat, in_doubt, keyed_conflict
from yaoki.policy._retry import Retry
from yaoki.policy._rungs import Abort, Ask, DeadLetter, Rung, ladder_of

__all__ = [
    "Abort",
    "Admission",
    "Ask",
    "Bar",
    "Breaker",
    "Budget",
    "DeadLetter",
    "Ladder",
    "Probe",
    "Retry",
    "Rung",
    "admit",
    "after_attempt",
    "allows_repeat",
    "backoff_ceiling_s",
    "bar_of",
    "come_back_ms",
    "crash_verdict",
    "decide",
    "end_of_ladder",
    "full_jitter_s",
    "in_doubt",
    "keyed_conflict",
    "ladder_of",
    "places_taken",
    "scopes_of",
    "unavailable",
]
