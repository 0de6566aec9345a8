"""Commands as steps: what they return, what they are given, and how they are ended."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from tests.runtime.house import box, calls, got
from tests.shell.house import ShellHouse, alive, until
from yaoki import DeclarationError, Effect, Retry
from yaoki.records import Begin, Executed, State
from yaoki.shell import ShellResult, shell, shell_tool


def value(house: ShellHouse, command, shell=None, **options):
    return house.run(house.one(command, shell, **options)).unwrap()


def test_a_command_is_a_step_with_its_exit_code_and_output(house):
    found = value(house, "echo out; echo err >&2; echo more; exit 3")
    assert found == {"code": 3, "output": "out\nerr\nmore\n", "cut": 0}
    (begin,) = house.records(Begin)
    assert (begin.effect, begin.undeclared) == (Effect.CHECKED, False)
    assert begin.call == 'shell(command="echo out; echo err >&2; echo more; exit 3", cwd=null, env=null)'
    assert house.get().attempts == 1


def test_a_replay_executes_nothing(house):
    loop = house.one(f"{house.noting('done')}; echo said")
    first = house.run(loop).unwrap()
    assert house.run(loop).unwrap() == first
    assert house.done == ["done"]


def test_a_list_is_a_program_and_its_arguments(house):
    assert value(house, ["printf", "%s|", "a b", "$HOME", ""])["output"] == "a b|$HOME||"


def test_it_gets_its_folder_its_environment_and_no_input(house, tmp_path):
    (tmp_path / "sub").mkdir()
    found = value(house, "pwd; echo $WORD; cat", cwd=str(tmp_path / "sub"), env={"WORD": "given"})
    assert found["output"] == f"{tmp_path / 'sub'}\ngiven\n"


@pytest.mark.parametrize(
    ("command", "options", "code", "said"),
    [
        (["no-such-program"], {}, 127, "cannot start no-such-program: No such file or directory\n"),
        (["/etc/passwd"], {}, 126, "cannot start /etc/passwd: Permission denied\n"),
        ("echo x", {"cwd": "/no/such/folder"}, 127, "cannot start /no/such/folder: No such file or directory\n"),
        ("kill -9 $$", {}, 137, ""),
    ],
)
def test_one_that_cannot_be_started_or_is_killed_ends_as_a_shell_would_say(house, command, options, code, said):
    found = value(house, command, **options)
    assert (found["code"], found["output"]) == (code, said)


def test_what_is_no_command_is_refused_and_nothing_is_in_doubt(house):
    for n, command in enumerate(("", "  ", [], "a\0b", ["a", "b\0"])):
        receipt = house.run(house.one(command), f"r{n}")
        assert receipt.status is State.DEAD
        assert receipt.failure.executed is Executed.NO
        assert receipt.asks == []


def test_long_output_keeps_its_end_and_says_what_is_left_out(house):
    tool = house.shell_tool(output_max_bytes=1000)
    found = value(house, [sys.executable, "-c", "print('é' * 200_000 + 'end')"], tool)
    assert found["cut"] == 400_004 - 1000
    lead, text = found["output"].split("\n", 1)
    assert lead == "[the first 399,004 bytes are left out]"
    assert text == "é" * 498 + "end\n"


def test_output_that_is_no_text_is_replaced(house):
    assert value(house, "printf 'a\\377b'")["output"] == "a�b"


def test_what_is_left_in_the_background_is_not_waited_for(house):
    began_s = time.monotonic()
    assert value(house, "sleep 20 & echo now")["output"] == "now\n"
    assert time.monotonic() - began_s < 15


def test_a_model_may_call_it_and_reads_what_failed(house):
    seen = []

    @house.loop
    async def work(run) -> list[str]:
        made = calls(("shell", {"command": "echo one; exit 4"}), ("shell", {"command": 7}))
        results = await got(run.call_tools(box(house.shell), made))
        seen.extend(results)
        return [result.text for result in results]

    house.run(work.bind())
    assert (seen[0].is_error, seen[1].is_error) == (False, True)
    assert '"exit_code":4' in seen[0].text.replace(" ", "")
    (spec,) = box(house.shell).specs()
    assert spec["name"] == "shell"
    assert set(spec["input_schema"]["properties"]) == {"command", "cwd", "env"}


def test_the_command_has_a_session_of_its_own_and_not_its_workers_mark(house, monkeypatch):
    monkeypatch.setenv("YAOKI_MARK", "abc")
    code = "import os; print(os.getsid(0), os.environ.get('YAOKI_MARK'), sorted(os.listdir('/proc/self/fd')))"
    session, mark, fds = value(house, [sys.executable, "-c", code])["output"].split(" ", 2)
    assert int(session) != os.getsid(0)
    assert mark == "None"
    assert fds == "['0', '1', '2', '3']\n"  # the last is the listing itself


# --- time


def test_one_that_takes_too_long_is_killed_with_its_group_and_a_person_is_asked(house):
    tool = house.shell_tool(timeout_s=1.5)
    receipt = house.run(house.one("sh -c 'echo $$; sleep 60' & wait", tool))
    assert receipt.status is State.WAITING
    (ask,) = receipt.asks
    assert "The check failed: the command was started, and " in ask.note
    assert "what it did until then is unknown. It said last: " in ask.note
    child = int(ask.note.rsplit(": ", 1)[1])
    until(lambda: not alive(child), "the end of the group")
    assert receipt.failures[0].failure.kind.value == "transient"


def test_one_that_ignores_sigterm_is_killed(house):
    tool = house.shell_tool(timeout_s=1.5)
    receipt = house.run(house.one("trap '' TERM; echo $$; while :; do sleep 1; done", tool))
    pid = int(receipt.asks[0].note.rsplit(": ", 1)[1])
    until(lambda: not alive(pid), "its end")


def test_one_that_reads_is_tried_again_when_it_takes_too_long(house):
    tool = house.shell_tool(Effect.READ_ONLY, timeout_s=1.5, retry=Retry(attempts_max=3, base_s=0.01))
    found = value(house, f"{house.noting('try')}; test $(wc -l < {house._log}) -ge 2 || sleep 30; echo read", tool)
    assert found["output"] == "read\n"
    assert house.done == ["try", "try"]
    assert house.files == []


def test_a_cancel_ends_the_command(tmp_path):
    house = ShellHouse("async", tmp_path)

    @house.loop
    async def work(run) -> str:
        try:
            async with run.timeout(1.5):
                await house.shell(f"echo $$ > {tmp_path}/pid; sleep 60")
        except TimeoutError:
            return "late"
        return "?"

    assert house.run(work.bind()).value == "late"
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not alive(pid), "its end")


def test_ctrl_c_ends_the_command_of_a_plain_loop(tmp_path, monkeypatch):
    house = ShellHouse("sync", tmp_path)
    pids = []

    def interrupted(started) -> None:
        until((tmp_path / "pid").exists, "its start")
        pids.append(int((tmp_path / "pid").read_text()))
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("yaoki.shell._start.Started.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        house.run(house.one(f"echo $$ > {tmp_path}/x; mv {tmp_path}/x {tmp_path}/pid; sleep 60"))
    assert not alive(pids[0])
    assert house.get().status is State.PENDING


# --- policy


def test_an_effect_function_is_given_the_command(house):
    tool = house.shell_tool(lambda command: Effect.READ_ONLY if command == "true" else Effect.CHECKED, name="bash")
    house.run(house.one("true", tool), "reads")
    house.run(house.one("false", tool), "acts")
    assert [house.records(Begin, run_id)[0].effect.value for run_id in ("reads", "acts")] == ["read_only", "checked"]


def test_a_policy_that_cannot_work_is_refused():
    with pytest.raises(DeclarationError, match="a shell tool is not KEYED"):
        shell_tool(Effect.KEYED)
    for size in (0, 3_000_000):
        with pytest.raises(DeclarationError, match="output_max_bytes="):
            shell_tool(output_max_bytes=size)


def test_without_a_run_it_is_a_plain_call(house, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = asyncio.run(house.shell("echo hi")) if house.is_async else house.shell("echo hi")
    assert found == ShellResult(0, "hi\n")
    assert found.ok
    assert [list(path.iterdir()) for path in tmp_path.glob("yaoki-shell-*")] == [[]]


def test_a_folder_that_others_may_look_into_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shell("true")
    (folder,) = tmp_path.glob("yaoki-shell-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(PermissionError, match="only its owner may use"):
        shell("true")
