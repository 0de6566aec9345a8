"""The matrix finds bugs that are planted: mechanisms of Yaoki's that are missing, and mistakes in users' own code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.mutants.patches import ROOT, Mutant, mutants, read
from yaoki import INJECTED, Effect, Happened, NotHappened, Run, loop, tool
from yaoki.testing import CrashDifferences, World, crash_matrix

PLANTED = {mutant.name: mutant for mutant in mutants()} | {
    path.stem: read(path) for path in sorted((Path(__file__).parent / "planted").glob("*.patch"))
}

FOUND = {
    "g01-attempts-not-remembered": ("metered", "budget refunded"),
    "g02-gate-open": ("straight", "done twice (in the world)"),
    "g03-key-per-attempt": ("straight", "the key of one action changed"),
    "g03-key-without-slot": ("straight", "two actions share the key"),
    "g05-refunded-by-restart": ("straight", "budget refunded"),
    "g05-calls-not-counted": ("straight", "budget refunded"),
    "called-before-begin": ("straight", "the journal has the begin of"),
    "died-means-not-done": ("straight", "done twice (in the world)"),
    "settled-before-call": ("straight", "was done never (in the world)"),
    "values-read-anew": ("recorded", "waiting for code, undisturbed completed"),
}
"""Each with the shape that shows it, and what the report says."""
ALWAYS = ("died-means-not-done", "g03-key-without-slot")
WHOLE_S = 240


def found_by_the_matrix(mutant: Mutant, shape: str, tmp_path: Path) -> list[str]:
    """Return what differs in a matrix over the shape, the package mutated."""
    source = mutant.copy_to(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
    command = [sys.executable, "-m", "tests.testing.planted.shape", shape, "sync"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=WHOLE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return list(json.loads(ended.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", FOUND)
def test_each_patch_still_applies(name, tmp_path):
    mutant = PLANTED[name]
    target = tmp_path / mutant.file
    target.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / mutant.file, target)
    mutant.apply(tmp_path)
    compile(target.read_text(), mutant.file, "exec")


@pytest.mark.timeout(WHOLE_S + 60)
@pytest.mark.parametrize("name", ALWAYS)
def test_the_matrix_finds_a_mechanism_that_is_missing(name, tmp_path):
    shape, said = FOUND[name]
    assert said in "\n".join(found_by_the_matrix(PLANTED[name], shape, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(WHOLE_S + 60)
@pytest.mark.parametrize("name", sorted(FOUND.keys() - set(ALWAYS)))
def test_the_matrix_finds_each_mechanism_that_is_missing(name, tmp_path):
    shape, said = FOUND[name]
    assert said in "\n".join(found_by_the_matrix(PLANTED[name], shape, tmp_path))


# --- mistakes in a loop or a tool


WORLD = World()


def found_in(body, **options) -> str:
    with pytest.raises(CrashDifferences) as caught:
        crash_matrix(body, world=WORLD, **options)
    return str(caught.value)


@tool(effect=Effect.KEYED)
def charge(what: str, *, idempotency_key: str = INJECTED) -> str:
    return str(WORLD.act("charge", idempotency_key, f"charged {what}", once=True))


@tool
def note(line: str) -> str:
    return str(WORLD.act("note", line, line))


def test_a_loop_that_reads_the_time_does_not_fit_its_own_journal():
    @loop
    def body(run: Run) -> str:
        return charge("a") + charge(f"at {time.time_ns()}")[:7]

    said = found_in(body, by_key=False)
    assert "it is waiting for code, undisturbed completed" in said
    assert "charge(what=" in said, "the diff names the call"


def test_a_loop_that_reads_the_time_for_its_value_alone_differs_with_nobody_killed():
    @loop
    def body(run: Run) -> str:
        return f"{charge('a')} at {time.time_ns()}"

    said = found_in(body)
    assert "with nobody killed, run a second time; so no place was tried" in said
    assert said.count("value: ") == 1


def test_an_effect_outside_of_a_tool_is_done_once_in_each_life():
    @loop
    def body(run: Run) -> str:
        WORLD.act("mail", "ana")
        return charge("a")

    assert "mail [ana] was done twice (in the world), undisturbed once" in found_in(body)


def test_a_tool_that_says_it_only_reads_and_writes_is_done_again():
    @tool(effect=Effect.READ_ONLY)
    def look(what: str) -> str:
        return str(WORLD.act("looked", what, what))

    @loop
    def body(run: Run) -> str:
        return look("a")

    said = found_in(body)
    assert "looked [a] was done twice (in the world), undisturbed once" in said
    assert "between call and settle of look" in said


def test_a_keyed_tool_whose_receiver_does_not_know_keys_acts_again():
    @tool(effect=Effect.KEYED)
    def pay(what: str, *, idempotency_key: str = INJECTED) -> str:
        return str(WORLD.act("pay", what, what))

    @loop
    def body(run: Run) -> str:
        return pay("a")

    assert "pay [a] was done twice (in the world), undisturbed once" in found_in(body)


@pytest.mark.parametrize("says", [Happened(None), NotHappened()], ids=["always-happened", "never-happened"])
def test_a_check_that_does_not_look_loses_an_effect_or_repeats_it(says):
    def check(to: str) -> Happened[None] | NotHappened:
        return says

    @tool(check=check)
    def mail(to: str) -> None:
        WORLD.act("mail", to)

    @loop
    def body(run: Run) -> None:
        mail("ana")

    times = "never" if isinstance(says, Happened) else "twice"
    assert f"mail [ana] was done {times} (in the world), undisturbed once" in found_in(body)


def test_a_loop_that_counts_outside_of_its_state_differs():
    seen: list[str] = []

    @loop
    def body(run: Run) -> int:
        for state in run.turns([0]):
            seen.append(note(f"line {state[0]}"))
            state[0] += 1
            if state[0] == 2:
                return len(seen)
        return 0

    assert "value: 1, undisturbed 2" in found_in(body)


def test_two_writes_in_one_tool_are_found_where_the_second_is_missing():
    @tool(effect=Effect.KEYED)
    def transfer(*, idempotency_key: str = INJECTED) -> None:
        if WORLD.find("debit", idempotency_key) is None:
            WORLD.act("debit", idempotency_key)
            WORLD.act("credit", idempotency_key)

    @loop
    def body(run: Run) -> None:
        transfer()

    assert "credit [" in found_in(body)
