"""The worker dies by SIGKILL before, while and after a command runs: it happens once, and its end is learned."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest

from tests.runtime.house import got
from tests.shell.house import ShellHouse, alive, until
from yaoki import Effect, Runner
from yaoki.records import Begin, Settle, State
from yaoki.shell._files import Files, Who


def kill_at(monkeypatch, house: ShellHouse, name: str, *, after: bool = False, ready: Callable = lambda: True) -> None:
    """Have the process that `house.die` starts killed at a function of the shell: before it, or after it."""
    module, _, rest = name.partition(":")
    owner, attribute = sys.modules[f"yaoki.shell.{module}"], rest
    if "." in rest:
        owner, attribute = getattr(owner, rest.partition(".")[0]), rest.partition(".")[2]
    original, test = getattr(owner, attribute), os.getpid()

    def deadly(*args, **kwargs):
        if os.getpid() == test:
            return original(*args, **kwargs)
        if after:
            original(*args, **kwargs)
        until(ready, "what is to be there at the death")
        house.kill()
        raise AssertionError

    monkeypatch.setattr(owner, attribute, deadly)


def learned(house: ShellHouse, bound) -> str:
    """Run it to its end, which must take no person and no second start."""
    receipt = house.run(bound)
    assert receipt.status is State.COMPLETED, (receipt.asks, receipt.failure)
    assert house.done == ["done"]
    return receipt.value["output"]


@pytest.mark.parametrize("where", ["_tools:Call", "_call:Files.take", "_call:Started"])
def test_killed_before_it_is_started_it_is_started_once(house, monkeypatch, where):
    bound = house.one(f"{house.noting('done')}; echo said")
    kill_at(monkeypatch, house, where)
    assert house.die(bound) == -9
    assert house.done == []
    assert learned(house, bound) == "said\n"
    assert [record.attempt for record in house.records(Begin) if record.effect is Effect.CHECKED] == [1, 2]


def test_killed_with_the_watcher_just_started_the_command_is_not_started_again(house, monkeypatch):
    bound = house.one(f"{house.noting('done')}; echo said")
    kill_at(monkeypatch, house, "_call:Started", after=True)
    assert house.die(bound) == -9
    assert learned(house, bound) == "said\n"


def test_killed_while_it_runs_its_end_is_waited_for_and_learned(house, monkeypatch, tmp_path):
    gate = tmp_path / "gate"
    bound = house.one(house.noting_and_waiting(str(gate)))
    kill_at(monkeypatch, house, "_start:Started.fileno" if house.is_async else "_start:Started.wait")
    assert house.die(bound) == -9
    until(lambda: house.done, "the command's effect")
    threading.Timer(0.3, gate.touch).start()
    assert learned(house, bound) == "said\n"
    assert [record.attempt for record in house.records(Begin) if record.effect is Effect.CHECKED] == [1]


def test_killed_after_its_end_its_result_is_learned(house, monkeypatch):
    bound = house.one(f"{house.noting('done')}; echo said; exit 3")
    kill_at(monkeypatch, house, "_call:Call.result")
    assert house.die(bound) == -9
    assert learned(house, bound) == "said\n"
    assert house.get().value["code"] == 3


def test_killed_again_and_again_while_it_is_learned_it_happens_once(house, monkeypatch, tmp_path):
    gate = tmp_path / "gate"
    bound = house.one(house.noting_and_waiting(str(gate)))
    with monkeypatch.context() as patch:
        kill_at(patch, house, "_call:Started", after=True)
        assert house.die(bound) == -9
    for where in ("_call:Question.open", "_call:Question.answer"):
        with monkeypatch.context() as patch:
            kill_at(patch, house, where)
            if where.endswith("answer"):
                gate.touch()
            assert house.die(bound) == -9
    assert learned(house, bound) == "said\n"


def test_where_its_watcher_dies_too_a_person_is_asked_and_it_is_not_started_again(house, monkeypatch, tmp_path):
    gate = tmp_path / "gate"
    bound = house.one(house.noting_and_waiting(str(gate)))
    kill_at(monkeypatch, house, "_call:Started", after=True, ready=lambda: house.done)
    assert house.die(bound) == -9
    (started,) = house.folder.glob("*.start")
    os.kill(int(started.read_text()), signal.SIGKILL)
    receipt = house.run(bound)
    assert receipt.status is State.WAITING
    assert "nobody has written how it ended" in receipt.asks[0].note
    gate.touch()
    house.answer("happened", {"exit_code": 0, "output": "seen"})
    assert house.run(bound).value["output"] == "seen"
    assert house.done == ["done"]


def test_a_person_may_order_it_to_be_started_again_and_the_first_is_ended(house, monkeypatch, tmp_path):
    bound = house.one(f"{house.noting('done')}; echo $$ > {tmp_path}/pid; sleep 60", house.shell_tool(timeout_s=60))
    kill_at(monkeypatch, house, "_call:Started", after=True, ready=(tmp_path / "pid").exists)
    assert house.die(bound) == -9
    first = int(until((tmp_path / "pid").read_text, "its pid"))
    monkeypatch.undo()
    impatient = house.one(f"{house.noting('done')}; echo $$ > {tmp_path}/pid; sleep 60", quick_check(house))
    assert house.run(impatient).status is State.WAITING
    assert alive(first)
    house.answer("not-happened")
    threading.Timer(1, lambda: os.kill(second(tmp_path, first), signal.SIGKILL)).start()
    assert house.run(impatient).value["code"] == 137
    assert not alive(first)
    assert house.done == ["done", "done"]


def quick_check(house: ShellHouse):
    """Return a shell whose check soon gives up."""
    tool = house.shell_tool(timeout_s=60)
    tool.check.timeout_s = 0.1
    tool.check.retry = type(tool.retry)(attempts_max=1)
    return tool


def second(tmp_path, first: int) -> int:
    return until(lambda: (pid := int((tmp_path / "pid").read_text() or 0)) != first and pid, "the second start")


def test_one_that_reads_is_started_again_and_the_first_is_ended(house, monkeypatch, tmp_path):
    pids = tmp_path / "pids"
    command = f"echo $$ >> {pids}; test $(wc -l < {pids}) -ge 2 || sleep 60; echo read"
    bound = house.one(command, house.shell_tool(Effect.READ_ONLY))
    kill_at(monkeypatch, house, "_call:Started", after=True, ready=pids.exists)
    assert house.die(bound) == -9
    assert house.run(bound).value["output"] == "read\n"
    first, second = map(int, pids.read_text().split())
    until(lambda: not alive(first), "the end of the first")
    assert first != second
    assert house.files == []


def test_its_time_runs_out_while_nobody_works_and_its_group_ends_all_the_same(house, monkeypatch, tmp_path):
    pid = tmp_path / "pid"
    bound = house.one(f"sh -c 'echo $$ > {tmp_path}/x; mv {tmp_path}/x {pid}; sleep 60' & wait", soon_over(house))
    kill_at(monkeypatch, house, "_call:Started", after=True, ready=pid.exists)
    assert house.die(bound) == -9
    until(lambda: not alive(int(pid.read_text())), "the end of its group, without a worker")
    receipt = house.run(bound)
    assert receipt.status is State.WAITING
    assert "ran too long and was killed: what it did until then is unknown" in receipt.asks[0].note


def soon_over(house: ShellHouse):
    return house.shell_tool(timeout_s=1.5)


def test_what_it_says_while_nobody_works_is_kept(house, monkeypatch, tmp_path):
    gate = tmp_path / "gate"
    said = f"{house.noting_and_waiting(str(gate))}; seq 30000; echo end >&2"
    bound = house.one(said)
    kill_at(monkeypatch, house, "_call:Started", after=True, ready=lambda: house.done)
    assert house.die(bound) == -9
    gate.touch()
    assert learned(house, bound) == "\n".join(["said", *map(str, range(1, 30001)), "end\n"])


# --- at each line


def count_lines(seen: list[int], die_at: int, die: Callable[[], None]):
    """Return a trace function that counts the lines of Yaoki's own code, and dies at one of them."""

    def trace(frame, event, argument):
        if "/src/yaoki/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == die_at:
                die()
        return trace

    return trace


def lined(house: ShellHouse, die_at: int, seen: list[int]):
    """Make a loop whose process dies at that line of Yaoki's code, in its first life."""
    test = os.getpid()

    @house.loop(name="lined")
    async def lined(run) -> str:
        counting = die_at >= 0 and (os.getpid() != test or die_at == 0)
        if counting:
            sys.settrace(count_lines(seen, die_at, house.kill))
        try:
            return (await got(house.shell(f"{house.noting('done')}; echo said"))).output
        finally:
            if counting:
                sys.settrace(None)

    return lined.bind()


def killed_at_lines(kind: str, tmp_path, *, start: int, stride: int) -> None:
    def house_in(name: str) -> ShellHouse:
        (tmp_path / name).mkdir()
        return ShellHouse(kind, tmp_path / name)

    seen = [0]
    assert house_in("counted").run(lined(house_in("of"), 0, seen)).value == "said\n"
    assert seen[0] > 100
    for line in range(start, seen[0], stride):
        house = house_in(f"at-{line}")
        if house.die(lined(house, line, [0])) == -9:
            receipt = house.run(lined(house, -1, [0]))
            assert (receipt.status, receipt.value) == (State.COMPLETED, "said\n"), (line, receipt.asks)
        assert house.done == ["done"], line


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_killed_at_any_line_the_command_happens_once_and_is_learned(kind, tmp_path):
    killed_at_lines(kind, tmp_path, start=7, stride=61)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_killed_at_each_third_line_the_command_happens_once_and_is_learned(kind, tmp_path):
    killed_at_lines(kind, tmp_path, start=1, stride=3)


# --- what is left in the folder


def test_its_files_go_with_the_next_use_or_the_end_once_their_result_is_on_disk(house, monkeypatch):
    order = []

    @house.loop
    async def work(run) -> None:
        for n in range(3):
            await got(house.shell(f"echo {n}"))
            order.append(house.files)

    monkeypatch.setattr("yaoki.shell._tidy.Files.remove", noted(order, Files.remove))
    monkeypatch.setattr("yaoki.journal.Journal.sync", noted(order, __import__("yaoki.journal").journal.Journal.sync))
    house.run(work.bind())
    kept = [entry for entry in order if isinstance(entry, list)]
    assert kept == [[".done", ".lock", ".start"]] * 3
    removals = [i for i, entry in enumerate(order) if entry == "remove"]
    assert len(removals) == 3
    assert all(order[i - 1] == "sync" for i in removals)
    assert house.files == []


def noted(order: list, method: Callable):
    def wrapped(*args, **kwargs):
        order.append(method.__name__)
        return method(*args, **kwargs)

    return wrapped


def asks(house: ShellHouse):
    """Make a loop that waits for somebody."""

    @house.loop(name="asks")
    async def asks(run) -> None:
        await got(run.wait_signal("go"))

    return asks.bind()


def left_by_a_killed_process(house: ShellHouse, run_id: str) -> None:
    """Have a process killed once a command's result is in the journal, and its run ended without the tool."""

    @house.loop(name="dies")
    async def dies(run) -> None:
        await got(house.shell("echo left"))
        if os.getpid() != house._pid:
            house.kill()

    assert house.die(dies.bind(), run_id) == -9
    assert house.run(dies.bind(), run_id).status is State.COMPLETED


def test_a_later_process_forgets_what_a_killed_one_has_left(house):
    left_by_a_killed_process(house, "left")
    (left,) = house.folder.glob("*.done")
    left_by_a_killed_process(house, "gone")
    assert not left.exists()
    assert house.files == [".done", ".lock", ".start"]
    house.outside(lambda verbs: verbs.discard("gone"))
    doubt = Files(str(house.folder), "f" * 32)
    house.run(asks(house), "open")
    os.close(doubt.take(Who("open", "1.0//shell#9")))
    running = Files(str(house.folder), "e" * 32)
    held = running.take(Who("gone", "1.0//shell#9"))
    __import__("yaoki.shell._tidy").shell._tidy._learned.clear()
    house.run(house.one("true"), "next")
    assert doubt.who() == Who("open", "1.0//shell#9"), "nobody has settled that step"
    assert running.who() is not None, "its watcher still writes there"
    assert house.files == [".lock", ".lock"]
    os.close(held)


def test_a_settle_that_was_not_written_keeps_its_files(house, monkeypatch):
    bound = house.one(f"{house.noting('done')}; echo said")
    kill_at(monkeypatch, house, "_call:Call.result", after=True)
    assert house.die(bound) == -9
    house.run(house.one("true"), "other")
    assert house.records(Settle) == []
    assert learned(house, bound) == "said\n"
    with Runner.verbs(house.url) as verbs:
        assert verbs.get("r").restarts == 1
