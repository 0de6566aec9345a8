"""Failures and ladders for the property tests, and the gate's table written once more, by hand."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from yaoki.policy import Ladder
from yaoki.records import Effect, Executed, Failure, FailureKind

many = settings(max_examples=300, deadline=None)
some = settings(max_examples=100, deadline=None)
"""No deadline for one example: a busy machine is no failure."""

NOW_MS = 1_800_000_000_000

E = Effect
X = Executed

MAY_REPEAT: dict[tuple[Effect, Executed], bool] = {
    (E.READ_ONLY, X.NO): True,
    (E.READ_ONLY, X.MAYBE): True,
    (E.READ_ONLY, X.YES): True,
    (E.IDEMPOTENT, X.NO): True,
    (E.IDEMPOTENT, X.MAYBE): True,
    (E.IDEMPOTENT, X.YES): True,
    (E.KEYED, X.NO): True,
    (E.KEYED, X.MAYBE): True,
    (E.KEYED, X.YES): False,
    (E.CHECKED, X.NO): True,
    (E.CHECKED, X.MAYBE): False,
    (E.CHECKED, X.YES): False,
    (E.AT_MOST_ONCE, X.NO): True,
    (E.AT_MOST_ONCE, X.MAYBE): False,
    (E.AT_MOST_ONCE, X.YES): False,
}
"""`docs/guarantees.md`, "The gate", as a person reads it."""

HAS_EFFECT = (E.KEYED, E.CHECKED, E.AT_MOST_ONCE)
HEALING = (FailureKind.TRANSIENT, FailureKind.RATE_LIMITED, FailureKind.OVERLOADED)


class Highest(Random):
    """Draws the longest wait there is."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Lowest(Random):
    """Draws the shortest."""

    def uniform(self, a: float, b: float) -> float:
        return a


def failure(kind: FailureKind = FailureKind.TRANSIENT, **fields: Any) -> Failure:
    return Failure(kind=kind, reason=fields.pop("reason", f"test.{kind.value}"), **fields)


def ladder(effect: Effect = E.READ_ONLY, executed: Executed = X.NO, **fields: Any) -> Ladder:
    defaults: dict[str, Any] = {
        "attempts": 1,
        "attempts_max": 8,
        "deadline_ms": NOW_MS + 900_000,
        "base_s": 0.5,
        "cap_s": 60,
    }
    return Ladder(effect=effect, executed=executed, **(defaults | fields))


failures = st.builds(
    failure,
    st.sampled_from(FailureKind),
    executed=st.sampled_from(Executed),
    retry_after_s=st.none() | st.floats(0, 2_000) | st.sampled_from([math.inf, math.nan, 1e300]),
)

hurts = st.builds(
    failure,
    st.sampled_from([*HEALING, *HEALING, FailureKind.SEMANTIC]),
    executed=st.sampled_from([X.NO, X.NO, X.NO, X.MAYBE, X.YES]),
    retry_after_s=st.none() | st.floats(0, 20),
)
"""Mostly such as heal, so that ladders grow long."""

ladders = st.builds(
    Ladder,
    effect=st.sampled_from(Effect),
    executed=st.sampled_from(Executed),
    attempts=st.integers(1, 12),
    attempts_max=st.integers(1, 10),
    deadline_ms=st.just(0) | st.integers(NOW_MS - 5_000, NOW_MS + 1_000_000),
    base_s=st.floats(0, 10),
    cap_s=st.floats(0, 100),
    unknown_attempts=st.integers(1, 10),
    same_error_limit=st.integers(1, 5),
    same_error=st.integers(1, 6),
    semantic=st.integers(0, 4),
    repairs_max=st.integers(0, 3),
    repairable=st.booleans(),
    output_changed=st.booleans(),
    has_check=st.booleans(),
    check_after_s=st.floats(0, 30),
    unsure=st.sampled_from(["ask", "tell"]),
    has_rung=st.booleans(),
    has_other_scope=st.booleans(),
    thread_alive=st.booleans(),
    retries_left=st.just(math.inf) | st.integers(0, 3),
    retry_wait_left_s=st.just(math.inf) | st.floats(0, 100),
)

long_ladders = st.builds(
    Ladder,
    effect=st.sampled_from(Effect),
    executed=st.just(X.NO),
    attempts=st.just(0),
    attempts_max=st.integers(1, 10),
    deadline_ms=st.just(0) | st.integers(NOW_MS + 10_000, NOW_MS + 300_000),
    base_s=st.floats(0, 10),
    cap_s=st.floats(0, 100),
    same_error_limit=st.integers(2, 9),
    repairs_max=st.integers(0, 5),
    repairable=st.booleans(),
    has_check=st.booleans(),
    unsure=st.sampled_from(["ask", "tell"]),
    has_rung=st.booleans(),
)
"""At their start, with room to grow."""

rngs = st.integers(0, 2**32).map(Random) | st.sampled_from([Highest(0), Lowest(0)])
