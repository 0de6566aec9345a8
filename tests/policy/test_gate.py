"""The gate: what may be repeated, and what a 409 to a repeated key says."""

from __future__ import annotations

import pytest

from tests.policy.strategies import HAS_EFFECT, MAY_REPEAT
from yaoki.policy import allows_repeat, in_doubt, keyed_conflict
from yaoki.records import Effect, Executed, Failure, FailureKind, Scope


@pytest.mark.parametrize(("effect", "executed"), MAY_REPEAT)
def test_the_gate_allows_what_the_contract_s_table_allows(effect, executed):
    assert allows_repeat(effect, executed) is MAY_REPEAT[effect, executed]


def test_the_table_has_every_case():
    assert set(MAY_REPEAT) == {(effect, executed) for effect in Effect for executed in Executed}


@pytest.mark.parametrize(("effect", "executed"), MAY_REPEAT)
def test_an_effect_that_may_have_happened_is_in_doubt(effect, executed):
    assert in_doubt(effect, executed) is (effect in HAS_EFFECT and executed in (Executed.MAYBE, Executed.YES))


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("executed", Executed)
def test_what_may_not_be_repeated_is_in_doubt(effect, executed):
    assert allows_repeat(effect, executed) or in_doubt(effect, executed)


CONFLICT = Failure(
    kind=FailureKind.PERMANENT,
    reason="http.409",
    message="409 Conflict: this key was used",
    executed=Executed.NO,
    scope=Scope.KEY,
    evidence="status",
    fingerprint="f1",
    hint="look it up",
)


def conflict(**fields):
    return Failure(**({name: getattr(CONFLICT, name) for name in CONFLICT.__struct_fields__} | fields))


def test_a_duplicate_says_that_the_action_happened():
    read = keyed_conflict(CONFLICT, Effect.KEYED, Executed.MAYBE)

    assert (read.kind, read.executed, read.evidence) == (
        FailureKind.PERMANENT,
        Executed.YES,
        "status keyed.duplicate",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"message": "A request with this key is in progress"},
        {"message": "the original request is still being processed"},
        {"message": "Currently processing this key"},
        {"message": "a concurrent request holds the key"},
        {"message": "a request with this key is outstanding"},
        {"reason": "http.409.idempotency_key_in_use"},
        {"reason": "http.409.request_in_progress"},
        {"retry_after_s": 2.0},
        {"retry_after_s": 0.0},
    ],
)
def test_in_progress_is_transient_and_still_in_doubt(fields):
    read = keyed_conflict(conflict(**fields), Effect.KEYED, Executed.MAYBE)

    assert (read.kind, read.executed, read.evidence) == (
        FailureKind.TRANSIENT,
        Executed.MAYBE,
        "status keyed.in_progress",
    )


@pytest.mark.parametrize("message", ["duplicate key", "already processed", "this order was processed"])
def test_a_finished_request_is_not_taken_for_one_in_progress(message):
    assert keyed_conflict(conflict(message=message), Effect.KEYED, Executed.MAYBE).executed is Executed.YES


def test_everything_else_the_failure_says_is_kept():
    full = conflict(retry_after_s=1.5)
    read = keyed_conflict(full, Effect.KEYED, Executed.MAYBE)
    changed = {"kind", "executed", "evidence"}

    assert all(getattr(full, name) for name in Failure.__struct_fields__), "give a new field a value here"
    assert all(getattr(read, n) == getattr(full, n) for n in Failure.__struct_fields__ if n not in changed)


@pytest.mark.parametrize(
    ("failure", "effect", "before"),
    [
        (CONFLICT, Effect.KEYED, Executed.NO),
        (CONFLICT, Effect.KEYED, Executed.YES),
        *((CONFLICT, effect, Executed.MAYBE) for effect in Effect if effect is not Effect.KEYED),
        (conflict(reason="http.404"), Effect.KEYED, Executed.MAYBE),
        (conflict(reason="http.4099"), Effect.KEYED, Executed.MAYBE),
        (conflict(reason="sql.409", message="http.409 in progress"), Effect.KEYED, Executed.MAYBE),
    ],
)
def test_any_other_failure_is_left_as_it_is(failure, effect, before):
    assert keyed_conflict(failure, effect, before) is failure
