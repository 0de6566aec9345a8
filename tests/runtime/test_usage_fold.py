"""What is spent, as folded from any journal: each attempt once, by what it used, else by what it reserved."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from tests.policy.strategies import some
from yaoki.records import Begin, Charge, Entry, Executed, Failure, FailureKind, Settle, Spend
from yaoki.runtime._groups import charge_of, counted
from yaoki.runtime._history import History

amounts = st.fixed_dictionaries({}, optional={"tokens": st.integers(0, 500), "cost_usd": st.floats(0, 5)})
moves = st.lists(
    st.tuples(
        st.sampled_from(["begin", "settle", "fail", "again", "spend"]),
        st.integers(0, 3),
        st.none() | amounts,
    ),
    max_size=40,
)


def journal_of(wanted) -> tuple[list[Entry], dict[str, float], dict[str, float]]:
    """Return records a run could have written, and what is spent and in flight by a count of their own."""
    entries: list[Entry] = []
    spent, held = {"tokens": 0.0, "cost_usd": 0.0}, {"tokens": 0.0, "cost_usd": 0.0}
    opened: dict[int, dict[str, float]] = {}
    attempts: dict[int, int] = {}
    last: dict[int, Settle] = {}

    def count(into, what, sign) -> None:
        for name, amount in (what or {}).items():
            into[name] += sign * amount

    for do, step, what in wanted:
        key, seq = f"1.0//ask#{step}", len(entries)
        if do == "begin" and step not in opened:
            attempts[step] = attempts.get(step, 0) + 1
            opened[step] = what or {}
            entries.append(Entry(seq, key, Begin(at=seq, attempt=attempts[step], action=f"a{step}", reserved=what)))
            count(spent, what, 1)
            count(held, what, 1)
        elif do in ("settle", "fail") and step in opened:
            reserved = opened.pop(step)
            failure = Failure(kind=FailureKind.TRANSIENT, reason="x", executed=Executed.MAYBE)
            outcome = {"outcome": "ok"} if do == "settle" else {"outcome": "failed", "failure": failure}
            last[step] = Settle(at=seq, attempt=attempts[step], used=what, **outcome)
            entries.append(Entry(seq, key, last[step]))
            count(held, reserved, -1)
            if what is not None:
                count(spent, reserved, -1)
                count(spent, what, 1)
        elif do == "again" and step in last and step not in opened:
            entries.append(Entry(seq, key, last[step]))
        elif do == "spend":
            given = what or {}
            record = Spend(at=seq, tokens=given.get("tokens", 0), cost_usd=given.get("cost_usd", 0.0))
            entries.append(Entry(seq, f"1.0//run.spend#{seq}", record))
            count(spent, what, 1)
    return entries, spent, held


@some
@given(moves)
def test_each_attempt_is_counted_once(wanted):
    entries, spent, held = journal_of(wanted)
    history = History.of(entries)
    assert history.spent.tokens == spent["tokens"]
    assert abs(history.spent.cost_usd - spent["cost_usd"]) < 1e-9
    assert history.in_flight.tokens == held["tokens"]
    assert abs(history.in_flight.cost_usd - held["cost_usd"]) < 1e-9


@some
@given(moves, st.sets(st.integers(0, 40)))
def test_charges_add_up_to_what_the_journal_says_however_often_it_is_taken_up_anew(wanted, deaths):
    entries, _, _ = journal_of(wanted)
    total = [0] * 5
    live = SimpleNamespace(group="night", history=History(), counted=counted(History()))
    for i, (seq, key, record) in enumerate(entries):
        if i in deaths:
            history = History.of(entries[:i])
            live = SimpleNamespace(group="night", history=history, counted=counted(history))
        live.history.apply(seq, key, record)
        charge = charge_of(live) or Charge("night")
        total = [a + b for a, b in zip(total, charge[1:], strict=True)]
    assert tuple(total) == tuple(counted(History.of(entries)))
