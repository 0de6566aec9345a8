"""The stall guard: every planted circle is stopped in time, nothing that makes progress is."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yaoki.agent import StallGuard, action_of, signature_of
from yaoki.agent._stall import normalised

GUARD = StallGuard()
Made = tuple[str, object, str]


def sign(call: Made) -> str:
    tool, args, result = call
    return signature_of(action_of(tool, args), result)


def walk(trace: list[Made], guard: StallGuard = GUARD) -> tuple[int, int, bool]:
    """Walk a trace of calls with the results they would have; return how many were made, refused, and if it is over."""
    seen: list[str] = []
    made = refused = 0
    for tool, args, result in trace:
        again = guard.refused(seen, action_of(tool, args))
        refused += bool(again)
        made += not again
        seen.append(again or sign((tool, args, result)))
        if guard.look(seen) == "over":
            return made, refused, True
        del seen[: -guard.kept - 1]
    return made, refused, False


names = st.text("abcdef_", min_size=1, max_size=8)
arguments = st.dictionaries(names, st.integers() | st.text(max_size=20) | st.none(), max_size=3)
call = st.tuples(names, arguments, st.text(max_size=60))


@settings(max_examples=120, deadline=None)
@given(
    before=st.lists(call, max_size=12),
    cycle=st.lists(call, min_size=1, max_size=5, unique_by=lambda one: (one[0], json.dumps(one[1], sort_keys=True))),
)
def test_every_circle_is_stopped_within_three_rounds(before, cycle):
    made, refused, over = walk([*before, *cycle * 3])
    assert over
    assert made <= len(before) + 2 * len(cycle)
    assert refused >= 1


@pytest.mark.parametrize("period", range(1, 6))
def test_it_is_told_then_refused_then_over(period):
    cycle = [("tool", {"n": n}, "same") for n in range(period)]
    seen: list[str] = []
    said: list[str] = []
    for call in cycle * 3:
        again = GUARD.refused(seen, action_of(call[0], call[1]))
        seen.append(again or sign(call))
        said.append(GUARD.look(seen) + (" refused" if again else ""))
    assert said[: 2 * period - 1] == [""] * (2 * period - 1)
    assert said[2 * period - 1] == "told"
    assert GUARD.cycle(seen) == period
    assert all(" refused" in one for one in said[2 * period :])
    assert said[-1] == "over refused"


def test_what_changes_by_itself_is_no_progress():
    results = [
        "at 2026-12-01T10:00:00Z took 0.31 s, request req_01AbCdEfGh",
        "at 2026-12-01T10:00:07Z took 12 ms, request req_09ZyXwVuTs",
        "at 2026-12-01 10:01:07.123 took 3 seconds,   request req_0000000000",
    ]
    assert len({normalised(one) for one in results}) == 1
    assert walk([("look", {}, one) for one in results])[2]
    assert normalised('{"b": 1, "a": 2}') == normalised('{"a": 2,  "b": 1}')


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12 of 100 done", "13 of 100 done"),
        ("order A-1009", "order A-1010"),
        ('{"status": "running"}', '{"status": "done"}'),
        ("3 failed, 9 passed in 0.31s", "2 failed, 10 passed in 0.31s"),
        ("version 1.2.3", "version 1.2.4"),
        ("$4.20", "$4.30"),
    ],
)
def test_what_a_call_found_out_is(one, other):
    assert normalised(one) != normalised(other)


# --- healthy traces


def polling(rng: Random) -> list[Made]:
    job = rng.randrange(1000)
    steps = sorted(rng.sample(range(100), rng.randrange(3, 30)))
    return [("job_status", {"job": job}, f"{done} of 100 parts done") for done in steps]


def pagination(rng: Random) -> list[Made]:
    return [
        ("list_orders", {"page": page, "size": 20}, json.dumps([{"id": rng.randrange(10**6)} for _ in range(20)]))
        for page in range(rng.randrange(3, 40))
    ]


def empty_pages(rng: Random) -> list[Made]:
    return [("search", {"query": f"q{n}"}, "[]") for n in range(rng.randrange(3, 40))]


def batch(rng: Random) -> list[Made]:
    made: list[Made] = []
    for n in range(rng.randrange(3, 30)):
        made += [("read", {"path": f"f{n}.py"}, f"import os  # {n}"), ("edit", {"path": f"f{n}.py"}, "ok")]
    return made


def test_and_fix(rng: Random) -> list[Made]:
    made: list[Made] = []
    for n in range(rng.randrange(3, 20)):
        made += [("edit", {"path": "a.py", "text": f"v{n}"}, "ok"), ("run_tests", {}, "1 failed in 0.31s")]
    return made


def look_twice(rng: Random) -> list[Made]:
    made: list[Made] = []
    for n in range(rng.randrange(3, 20)):
        again = [("ls", {}, "a.py b.py")] * rng.randrange(1, 3)
        made += [*again, ("edit", {"path": "a.py", "line": n}, "ok")]
    return made


def same_answer(rng: Random) -> list[Made]:
    return [("mail", {"to": f"user{n}@example.com"}, "sent") for n in range(rng.randrange(3, 50))]


def mixed(rng: Random) -> list[Made]:
    kinds = [polling, pagination, batch, test_and_fix, same_answer]
    return [one for kind in rng.sample(kinds, 3) for one in kind(rng)]


KINDS = [polling, pagination, empty_pages, batch, test_and_fix, look_twice, same_answer, mixed]
for kind in KINDS:
    kind.__test__ = False  # type: ignore[attr-defined]  # one of them is called test_and_fix


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_thousand_healthy_traces_are_left_alone(kind):
    for seed in range(1000 // len(KINDS)):
        trace = kind(Random(seed))
        assert walk(trace) == (len(trace), 0, False), (kind.__name__, seed)


@pytest.mark.parametrize(
    "bounds", [{"told_after": 1}, {"told_after": 3}, {"over_after": 101}, {"period_max": 0}, {"period_max": 21}]
)
def test_what_cannot_work_is_refused(bounds):
    with pytest.raises(ValueError, match="StallGuard"):
        StallGuard(**bounds)


def test_odd_arguments_and_results_are_no_error():
    assert action_of("a", {"x": object, "y": float("nan")})
    assert signature_of(action_of("a", {"\ud800": 1}), "\ud800" * 10)
    assert signature_of("a", "[" * 100_000)
    assert signature_of("a", "x" * 10_000_000)
