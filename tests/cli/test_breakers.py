"""What an operator sees of scopes that are given a rest, and what he can do about them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

import pytest

from tests.cli.command import Place
from tests.cli.made import COMMANDS, at, text
from tests.cli.stocked import Stock
from yaoki.cli._views_breakers import breakers_lines, rests
from yaoki.cli._views_text import Now
from yaoki.journal import Brake, ScopeView
from yaoki.records import Begin, Circuit, Settle, State

NOW = Now(now_ms=at("03:05:08"), zone=UTC)
DOWN = Circuit(
    scope="anthropic",
    failures=7,
    opened_ms=at("02:14:08"),
    until_ms=at("03:05:38"),
    reason="http.529",
)
COOL = Circuit(scope="openai/gpt-5", cool_ms=at("03:09:30"), reason="http.429")


def view(*circuits: Circuit, paused: tuple[Brake, ...] = ()) -> ScopeView:
    return ScopeView(1, {one.scope: one for one in circuits}, {brake.scope: brake for brake in paused})


def shown(seen: ScopeView, waiting=None, alive=lambda worker: True, now: Now = NOW) -> str:
    return text(breakers_lines(rests(seen, waiting or {}, now.now_ms, alive), now, COMMANDS))


def test_each_scope_has_a_row_since_when_why_the_next_probe_and_who_waits():
    seen = view(DOWN, COOL, paused=(Brake("stripe", "nina", at("03:00:08")),))
    said = shown(seen, {"anthropic": (2, "t"), "stripe": (1, "ticket-3")}).splitlines()
    assert [" ".join(row.split()) for row in said] == [
        "stripe paused since 03:00:08 (5m) by nina 1 run waits (ticket-3)",
        "anthropic open since 02:14:08 (51m) 7 failures in a row, last http.529 next probe 03:05:38 2 runs wait (t …)",
        "openai/gpt-5 cools down http.429 until 03:09:30",
        "Go on yaoki unpause stripe",
        "Use it at once yaoki breakers --reset anthropic",
    ]


def test_a_half_open_one_says_whether_somebody_probes_it():
    later = Now(now_ms=at("03:05:40"), zone=UTC)
    assert "half-open" in shown(view(DOWN), now=later)
    assert "the next attempt probes it" in shown(view(DOWN), now=later)
    probed = Circuit(
        **{name: getattr(DOWN, name) for name in DOWN.__struct_fields__}
        | {
            "probe_worker": 4,
            "probe_run": 9,
            "probe_step": "1.0//ask#0",
            "probe_until_ms": at("03:07:00"),
        }
    )
    assert "a probe is under way" in shown(view(probed), now=later)
    assert "the next attempt probes it" in shown(view(probed), now=later, alive=lambda worker: False)


def test_a_closed_one_that_has_failed_lately_is_listed_as_failing():
    assert "failing" in shown(view(Circuit(scope="ask", failures=2, reason="os.ECONNRESET")))


@pytest.fixture
def place(tmp_path) -> Iterator[Place]:
    here = Place(tmp_path)
    stock = Stock(tmp_path / "yaoki.db")
    stock.parked("waits-1", State.SLEEPING, wake_ms=stock.now_ms + 240_000, waits_for="time", note="vendor cools down")
    stock.parked("waits-2", State.SLEEPING, wake_ms=stock.now_ms + 250_000, waits_for="time", note="vendor cools down")
    stock.parked("naps", State.SLEEPING, wake_ms=stock.now_ms + 250_000, waits_for="time", note="asleep")
    run, epoch = stock.begun("fails")
    cool = Circuit(scope="vendor", cool_ms=stock.now_ms + 240_000, reason="http.429")
    stock.journal.append_ruled(run, epoch, 0, [("1.0//ask#0", Begin(at=stock.clock.ms))], change=lambda _: [cool])
    stock.journal.leave(run, epoch, 1, [("1.0//ask#0", Settle(at=stock.clock.ms))], state=State.PENDING)
    stock.close()
    yield here
    here.close()


def test_breakers_names_the_scope_and_counts_who_sleeps_for_it(place, capfd):
    said = place.call(capfd, "breakers")
    assert said.code == 0, said.err
    assert said.out.startswith("vendor  cools down ")
    assert "2 runs wait (waits-1 …)" in said.out
    (row,) = place.call(capfd, "breakers", "--json").json
    assert (row["scope"], row["state"], row["waiting"], row["reason"]) == ("vendor", "cooldown", 2, "http.429")


def test_reset_forgets_it_and_an_unknown_scope_is_refused_by_name(place, capfd):
    said = place.call(capfd, "breakers", "--reset", "vendro")
    assert (said.code, said.last) == (
        2,
        "yaoki: --reset vendro: nothing is kept of such a scope; those known: vendor",
    )
    said = place.call(capfd, "breakers", "--reset", "vendor")
    assert said.out.splitlines()[0] == "Reset: vendor is used at once; what waits for it comes when it wakes."
    assert place.call(capfd, "breakers").out.startswith("All scopes are well")
    assert place.call(capfd, "breakers", "--json").json == []


def test_runs_and_show_say_until_when_a_scope_cools_down(place, capfd):
    said = place.call(capfd, "runs")
    assert "(vendor cools down until " in said.out
    assert "vendor cools down" in place.call(capfd, "show", "waits-1").out


def test_a_scope_is_paused_and_unpaused_by_name(place, capfd):
    said = place.call(capfd, "pause", "stripe/eu", "--by", "nina")
    assert said.out.splitlines() == [
        "Paused stripe/eu: no attempt begins there; what is in flight settles first.",
        "Go on  yaoki unpause stripe/eu",
    ]
    assert place.call(capfd, "pause", "stripe/eu").out.startswith("Paused stripe/eu already, by nina at ")
    assert place.call(capfd, "pause", "stripe/eu", "--json").json["scope"] == "stripe/eu"
    assert place.call(capfd, "breakers").out.startswith("stripe/eu  paused ")
    assert not place.call(capfd, "runs").out.startswith("PAUSED"), "the store is not"
    assert place.call(capfd, "unpause", "stripe/eu").out.startswith("stripe/eu unpaused: what waited goes on.")
    said = place.call(capfd, "unpause", "stripe/eu", "--json")
    assert said.json == {"paused": False, "was_paused": False, "scope": "stripe/eu"}
