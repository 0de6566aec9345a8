"""
Pure decisions: backoff, breakers, budgets, admission, the gate, the ladder, its rungs.

Nothing here reads a clock, rolls a die, writes or waits: history, policy, `now_ms` and `rng` go in, a decision
comes out. Every engine and the simulator use the same ones.
"""

from yaoki.policy._admit import Admission, admit, admit_spending, crash_verdict
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
)
from yaoki.policy._budget import Budget
from yaoki.policy._decide import Ladder, decide, end_of_ladder
from yaoki.policy._gate import allows_repeat, in_doubt, keyed_conflict
from yaoki.policy._reach import fails_too
from yaoki.policy._retry import Retry
from yaoki.policy._rungs import (
    ASK_EXPIRES_S,
    Abort,
    Ask,
    Cached,
    Compensate,
    DeadLetter,
    Degrade,
    Fallback,
    Rung,
    ladder_of,
    next_rung,
)

__all__ = [
    "ASK_EXPIRES_S",
    "Abort",
    "Admission",
    "Ask",
    "Bar",
    "Breaker",
    "Budget",
    "Cached",
    "Compensate",
    "DeadLetter",
    "Degrade",
    "Fallback",
    "Ladder",
    "Probe",
    "Retry",
    "Rung",
    "admit",
    "admit_spending",
    "after_attempt",
    "allows_repeat",
    "backoff_ceiling_s",
    "bar_of",
    "come_back_ms",
    "crash_verdict",
    "decide",
    "end_of_ladder",
    "fails_too",
    "full_jitter_s",
    "in_doubt",
    "keyed_conflict",
    "ladder_of",
    "next_rung",
    "places_taken",
    "scopes_of",
]
