"""G5, over a group: ten processes spend one budget, are killed, and never spend more than it has."""

from __future__ import annotations

import random
import signal

from tests.cli.command import until
from tests.crash.processes import Life
from tests.crash.world import STAGE, World
from tests.guarantees import group_worker
from tests.guarantees.group_worker import USED, plain
from yaoki import Runner
from yaoki.records import Begin, State
from yaoki.runtime._history import History

RUNS, TIMES = 40, 5
CALLS_MAX = 150
TOKENS_MAX = CALLS_MAX * USED
WORKERS, KILLS, CALLS_A_KILL = 10, 10, 4


def test_ten_processes_killed_now_and_then_never_spend_more_than_their_group_has(tmp_path, monkeypatch):
    url, outside = f"sqlite:///{tmp_path / 's.db'}", tmp_path / "world.jsonl"
    with Runner(url) as runner:
        runner.group("night", tokens=TOKENS_MAX)
        for n in range(RUNS):
            runner.submit(plain.bind(TIMES), run_id=f"r{n}", group="night")
    rng = random.Random(5)

    def start(number: int) -> Life:
        colour = "async" if number % 2 else "sync"
        life = Life("tests.guarantees.group_worker", url, str(outside), colour)
        until(life._err.exists, "the start of a process")
        return life

    lives = [start(number) for number in range(WORKERS)]
    for kill in range(KILLS):
        until(lambda: World(outside).calls >= CALLS_A_KILL * (kill + 1), "calls")  # noqa: B023 - called at once
        victim = lives.pop(rng.randrange(len(lives)))
        victim.send(signal.SIGKILL)
        assert victim.end() == -signal.SIGKILL
        lives.append(start(kill))
    for life in lives:
        life.send(signal.SIGKILL)
        life.end()

    with Runner(url) as runner:
        STAGE.world = World(outside)
        monkeypatch.setattr(group_worker, "PAUSE_S", 0)
        runner.work(plain, until="idle")
        group = runner.store.group("night")
        rows = runner.list()
        histories = [History.of(runner.journal(one.run_id)) for one in rows]
        begun = sum(isinstance(record, Begin) for one in rows for _, _, record in runner.journal(one.run_id))
        # What was counted is what was begun: not one call less for the deaths, not one twice, and none over the bound.
        assert group.tokens == sum(one.spent.tokens for one in histories) == begun * USED
        assert group.calls == sum(one.spent.calls for one in histories) == begun
        assert group.tokens == TOKENS_MAX
        assert World(outside).calls <= begun
        assert group.tokens_held == 0
        waiting = [one for one in rows if not one.status.final]
        assert waiting
        assert {(one.status, one.waits_for) for one in waiting} == {(State.WAITING, "budget")}

        runner.top_up_group("night", tokens=10 * TOKENS_MAX)
        assert {runner.get(one.run_id).status for one in waiting} == {State.PENDING}
        runner.work(plain, until="idle")
        assert {one.status for one in runner.list()} == {State.COMPLETED}
        assert {runner.get(f"r{n}").value for n in range(RUNS)} == {sum(range(TIMES))}
        group = runner.store.group("night")
        assert group.tokens == USED * group.calls
