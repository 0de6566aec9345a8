"""Who decides whether an output is kept: run.verify, and the gate of a loop's own value."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pydantic
import pytest

from tests.runtime.errors import reset
from tests.runtime.house import House, got
from yaoki import Budget, DeclarationError, Effect, Verdict, loop
from yaoki.records import Begin, Redrive, Settle, State
from yaoki.verify import all_of, command, schema


@pytest.fixture(params=["sync", "async"])
def house(request, tmp_path) -> House:
    return House(request.param, tmp_path)


def python(code: str, **options: object):
    return command([sys.executable, "-c", code], **options)


# --- one verdict


def test_a_verdict_is_recorded_with_its_evidence_and_never_asked_for_again(house):
    def polite(output: str) -> None:
        house.note("asked")
        if "please" not in output:
            raise ValueError("it does not say please")

    @house.loop
    async def work(run):
        first = await got(run.verify("give", polite))
        second = await got(run.verify("please give", polite))
        if house.done.count("killed") == 0:
            house.note("killed")
            house.kill()
        return [first.passed, first.evidence, first.check, bool(second)]

    assert house.die(work.bind()) == -signal.SIGKILL
    assert house.run(work.bind()).value == [False, "ValueError: it does not say please", "polite", True]
    assert house.done.count("asked") == 2
    assert {begin.effect for begin in house.records(Begin)} == {Effect.READ_ONLY}


@pytest.mark.parametrize(
    ("said", "passed", "evidence"),
    [
        (None, True, ""),
        (True, True, ""),
        (False, False, "it said no"),
        (Verdict(passed=False, evidence="no header"), False, "no header"),
        (Verdict(passed=True, evidence="3 passed", check="suite"), True, "3 passed"),
    ],
)
def test_what_a_function_may_say(house, said, passed, evidence):
    @house.loop
    async def work(run):
        verdict = await got(run.verify({"a": 1}, lambda _: said))
        return [verdict.passed, verdict.evidence]

    assert house.run(work.bind()).value == [passed, evidence]


def test_a_check_that_fails_is_no_verdict_and_is_asked_again(house):
    def flaky(output: str) -> bool:
        if house.note("asked") == 1:
            raise reset()
        return True

    @house.loop
    async def work(run):
        return (await got(run.verify("x", flaky))).passed

    assert house.run(work.bind()).value is True
    assert house.done == ["asked", "asked"]


def test_a_check_with_a_bug_is_a_failed_step(house):
    def buggy(output: str) -> bool:
        return output.nonsense  # type: ignore[attr-defined]

    @house.loop
    async def work(run):
        return (await got(run.verify("x", buggy))).passed

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert receipt.failure.reason == "python.AttributeError"
    assert "run.verify" in receipt.step


def test_one_that_died_in_the_middle_is_asked_again(house):
    def asked(output: str) -> bool:
        if house.note("asked") == 1:
            house.kill()
        return True

    @house.loop
    async def work(run):
        return (await got(run.verify("x", asked))).passed

    assert house.die(work.bind()) == -signal.SIGKILL
    assert house.run(work.bind()).value is True
    assert house.done == ["asked", "asked"]


def test_another_output_than_was_judged_parks_the_run_for_code(house):
    @house.loop
    async def work(run):
        verdict = await got(run.verify(house.done.count("killed"), lambda _: True))
        if house.note("killed") == 1:
            house.kill()
        return verdict.passed

    house.die(work.bind())
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "code")
    assert "run.verify" in receipt.diff


def test_secrets_and_floods_in_evidence_are_cut(house):
    @house.loop
    async def work(run):
        told = "begin sk-ant-api03-" + "a" * 80 + "\n" + "x" * 100_000 + " the end"
        return (await got(run.verify("x", lambda _: Verdict(passed=False, evidence=told)))).evidence

    evidence = house.run(work.bind()).value
    assert "aaaa" not in evidence
    assert len(evidence) <= 8_000
    assert evidence.startswith("begin ")
    assert evidence.endswith(" the end")


@pytest.mark.parametrize("check", [None, 3, "text"])
def test_what_is_no_check_is_refused(house, check):
    @house.loop
    async def work(run):
        await got(run.verify("x", check))

    receipt = house.run(work.bind())
    assert "is no check" in receipt.failure.message


def test_an_output_that_cannot_be_journaled_is_refused(house):
    @house.loop
    async def work(run):
        await got(run.verify(object(), bool))

    assert "cannot be journaled" in house.run(work.bind()).failure.message


def test_an_async_check_belongs_to_an_async_loop(house):
    async def later(output: str) -> bool:
        house.note("asked")
        return output == "x"

    @house.loop
    async def work(run):
        return (await got(run.verify("x", later))).passed

    receipt = house.run(work.bind())
    if house.is_async:
        assert receipt.value is True
    else:
        assert "is async, but its loop is plain" in receipt.failure.message
        assert house.done == []


# --- commands


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_command_s_exit_code_decides_and_its_output_is_the_evidence(kind, tmp_path):
    house = House(kind, tmp_path, real_time=True)

    @house.loop
    async def work(run):
        good = await got(run.verify(None, python("print('3 passed')")))
        bad = await got(run.verify(None, python("import sys; print('1 failed'); sys.exit(2)", name="suite")))
        return [[one.passed, one.evidence, one.check] for one in (good, bad)]

    good, bad = house.run(work.bind()).value
    assert good == [True, "exit code 0\n3 passed", Path(sys.executable).name]
    assert bad == [False, "exit code 2\n1 failed", "suite"]


def test_a_command_is_given_the_output_where_it_wants_it():
    read = "import sys, json; sys.exit(json.load(sys.stdin)['n'] != 3)"
    assert python(read, stdin=True)({"n": 3}).passed
    assert not python(read, stdin=True)({"n": 4}).passed
    assert python("import sys; sys.exit(sys.stdin.read() != 'as it is')", stdin=True)("as it is").passed
    assert python("pass", stdin=True)("x" * 1_000_000).passed, "one that does not read it is not waited for"


def test_a_command_is_killed_with_its_group_when_its_time_is_over(tmp_path):
    child = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    verdict = python(code, timeout_s=1.5, cwd=tmp_path)(None)
    assert not verdict.passed
    assert "no end within 1.5 s" in verdict.evidence
    assert _ends(int((tmp_path / "pid").read_text()))


def test_what_a_command_leaves_running_ends_with_it(tmp_path):
    child = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    wait = "import os, time\nwhile not os.path.exists('pid') or not open('pid').read(): time.sleep(0.01)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])\n{wait}"
    assert python(code, cwd=tmp_path)(None).passed
    assert _ends(int((tmp_path / "pid").read_text()))


def _ends(pid: int) -> bool:
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_a_flood_is_read_and_not_held():
    flood = "import sys\nfor i in range(300000): print('line', i)\nsys.exit(1)"
    evidence = python(flood)(None).evidence
    assert len(evidence) < 9_000
    assert "line 0\n" in evidence
    assert evidence.endswith("line 299999")
    assert "bytes left out" in evidence


def test_a_command_that_cannot_be_started_is_no_verdict(house):
    @house.loop
    async def work(run):
        return (await got(run.verify(None, command(["no-such-command-here"])))).passed

    receipt = house.run(work.bind())
    assert receipt.status is State.DEAD
    assert "no-such-command-here" in receipt.failure.message


def test_a_cancelled_command_is_ended(tmp_path):
    house = House("async", tmp_path, real_time=True)
    pid_file = tmp_path / "pid"

    @house.loop
    async def work(run):
        code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        try:
            async with run.timeout(2):
                await run.verify(None, python(code))
        except TimeoutError:
            return "cut"

    assert house.run(work.bind()).value == "cut"
    assert _ends(int(pid_file.read_text()))


@pytest.mark.parametrize("argv", ["pytest -q", [], [""]])
def test_what_is_no_command_is_refused(argv):
    with pytest.raises(DeclarationError, match="as a list"):
        command(argv)


@pytest.mark.parametrize("timeout_s", [0, -1, 1e9, float("nan")])
def test_what_is_no_bound_is_refused(timeout_s):
    with pytest.raises(DeclarationError, match="timeout_s"):
        command(["true"], timeout_s=timeout_s)


# --- schemas, several


@dataclass
class Answer:
    order: str
    cents: int


class Struct(msgspec.Struct):
    order: str
    cents: int


class Model(pydantic.BaseModel):
    order: str
    cents: int


@pytest.mark.parametrize("kind", [Answer, Struct, Model])
def test_a_schema_reads_text_as_json_and_values_as_they_are(house, kind):
    @house.loop
    async def work(run):
        outputs = [
            '{"order": "A-1", "cents": 3}',
            '```json\n{"order": "A-1", "cents": 3}\n```',
            {"order": "A-1", "cents": 3},
            '{"order": "A-1"}',
            "no json",
            {"order": "A-1", "cents": "much"},
        ]
        return [(await got(run.verify(one, schema(kind)))).passed for one in outputs]

    assert house.run(work.bind()).value == [True, True, True, False, False, False]


def test_a_schema_says_what_is_wrong(house):
    @house.loop
    async def work(run):
        return (await got(run.verify('{"order": "A-1", "cents": "x"}', schema(Answer)))).evidence

    assert "cents" in house.run(work.bind()).value


def test_all_of_asks_in_order_up_to_the_first_that_does_not_pass(house):
    def first(output: str) -> bool:
        house.note("first")
        return True

    def second(output: str) -> Verdict:
        house.note("second")
        return Verdict(passed=len(output) > 3, evidence=f"{len(output)} characters")

    def third(output: str) -> bool:
        house.note("third")
        return True

    both = all_of(first, second, third)

    @house.loop
    async def work(run):
        bad, good = await got(run.verify("abc", both)), await got(run.verify("abcd", both))
        return [[one.passed, one.check, one.evidence] for one in (bad, good)]

    bad, good = house.run(work.bind()).value
    assert bad == [False, "second", "3 characters"]
    assert good == [True, "first and second and third", "first: passed\nsecond: 4 characters\nthird: passed"]
    assert house.done == ["first", "second", "first", "second", "third"]


def test_all_of_with_an_async_one_is_async(tmp_path):
    house = House("async", tmp_path)

    async def later(output: str) -> None:
        raise AssertionError("not yet")

    @house.loop
    async def work(run):
        return (await run.verify("x", all_of(bool, later))).evidence

    assert house.run(work.bind()).value == "AssertionError: not yet"
    with pytest.raises(DeclarationError):
        all_of()


# --- the gate of a loop


def test_a_value_that_passes_completes_the_run(house):
    @house.loop(verify=schema(Answer))
    async def work(run):
        return {"order": "A-1", "cents": 3}

    assert house.run(work.bind()).status is State.COMPLETED
    assert len(house.records(Settle)) == 1


def test_one_that_never_passes_ends_capped_with_the_evidence(house):
    @house.loop(verify=schema(Answer))
    async def work(run):
        return {"order": "A-1"}

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by) == (State.CAPPED, "verify")
    assert receipt.partial == {"order": "A-1"}
    assert receipt.failure.reason == "output.unverified"
    assert "cents" in receipt.text
    assert house.run(work.bind()).status is State.CAPPED
    assert house.get().unwrap() == {"order": "A-1"}


@pytest.mark.parametrize("replans", [1, 2])
def test_a_new_pass_is_told_and_may_do_better(house, replans):
    @house.tool(effect=Effect.IDEMPOTENT)
    def write(text: str) -> str:
        house.note(text)
        return text

    @house.loop(verify=lambda text: Verdict(passed=len(text) > 2, evidence="too short"), replans_max=replans)
    async def work(run):
        return await got(write("x" * (1 + len(run.replanned))))

    receipt = house.run(work.bind())
    assert receipt.status is (State.COMPLETED if replans == 2 else State.CAPPED)
    assert house.done == ["x", "xx", "xxx"][: replans + 1]
    assert [one.failure.reason for one in house.records(Redrive)] == ["output.unverified"] * replans
    assert all("too short" in one.failure.message for one in house.records(Redrive))


def test_what_no_turn_was_left_for_is_not_asked_about(house):
    asked: list[str] = []

    @house.loop(verify=lambda _: asked.append("asked"), budget=Budget(turns=1))
    async def work(run):
        async for state in house.turns(run, ["a"]):
            state.append("b")
        return "half done"

    receipt = house.run(work.bind())
    assert (receipt.status, receipt.stopped_by, receipt.partial) == (State.CAPPED, "budget.turns", "half done")
    assert asked == []


def test_a_gate_is_declared_with_a_check_of_its_colour():
    async def later(output: str) -> bool:
        return True

    with pytest.raises(DeclarationError, match="is async"):

        @loop(verify=later)
        def work(run) -> str:
            return "x"


@pytest.mark.parametrize("at", range(1, 12))
def test_killed_at_any_write_the_gate_says_the_same(house, at):
    """Each process dies at its at-th look at the world; the verdict, the passes and what was done stay the same."""

    def tick() -> None:
        if house.note("tick") == at:
            house.kill()

    @house.tool(effect=Effect.IDEMPOTENT)
    def write(text: str) -> str:
        tick()
        house.note(text)
        tick()
        return text

    def long(text: str) -> Verdict:
        tick()
        return Verdict(passed=len(text) > 2, evidence="too short")

    @house.loop(verify=long, replans_max=5)
    async def work(run):
        tick()
        return await got(write("x" * (1 + len(run.replanned))))

    house.die(work.bind())
    receipt = house.run(work.bind())
    assert (receipt.status, receipt.value) == (State.COMPLETED, "xxx")
    assert len(receipt.failures) <= 3
    assert set(house.done) == {"tick", "x", "xx", "xxx"}


def test_capped_by_the_gate_a_run_can_be_redriven(house):
    @house.loop(verify=lambda n: n > 1)
    async def work(run):
        return house.note("made")

    assert house.run(work.bind()).status is State.CAPPED
    house.outside(lambda verbs: verbs.redrive("r", "start"))
    assert house.run(work.bind()).value == 2
