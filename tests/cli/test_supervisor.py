"""What the supervisor makes of how its workers end, with workers that only say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import session
from yaoki.cli._report import Report
from yaoki.cli._restarts import UNCLAIMED_MAX
from yaoki.cli._supervisor import supervise

DIED = None
DONE = Report(end="done")


class Ended:
    """A worker that has ended at once."""

    mark = "m"

    def __init__(self, pid: int, report: Report | None) -> None:
        self.pid = pid
        self.returncode = 0 if report is not None else -9
        self._report = report

    def wait(self, timeout_s: float, wakeup: object) -> bool:
        return True

    def report(self) -> Report | None:
        return self._report

    def kill(self) -> None: ...

    def close(self) -> None: ...


class Script:
    """A charge whose workers end one after the other as written."""

    def __init__(self, *ends: Report | None, takes_up: bool = True, rests: bool = False) -> None:
        self._ends: Iterator[tuple[int, Report | None]] = iter(enumerate(ends, 100))
        self._takes_up = takes_up
        self._rests = rests
        self.started = 0

    def start(self, *, first: bool) -> Ended:
        self.started += 1
        assert first is (self.started == 1)
        return Ended(*next(self._ends))

    def look(self, child: Ended) -> None: ...

    def took_up(self, child: Ended) -> bool:
        return self._takes_up

    def settled(self) -> int:
        return 0

    def at_rest(self) -> bool:
        return self._rests

    def hint(self) -> str:
        return "try this"


@pytest.fixture
def here(tmp_path):
    made = session(f"sqlite:///{tmp_path / 's.db'}", as_json=False)
    object.__setattr__(made, "clock", Hurried())
    return made


class Hurried:
    """Every look at the clock is a minute later: nothing waits."""

    def __init__(self) -> None:
        self._s = 0.0

    def monotonic_s(self) -> float:
        self._s += 60
        return self._s


def busy(pid: int) -> Report:
    message = f"run r1: driven by worker 3 (pid {pid}) for 0 s. Wait for it, or stop that process first"
    return Report(end="refused", code="run.busy", message=message, exit_code=70)


def test_a_worker_that_died_is_replaced_until_one_is_done(here):
    script = Script(DIED, DIED, DONE)
    assert supervise(script, here) == DONE
    assert script.started == 3


def test_a_refusal_ends_it_with_its_own_words_and_code(here):
    refused = Report(end="refused", code="input.mismatch", message="other input", exit_code=2)
    with pytest.raises(CommandError, match="other input") as error:
        supervise(Script(refused), here)
    assert (error.value.code, error.value.exit_code) == ("input.mismatch", 2)


def test_a_run_held_by_the_lock_of_the_worker_that_has_just_died_is_tried_again(here):
    """A program it was about to start keeps the lock until its exec, a moment after the death."""
    script = Script(DIED, busy(100), DONE)
    assert supervise(script, here) == DONE
    assert script.started == 3


@pytest.mark.parametrize("ends", [[busy(100)], [DIED, busy(999)]])
def test_a_run_that_somebody_else_drives_is_busy(here, ends):
    with pytest.raises(CommandError, match="driven by worker 3") as error:
        supervise(Script(*ends), here)
    assert error.value.exit_code == 70


def test_workers_that_never_get_to_work_are_given_up(here):
    script = Script(*[DIED] * 20, takes_up=False)
    with pytest.raises(CommandError, match=r"died 8 times in a row before it got to work .* try this") as error:
        supervise(script, here)
    assert script.started == UNCLAIMED_MAX
    assert error.value.exit_code is Exit.FAILED


def test_a_worker_that_dies_after_its_work_was_done_is_not_missed(here):
    assert supervise(Script(DIED, rests=True), here) is None
