"""`run.turns`: what is saved, and where a resume starts (docs/guarantees.md, "Identity and replay")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.runtime.house import House, got
from yaoki import Budget, Effect, StepFailed
from yaoki.records import Checkpoint, State
from yaoki.runtime._history import History

READ = Effect.READ_ONLY


@dataclass
class Chat:
    messages: list[str] = field(default_factory=list)
    n: int = 0


def step_of(house: House):
    @house.tool(effect=READ)
    def step(n: int) -> int:
        if house.note(f"step {n}") == 1 and n == 99:
            house.kill()
        return n

    return step


def saved(house: House) -> list[tuple[int, Any]]:
    """Return the states as a resume would find them, after each checkpoint."""
    history, found = History(), []
    for seq, key, record in house.journal():
        history.apply(seq, key, record)
        if isinstance(record, Checkpoint):
            found.append((record.turn, msgspec.json.decode(history.state)))
    return found


# --- what is saved


def test_the_state_is_saved_after_each_body_that_falls_through_or_continues(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 2:
                continue
            if chat.n == 4:
                break
            chat.messages.append("fell through")
        return chat.n

    receipt = house.run(work.bind())
    assert receipt.unwrap() == 4
    assert saved(house) == [
        (1, {"messages": ["fell through"], "n": 1}),
        (2, {"messages": ["fell through"], "n": 2}),
        (3, {"messages": ["fell through"] * 2, "n": 3}),
    ]
    assert receipt.spent.turns == 4


@pytest.mark.parametrize("leave", ["break", "return", "exception"])
def test_leaving_saves_nothing_and_that_turn_stays_open(house, leave):
    step = step_of(house)

    @house.loop
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 2:
                if leave == "break":
                    break
                if leave == "return":
                    await got(step(99))
                    return "out"
                raise ValueError("out of here")
        await got(step(99))
        return "out"

    if leave == "exception":
        receipt = house.run(work.bind())
        assert receipt.status is State.DEAD
        assert "out of here" in receipt.failure.message
    else:
        assert house.die(work.bind()) == -9
        receipt = house.run(work.bind())
        assert receipt.unwrap() == "out"
        assert house.done == ["step 1", "step 2", "step 99", "step 99"]
    assert [turn for turn, _ in saved(house)] == [1]


def test_a_resume_starts_at_the_last_saved_turn(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list[str]:
        async for chat in house.turns(run, Chat()):
            house.note(f"turn {chat.n + 1} starts with {len(chat.messages)}")
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 3:
                await got(step(99))
                return chat.messages
            chat.messages.append(f"m{chat.n}")
        return []

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).unwrap() == ["m1", "m2"]
    assert house.done.count("turn 1 starts with 0") == 1
    assert house.done.count("turn 3 starts with 2") == 2
    assert house.done.count("step 3") == 1


def test_exhaustion_caps_the_run_with_what_the_loop_returns_as_its_partial_value(house):
    step = step_of(house)

    @house.loop(budget=Budget(turns=3))
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
        return f"stopped at {chat.n}"

    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.stopped_by == "budget.turns"
    assert receipt.partial == receipt.unwrap() == "stopped at 3"
    assert receipt.value is None
    assert [turn for turn, _ in saved(house)] == [1, 2]


def test_the_last_turn_is_replayed_since_it_was_not_checkpointed(house):
    step = step_of(house)

    @house.loop(budget=Budget(turns=2))
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
        await got(step(99))
        return f"stopped at {chat.n}"

    assert house.die(work.bind()) == -9
    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.partial == "stopped at 2"
    assert house.done == ["step 1", "step 2", "step 99", "step 99"]


def test_a_run_that_ends_within_its_turns_is_completed(house):
    @house.loop(budget=Budget(turns=2))
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            if chat.n == 2:
                break
        return chat.n

    assert house.run(work.bind()).status is State.COMPLETED


def test_no_turns_at_all_is_capped_at_once(house):
    @house.loop(budget=Budget(turns=0))
    async def work(run) -> str:
        async for chat in house.turns(run, Chat()):
            chat.n += 1
        return "none"

    receipt = house.run(work.bind())
    assert receipt.status is State.CAPPED
    assert receipt.partial == "none"


# --- the prelude


def test_the_prelude_is_journaled_once_and_replayed_on_every_resume(house):
    step = step_of(house)

    @house.loop
    async def work(run) -> list[int]:
        first = await got(step(0))
        began = run.now().timestamp()
        async for chat in house.turns(run, Chat()):
            chat.n += 1
            await got(step(chat.n))
            if chat.n == 3:
                await got(step(99))
                return [first, int(run.now().timestamp() - began)]
        return []

    assert house.die(work.bind()) == -9
    house.later(100)
    first, passed = house.run(work.bind()).unwrap()
    assert first == 0
    assert passed >= 100
    assert house.done == ["step 0", "step 1", "step 2", "step 3", "step 99", "step 99"]


def test_a_changed_prelude_is_parked_for_code_after_a_checkpoint_too(house):
    step = step_of(house)

    def made(n):
        @house.loop(name="work")
        async def work(run) -> int:
            await got(step(n))
            async for chat in house.turns(run, Chat()):
                chat.n += 1
                if chat.n == 2:
                    return await got(step(99))
            return 0

        return work

    assert house.die(made(0).bind()) == -9
    receipt = house.run(made(7).bind())
    assert receipt.waits_for == "code"
    assert "step 7" not in house.done
    assert house.run(made(0).bind()).unwrap() == 99


def test_code_before_the_checkpoint_may_change(house):
    """What lies before the checkpoint is not replayed."""
    step = step_of(house)

    def made(n):
        @house.loop(name="work")
        async def work(run) -> int:
            async for chat in house.turns(run, Chat()):
                chat.n += 1
                if chat.n == 1:
                    await got(step(n))
                if chat.n == 2:
                    return await got(step(99))
            return 0

        return work

    assert house.die(made(0).bind()) == -9
    assert house.run(made(7).bind()).unwrap() == 99


def test_steps_left_out_of_the_open_turn_are_parked_at_its_end(house):
    step = step_of(house)

    def made(n):
        @house.loop(name="work")
        async def work(run) -> int:
            async for chat in house.turns(run, Chat()):
                chat.n += 1
                for i in range(n):
                    await got(step(i))
                if n == 3:
                    await got(step(99))
                if chat.n == 2:
                    return 5
            return 0

        return work

    assert house.die(made(3).bind()) == -9
    receipt = house.run(made(2).bind())
    assert receipt.waits_for == "code"
    assert "the end of turn 1" in receipt.text
    assert saved(house) == []


# --- slots over checkpoints


def test_an_equal_call_in_a_later_turn_is_another_action(house):
    from yaoki import INJECTED

    @house.tool(effect=Effect.KEYED)
    def pay(order: str, *, idempotency_key: str = INJECTED) -> str:
        if house.note(f"key {idempotency_key}") == 1 and len(house.done) == 3:
            house.kill()
        return idempotency_key

    @house.loop(budget=Budget(turns=4))
    async def work(run) -> int:
        async for chat in house.turns(run, Chat()):
            chat.messages.append(await got(pay("A")))
        return len(set(chat.messages))

    assert house.die(work.bind()) == -9
    assert house.run(work.bind()).partial == 4
    assert len(house.done) == 5
    assert len(set(house.done)) == 4


# --- the test mode


@pytest.mark.parametrize("restart", [False, True])
def test_restart_at_checkpoint_re_enters_from_decoded_state_at_every_turn(house, restart):
    seen: list[bool] = []

    @house.loop(budget=Budget(turns=3))
    async def work(run) -> int:
        previous = None
        async for chat in house.turns(run, Chat()):
            seen.append(chat is previous)
            previous = chat
            chat.n += 1
        return chat.n

    assert house.run(work.bind(), restart_at_checkpoint=restart).partial == 3
    assert seen == [False, not restart, not restart]


def test_a_failure_in_a_turn_can_be_caught_and_the_turn_is_saved(house):
    @house.tool(effect=READ)
    def bad(n: int) -> int:
        house.note("bad")
        raise ValueError("no")

    @house.loop(budget=Budget(turns=2))
    async def work(run) -> list[str]:
        async for chat in house.turns(run, Chat()):
            try:
                await got(bad(chat.n))
            except StepFailed as error:
                chat.messages.append(error.failure.kind)
        return chat.messages

    receipt = house.run(work.bind())
    assert receipt.partial == ["unknown", "unknown"] or receipt.partial == ["programming", "programming"]
    assert len(house.done) == 2
    assert len(receipt.failures) == 2


def test_a_fatal_failure_ends_the_run_with_the_state_as_it_was_last_saved(house):
    @house.tool(effect=READ)
    def look(x: int) -> int:
        if x == 3:
            raise MemoryError
        return x

    @house.loop
    async def work(run):
        async for state in house.turns(run, {"seen": 0}):
            state["seen"] = await got(look(state["seen"] + 1))

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by, receipt.partial) == (State.DEAD, "fatal", {"seen": 2})
    assert house.get().partial == {"seen": 2}


def test_a_state_of_another_type_waits_for_code(house):
    @dataclass
    class Other:
        n: int
        messages: str

    step = step_of(house)

    def made(kind: Any, done: int):
        @house.loop(name="work")
        async def work(run) -> int:
            async for state in house.turns(run, kind):
                state.n += 1
                await got(step(state.n))
                if state.n == 2:
                    if not done:
                        house.kill()
                    return state.n
            return 0

        return work

    house.die(made(Chat(), 0).bind())
    receipt = house.run(made(Other(0, ""), 1).bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")
    assert "the state saved at the end of turn 1 does not come back as a Other" in receipt.text
    assert "+ called:   Other" in receipt.diff
    assert house.run(made(Chat(), 1).bind()).unwrap() == 2


def used_up(house: House, turns: int, last: int = 4):
    """Return a loop of turns with a mail at its end; it dies once at each of what files are named after."""

    def dies(what: str) -> None:
        if house.note(what) == 1 and house.path.joinpath(what).exists():
            house.kill()

    step = house.tool(lambda n: dies(f"step {n}") or n, effect=READ, name="step")
    mail = house.tool(lambda n: house.note(f"mail {n}"), effect=Effect.AT_MOST_ONCE, name="mail")
    after = house.tool(lambda: dies("after"), effect=READ, name="after")

    @house.loop(name="work", budget=Budget(turns=turns))
    async def work(run) -> int:
        done = 0
        async for state in house.turns(run, {"n": 0}):
            state["n"] += 1
            done = await got(step(state["n"]))
            if done == last:
                break
        await got(mail("to all"))
        await got(after())
        return done

    return work


def test_turns_that_were_used_up_are_so_on_replay_although_some_were_added_meanwhile(house):
    house.path.joinpath("after").touch()
    house.die(used_up(house, 2).bind())
    house.top_up(turns=5)
    receipt = house.run(used_up(house, 2).bind())
    assert (receipt.status, receipt.partial, receipt.stopped_by) == (State.CAPPED, 2, "budget.turns")
    assert house.done == ["step 1", "step 2", "mail to all", "after", "after"]


def test_a_redrive_with_more_turns_goes_on_with_them_and_the_effects_of_the_end_are_not_repeated(house):
    assert house.run(used_up(house, 2).bind()).status is State.CAPPED
    house.outside(lambda verbs: verbs.top_up("r", turns=5))
    house.redrive()
    receipt = house.run(used_up(house, 2).bind())
    assert (receipt.status, receipt.unwrap(), receipt.orphans) == (State.COMPLETED, 4, [])
    assert house.done == ["step 1", "step 2", "mail to all", "after", "step 3", "step 4", "after"]
    assert house.run(used_up(house, 2).bind()).unwrap() == 4


def test_a_redrive_without_more_turns_ends_as_before(house):
    assert house.run(used_up(house, 2).bind()).status is State.CAPPED
    house.redrive()
    receipt = house.run(used_up(house, 2).bind())
    assert (receipt.status, receipt.partial) == (State.CAPPED, 2)
    assert house.done == ["step 1", "step 2", "mail to all", "after"]


def test_a_death_after_more_turns_were_ordered_does_not_take_them_back(house):
    assert house.run(used_up(house, 2).bind()).status is State.CAPPED
    house.outside(lambda verbs: verbs.top_up("r", turns=5))
    house.redrive()
    house.path.joinpath("step 3").touch()
    house.die(used_up(house, 2).bind())
    assert house.run(used_up(house, 2).bind()).unwrap() == 4
    assert house.done.count("mail to all") == 1


def test_no_turns_at_all_is_so_on_replay_and_turns_that_were_ordered_are_taken(house):
    assert house.run(used_up(house, 0).bind()).status is State.CAPPED
    house.outside(lambda verbs: verbs.top_up("r", turns=4))
    house.redrive()
    assert house.run(used_up(house, 0).bind()).unwrap() == 4
    assert house.done.count("mail to all") == 1


def test_a_turn_that_left_no_record_is_counted_after_a_load_too(house):
    step = step_of(house)

    @house.loop(name="work")
    async def work(run) -> int:
        async for state in house.turns(run, {"n": 0}):
            state["n"] += 1
            if state["n"] == 3:
                break
            await got(step(state["n"]))
        return 1

    assert house.run(work.bind()).spent.turns == 3
    assert house.get().spent.turns == 3
