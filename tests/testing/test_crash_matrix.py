"""`crash_matrix`: a run killed at each of its places ends as the undisturbed one does, or a report says how not."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.shapes import BY_COUNT, SCARCE, SHAPES, bound
from tests.testing.outside import OUTSIDE, answer
from tests.testing.refunds import AGENT, SHOP, TICKETS, refund_agent_async
from yaoki import INJECTED, Effect, Run, StepFailed, loop, tool
from yaoki.errors import DeclarationError
from yaoki.journal import Journal
from yaoki.runtime import Ask
from yaoki.testing import CrashDifferences, Matrix, World, _matrix, crash_matrix, point
from yaoki.testing._points import _WRITES

COLOURS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
ENDS = dict.fromkeys((*SCARCE, "capped"), "capped")
WORLD = World()


def shape_matrix(shape: str, *, is_async: bool, **options) -> Matrix:
    by_key = shape not in BY_COUNT
    ends = ENDS.get(shape, "completed")
    made = bound(shape, is_async=is_async)
    return crash_matrix(made, world=OUTSIDE, answer=answer, by_key=by_key, ends=ends, **options)


@COLOURS
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loop_of_every_shape_killed_here_and_there_ends_as_undisturbed(shape, is_async):
    assert shape_matrix(shape, is_async=is_async, points_max=4).deaths >= 3


@pytest.mark.long
@pytest.mark.timeout(900)
@COLOURS
@pytest.mark.parametrize("shape", SHAPES)
def test_a_loop_of_every_shape_killed_twice_from_every_place_on_ends_as_undisturbed(shape, is_async):
    assert shape_matrix(shape, is_async=is_async, deaths=2).deaths >= 20


@COLOURS
def test_the_example_killed_here_and_there_ends_as_undisturbed(is_async):
    agent = refund_agent_async if is_async else AGENT.refund_agent
    matrix = crash_matrix(agent.bind(TICKETS["ticket-02"]), world=SHOP, answer=SHOP.answer, points_max=12)
    assert (matrix.loop, matrix.cases) == ("refund_agent", 13)


@pytest.mark.long
@pytest.mark.timeout(900)
@COLOURS
@pytest.mark.parametrize("ticket", TICKETS)
def test_the_example_killed_at_every_place_of_every_ticket_ends_as_undisturbed(ticket, is_async):
    agent = refund_agent_async if is_async else AGENT.refund_agent
    assert crash_matrix(agent.bind(TICKETS[ticket]), world=SHOP, answer=SHOP.answer).deaths > 20


# --- where it kills


@tool(effect=Effect.KEYED)
def cancel(result: str, item: str, *, idempotency_key: str = INJECTED) -> None:
    WORLD.act("cancel", idempotency_key, once=True)


@tool(effect=Effect.KEYED, undo=cancel)
def order(item: str, *, idempotency_key: str = INJECTED) -> str:
    return str(WORLD.act("order", idempotency_key, f"ordered {item}", once=True))


@tool
def ship(item: str) -> str:
    return str(WORLD.act("ship", item, f"shipped {item}"))


@loop
def shopping(run: Run) -> list[str]:
    for items in run.turns(["mug"]):
        items.append(order(items[-1]) + ship(items[-1]))
        if len(items) > 2:
            return items
    return []


def test_it_kills_at_every_boundary_of_an_effect_and_of_a_checkpoint():
    kinds = crash_matrix(shopping, world=WORLD).kinds
    assert {
        "before begin": 4,
        "after begin": 4,
        "between begin and call": 4,
        "inside the call": 8,
        "between call and settle": 4,
        "before settle": 4,
        "after settle": 4,
        "before checkpoint": 1,
        "after checkpoint": 1,
        "before the create": 1,
        "after the claim": 1,
        "after the leaving": 1,
    }.items() <= kinds.items()


def test_it_kills_while_effects_are_undone():
    kinds = shape_matrix("saga", is_async=False, points_max=60).kinds
    assert {"before undo", "after undo", "before undo's begin", "after undo's settle"} <= kinds.keys()


def test_every_method_by_which_a_driver_writes_is_a_place():
    writing = re.compile(r"_append_all\(|APPEND|\bCREATE\b|_take\(cursor, row")
    methods = {name: method for name, method in inspect.getmembers(Journal, inspect.isfunction) if name[0] != "_"}
    writes = {name for name, method in methods.items() if writing.search(inspect.getsource(method))}
    of_others = {"claim_many", "reopen"}  # a worker's claim of many runs, and a person's redrive
    assert writes - of_others == set(_WRITES)


def test_a_place_of_the_users_own_is_one_more_to_die_at(tmp_path):
    calls: list[str] = []

    @tool(effect=Effect.IDEMPOTENT)
    def put(name: str) -> str:
        calls.append(name)
        point("half of it is written")
        return name

    @loop
    def body(run: Run) -> str:
        return put("a")

    assert crash_matrix(body).kinds["inside the call"] == 1
    assert not calls, "the run, its tools and what they write live in processes of their own"
    point("outside of a matrix")


# --- what is equal, and what is not


def failing(**options) -> CrashDifferences:
    with pytest.raises(CrashDifferences) as caught:
        crash_matrix(**options)
    return caught.value


def test_the_report_says_where_it_died_what_differs_and_what_is_kept(tmp_path):
    @loop
    def body(run: Run) -> str:
        WORLD.act("mail", "ana", "sent")
        return order("mug")

    found = failing(loop=body, world=WORLD, folder=tmp_path)
    first = next(one for one in found.matrix.differences if "between begin and call" in one.where[0])
    assert first.where == ('between begin and call of order(item="mug")',)
    assert first.what == ("mail [ana] was done twice (in the world), undisturbed once",)
    assert (Path(first.folder) / "s.db").exists()
    said = str(found)
    assert (
        f"killed at place {first.point}\n      {first.where[0]}\n    - {first.what[0]}\n    kept: {first.folder}"
        in said
    )


def test_what_is_equal_leaves_nothing_behind_and_what_differs_is_moved_to_where_it_is_kept(tmp_path, monkeypatch):
    memory, kept = tmp_path / "memory", tmp_path / "kept"
    memory.mkdir()
    monkeypatch.setattr(_matrix, "_MEMORY", str(memory))
    crash_matrix(shopping, world=WORLD, folder=kept, points_max=3)
    assert not kept.exists()

    @loop
    def body(run: Run) -> str:
        return f"{ship('mug')} {os.getpid()}"

    found = failing(loop=body, world=WORLD, folder=kept)
    (of_this,) = kept.iterdir()
    assert found.matrix.differences[0].folder == str(of_this / "again")
    assert {path.name for path in of_this.iterdir()} == {"undisturbed", "again"}
    with pytest.raises(DeclarationError):
        crash_matrix(shopping, world=WORLD, ends="dead")
    assert not list(memory.iterdir())


def test_once_ten_cases_of_a_process_differ_the_rest_is_left_out():
    @loop
    def body(run: Run) -> str:
        WORLD.act("mail", "ana")
        return order("a") + order("b") + order("c")

    matrix = failing(loop=body, world=WORLD, processes=1).matrix
    assert len(matrix.differences) == 10
    assert matrix.cases < matrix.places


def test_a_value_that_may_differ_is_compared_by_what_is_left_of_it():
    @loop
    def body(run: Run) -> list[str]:
        return [ship("mug"), str(os.getpid())]

    assert "value: " in str(failing(loop=body, world=WORLD, points_max=6))
    assert crash_matrix(body, world=WORLD, same=lambda value: value[0], points_max=6).cases == 7
    assert "ZeroDivisionError" in str(failing(loop=body, world=WORLD, same=lambda value: 1 / 0, points_max=1))


def test_effects_may_be_compared_by_number_where_their_arguments_differ():
    @loop
    def body(run: Run) -> int:
        order(f"mug {run.uuid()}")
        return 1

    assert "undisturbed never with this key" in str(failing(loop=body, world=WORLD, points_max=4))
    assert crash_matrix(body, world=WORLD, by_key=False, points_max=4).cases == 5


def test_a_loop_that_does_not_get_as_far_as_the_test_means_is_refused():
    @loop
    def body(run: Run) -> None:
        raise ValueError("no vendor here")

    with pytest.raises(DeclarationError, match=r"body ends dead, undisturbed, not completed: .*no vendor here"):
        crash_matrix(body)
    assert crash_matrix(body, ends="dead").deaths


def test_a_world_of_ones_own_is_opened_in_each_process_and_asked_for_its_effects():
    class Log:
        path = Path()

        def open(self, folder: Path) -> None:
            self.path = folder / "log"

        def append(self, line: str) -> None:
            with self.path.open("a") as log:
                log.write(f"{line}\n")

        def effects(self) -> Counter[tuple[str, str]]:
            return Counter(("line", line) for line in self.path.read_text().splitlines())

    log = Log()

    @tool(effect=Effect.IDEMPOTENT)
    def write(line: str) -> None:
        log.append(line)

    @loop
    def body(run: Run) -> None:
        log.append("beside")
        write("inside")

    said = str(failing(loop=body, world=log))
    assert "line [beside] was done twice (in the world), undisturbed once" in said
    assert "line [inside] was done twice (in the world), undisturbed once" in said, "to append is not idempotent"


def test_whether_a_call_happened_is_not_guessed_where_the_world_is_ones_own():
    class File:
        path = Path()

        def open(self, folder: Path) -> None:
            self.path = folder / "acted"

        def effects(self) -> Counter[tuple[str, str]]:
            return Counter({("file", "acted"): int(self.path.exists())})

        def answer(self, ask: Ask) -> str | tuple[str, object]:
            return ("happened", "a") if self.path.exists() else "not-happened"

    file = File()

    @tool
    def act(name: str) -> str:
        file.path.touch()
        point("acted")
        return name

    @loop
    def body(run: Run) -> str:
        return act("a")

    said = str(failing(loop=body, world=file))
    assert 'whether act(name="a") happened cannot be told' in said
    assert "crash_matrix(…, answer=…)" in said
    assert crash_matrix(body, world=file, answer=file.answer).deaths


def test_a_question_nobody_answers_is_said():
    @loop
    def body(run: Run) -> str:
        return run.ask("Which city?")

    with pytest.raises(DeclarationError, match=r"nobody answers what the run asks \(ask: Which city\?\); give crash_"):
        crash_matrix(body)
    assert crash_matrix(body, answer=lambda ask: ("value", "Rome"), points_max=4).cases == 5


def test_a_budget_that_a_death_runs_out_of_may_leave_effects_undone_but_never_more_than_it_allows():
    assert shape_matrix("few_calls", is_async=False, deaths=3, points_max=10).deaths >= 10


# --- how it is run


def test_the_same_seed_dies_at_the_same_places(tmp_path):
    def places(seed: int) -> dict[str, int]:
        return crash_matrix(shopping, world=WORLD, points_max=7, seed=seed).kinds

    assert places(3) == places(3)
    assert places(3) != places(4)


def test_each_step_may_be_re_entered_from_the_journal_and_each_turn_from_its_state():
    assert crash_matrix(shopping, world=WORLD, always_replay=True, points_max=10).kinds
    assert crash_matrix(shopping, world=WORLD, restart_at_checkpoint=True, points_max=10).kinds


def test_it_may_be_called_inside_an_event_loop():
    async def body() -> int:
        return crash_matrix(shopping, world=WORLD, points_max=2).cases

    assert asyncio.run(body()) == 3


def test_a_process_that_comes_to_no_end_is_said(tmp_path):
    @tool(effect=Effect.READ_ONLY)
    def stuck() -> None:
        os.read(os.pipe()[0], 1)

    @loop
    def body(run: Run) -> None:
        stuck()

    with pytest.raises(DeclarationError, match="a process did not come to an end within 1 s"):
        crash_matrix(body, life_s=1)


def test_what_ends_a_process_by_itself_is_said_with_what_it_printed():
    @tool(effect=Effect.READ_ONLY)
    def leave() -> None:
        print("on my way out", flush=True)
        os._exit(3)

    @loop
    def body(run: Run) -> None:
        leave()

    with pytest.raises(DeclarationError, match=r"a process ended with code 3\non my way out"):
        crash_matrix(body)


@pytest.mark.parametrize(
    ("name", "value"), [("deaths", 0), ("deaths", 4), ("points_max", 0), ("processes", 65), ("life_s", 3601)]
)
def test_what_is_out_of_its_bounds_is_refused_before_anything_runs(name, value):
    with pytest.raises(DeclarationError, match=f"crash_matrix: {name} is {value}; it lies between 1 and"):
        crash_matrix(shopping, world=WORLD, **{name: value})


def test_a_step_that_fails_for_good_is_one_of_the_ends_to_be_reached():
    @tool(effect=Effect.READ_ONLY)
    def look() -> str:
        raise LookupError("nothing there")

    @loop
    def body(run: Run) -> str:
        try:
            return look()
        except StepFailed:
            return ship("nothing")

    assert crash_matrix(body, world=WORLD).kinds["between call and settle"] == 2
