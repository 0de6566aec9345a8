"""When a scope is given a rest, and that at most one attempt at a time finds out whether it is well again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yaoki.errors import DeclarationError
from yaoki.policy import Breaker, Probe, after_attempt, bar_of, come_back_ms, places_taken
from yaoki.policy._breaker import spread_ms
from yaoki.records import Circuit, Executed, Failure, FailureKind, Scope

NOW = 1_700_000_000_000
K = FailureKind
ME, OTHER = Probe(1, 1, "1.0//ask#0", NOW + 120_000), Probe(2, 7, "1.0//ask#0", NOW + 120_000)


def failure(kind: FailureKind = K.TRANSIENT, scope: Scope = Scope.REQUEST, **more) -> Failure:
    return Failure(kind=kind, reason=f"made.{kind.value}", scope=scope, **{"executed": Executed.NO, **more})


def dead_or_alive(*alive: int):
    return lambda worker: worker in alive


EVERYBODY = dead_or_alive(1, 2)


class World:
    """Circuits as a store keeps them, and attempts that end."""

    def __init__(self, scope: str = "vendor/model/key", breaker: Breaker | None = None) -> None:
        self.scope = scope
        self.breaker = breaker or Breaker()
        self.circuits: dict[str, Circuit] = {}

    def end(self, how: Failure | None, at: int = NOW, probe: Probe = ME) -> list[Circuit]:
        changed = after_attempt(self.circuits, self.scope, how, now_ms=at, breaker=self.breaker, probe=probe)
        for one in changed:
            self.circuits[one.scope] = one
        return changed

    def bar(self, at: int = NOW, alive=EVERYBODY, me: Probe | None = None):
        return bar_of(self.circuits, self.scope, now_ms=at, alive=alive, me=me)

    def take(self, probe: Probe = ME) -> None:
        for one in places_taken(self.circuits, self.scope, probe):
            self.circuits[one.scope] = one

    def open(self, at: int = NOW, scope: Scope = Scope.REQUEST) -> World:
        for _ in range(self.breaker.failures):
            self.end(failure(scope=scope), at)
        return self


def test_it_opens_at_the_fifth_failure_in_a_row_and_not_at_the_fourth():
    world = World()
    for n in range(4):
        world.end(failure())
        assert world.bar() is None, n
    world.end(failure())
    bar = world.bar()
    assert bar is not None
    assert (bar.why, bar.scope, bar.until_ms) == ("breaker", "vendor/model/key", NOW + 30_000)
    assert bar.text == "vendor/model/key is open (made.transient)"


def test_a_success_starts_the_count_anew():
    world = World()
    for how in [failure()] * 4 + [None] + [failure()] * 4:
        world.end(how)
    assert world.bar() is None


@pytest.mark.parametrize(
    "how",
    [
        *(failure(kind) for kind in K if kind not in (K.TRANSIENT, K.OVERLOADED)),
        failure(scope=Scope.PROCESS),
        failure(K.OVERLOADED, Scope.PROCESS),
    ],
    ids=lambda how: f"{how.kind.value}-{how.scope.value}",
)
def test_what_does_not_count_neither_opens_it_nor_starts_the_count_anew(how):
    world = World()
    for _ in range(20):
        world.end(how)
    assert world.circuits == {}
    for one in [failure()] * 4 + [how] + [failure()]:
        world.end(one)
    assert world.bar() is not None


def test_an_answer_that_is_worth_nothing_is_an_answer():
    world = World()
    for how in [failure()] * 4 + [failure(K.SEMANTIC, executed=Executed.YES)] + [failure()] * 4:
        world.end(how)
    assert world.bar() is None


@pytest.mark.parametrize(
    ("narrowed", "reached"),
    [
        (Scope.VENDOR, "vendor"),
        (Scope.MODEL, "vendor/model"),
        (Scope.KEY, "vendor/model/key"),
        (Scope.REQUEST, "vendor/model/key"),
    ],
)
def test_a_failure_counts_as_far_as_it_reaches(narrowed, reached):
    world = World().open(scope=narrowed)
    assert list(world.circuits) == [reached]
    other = bar_of(world.circuits, "vendor/other/key", now_ms=NOW, alive=EVERYBODY)
    assert (other is not None) == (reached == "vendor")


def test_a_scope_of_one_part_is_all_of_it():
    for narrowed in (Scope.VENDOR, Scope.MODEL, Scope.KEY, Scope.REQUEST):
        assert list(World("ask").open(scope=narrowed).circuits) == ["ask"]


def test_it_is_open_as_long_as_the_server_says():
    for said_s, open_s in ((3.5, 3.5), (None, 30), (0.0, 30), (7_200.0, 7_200), (1e9, 86_400)):
        world = World()
        for _ in range(5):
            world.end(failure(retry_after_s=said_s))
        assert world.circuits["vendor/model/key"].until_ms == NOW + open_s * 1000


def test_only_a_probe_closes_it_and_what_was_in_flight_does_not():
    world = World().open()
    world.end(None, NOW + 10, probe=OTHER)
    assert world.bar(NOW + 20) is not None
    world.end(failure(), NOW + 29_000, probe=OTHER)
    assert world.bar(NOW + 30_000) is None, "a late failure makes the rest no longer"
    world.take()
    world.end(None, NOW + 31_000)
    assert world.circuits["vendor/model/key"] == Circuit(scope="vendor/model/key")


def test_a_probe_that_fails_opens_it_again_whoever_it_blames():
    for scope in (Scope.REQUEST, Scope.MODEL, Scope.VENDOR):
        world = World().open()
        world.take()
        world.end(failure(scope=scope), NOW + 31_000)
        bar = world.bar(NOW + 31_000)
        assert bar is not None
        assert (bar.until_ms, bar.since_ms, bar.probed) == (NOW + 61_000, NOW, False)


@pytest.mark.parametrize("how", [failure(K.PERMANENT), failure(scope=Scope.PROCESS), failure(K.RATE_LIMITED)])
def test_a_probe_without_a_verdict_gives_its_place_back(how):
    world = World().open()
    world.take()
    assert world.bar(NOW + 31_000) is not None
    world.end(how, NOW + 31_000)
    assert world.bar(NOW + 31_000) is None
    world.take(OTHER)
    assert world.bar(NOW + 31_000) is not None


def test_a_probe_loses_its_place_with_its_worker_and_with_its_time():
    world = World().open()
    world.take()
    at = NOW + 31_000
    assert world.bar(at, dead_or_alive(1)).probed
    assert world.bar(at, dead_or_alive(2)) is None
    assert world.bar(ME.until_ms - 1) is not None
    assert world.bar(ME.until_ms) is None
    assert world.bar(at, me=ME) is None, "it is its own"


def test_a_cooldown_bars_whatever_the_breaker_and_only_grows():
    world = World(breaker=None)
    world.end(failure(K.RATE_LIMITED, Scope.KEY, retry_after_s=60))
    world.end(failure(K.RATE_LIMITED, Scope.KEY, retry_after_s=5))
    bar = bar_of(world.circuits, world.scope, now_ms=NOW, alive=EVERYBODY, breaks=False)
    assert (bar.why, bar.until_ms, bar.text) == ("cooldown", NOW + 60_000, "vendor/model/key cools down")
    world.end(None, NOW + 1, probe=OTHER)
    assert world.bar(NOW + 2).until_ms == NOW + 60_000, "what was in flight proves nothing"
    assert world.bar(NOW + 60_000) is None


def test_without_a_breaker_nothing_is_counted_and_the_server_is_heeded():
    circuits = {}
    for how in [failure()] * 9 + [failure(K.RATE_LIMITED, retry_after_s=9)]:
        for one in after_attempt(circuits, "ask", how, now_ms=NOW, breaker=None, probe=ME):
            circuits[one.scope] = one
    assert circuits == {"ask": Circuit(scope="ask", cool_ms=NOW + 9_000, reason="made.rate_limited")}


def test_those_that_come_back_are_spread_and_none_comes_early():
    world = World()
    world.end(failure(K.RATE_LIMITED, retry_after_s=60))
    bar = world.bar()
    backs = [come_back_ms(bar, f"run-{n} s", now_ms=NOW, deadline_ms=NOW + 900_000) for n in range(1_000)]
    assert min(backs) >= NOW + 60_000
    assert max(backs) < NOW + 60_000 + spread_ms(60_000) == NOW + 66_000
    tenths = [sum(1 for back in backs if (back - NOW - 60_000) // 600 == n) for n in range(10)]
    assert all(60 <= tenth <= 140 for tenth in tenths), tenths


@given(wait_ms=st.integers(1, 86_400_000), left_ms=st.integers(1, 86_400_000), who=st.text(max_size=9))
def test_nobody_comes_back_before_the_bar_ends_or_after_a_deadline_that_lies_behind_it(wait_ms, left_ms, who):
    world = World()
    world.end(failure(K.RATE_LIMITED, retry_after_s=wait_ms / 1000))
    bar = world.bar()
    back = come_back_ms(bar, who, now_ms=NOW, deadline_ms=NOW + left_ms)
    assert back >= bar.until_ms
    assert back < NOW + left_ms or bar.until_ms >= NOW + left_ms
    assert back <= bar.until_ms + 10_000


@pytest.mark.parametrize("bad", [{"failures": 0}, {"failures": 1.5}, {"open_s": 0}, {"open_s": 1e9}, {"reset": "x"}])
def test_a_breaker_that_cannot_work_is_refused_where_it_is_written(bad):
    with pytest.raises(DeclarationError, match="Breaker"):
        Breaker(**bad)


# --- whatever happens, in whatever order


class Crowd:
    """Workers at one scope: each may begin, end somehow, die, or let time pass. Tells what it let begin."""

    def __init__(self) -> None:
        self.world = World(breaker=Breaker(failures=3, open_s=10))
        self.at = NOW
        self.alive = set(range(1, 6))
        self.flying: dict[tuple[int, int], bool] = {}
        """Attempts under way, and whether each is a probe."""
        self.number = 0

    def begin(self, worker: int) -> None:
        if worker not in self.alive:
            return
        self.number += 1
        probe = Probe(worker, self.number, "s", self.at + 60_000)
        circuits, scope = self.world.circuits, self.world.scope
        if bar_of(circuits, scope, now_ms=self.at, alive=self.alive.__contains__) is not None:
            return
        taken = places_taken(circuits, scope, probe)
        if taken:
            holders = [key for key, probes in self.flying.items() if probes and key[0] in self.alive]
            assert not [key for key in holders if self.started[key] + 60_000 > self.at], "two probes at once"
        self.started[worker, self.number] = self.at
        self.flying[worker, self.number] = bool(taken)
        self.world.take(probe)

    started: dict[tuple[int, int], int]

    def end(self, index: int, how: Failure | None) -> None:
        living = [key for key in self.flying if key[0] in self.alive]
        if not living:
            return
        key = living[index % len(living)]
        del self.flying[key]
        self.world.end(how, self.at, Probe(key[0], key[1], "s"))


HOWS = st.sampled_from(
    [None, failure(), failure(K.OVERLOADED, Scope.VENDOR), failure(K.PERMANENT), failure(scope=Scope.PROCESS)]
)
MOVES = st.one_of(
    st.tuples(st.just("begin"), st.integers(1, 5)),
    st.tuples(st.just("end"), st.integers(0, 9), HOWS),
    st.tuples(st.just("pass"), st.integers(0, 30_000)),
    st.tuples(st.just("die"), st.integers(1, 5)),
)


@settings(max_examples=400)
@given(moves=st.lists(MOVES, max_size=80))
def test_at_most_one_probe_is_under_way_whatever_the_interleaving(moves):
    crowd = Crowd()
    crowd.started = {}
    crowd.world.open()
    for move in moves:
        match move:
            case ("begin", worker):
                crowd.begin(worker)
            case ("end", index, how):
                crowd.end(index, how)
            case ("pass", ms):
                crowd.at += ms
            case ("die", worker):
                crowd.alive.discard(worker)


@settings(max_examples=200)
@given(hows=st.lists(HOWS, max_size=40))
def test_a_scope_is_always_available_again_in_the_end(hows):
    world = World()
    for n, how in enumerate(hows):
        if world.bar(NOW + n, alive=dead_or_alive()) is None:
            world.take()
        world.end(how, NOW + n)
    at = NOW + 10 * 86_400_000
    assert bar_of(world.circuits, world.scope, now_ms=at, alive=EVERYBODY) is None
    world.take()
    world.end(None, at)
    assert all(one.well for one in world.circuits.values())
