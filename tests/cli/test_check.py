"""`yaoki check`: what is found is named with its place; the file runs in no process of the command's own."""

from __future__ import annotations

import pytest

from tests.cli.command import Place

TOOLS = """
import os, sys, threading, time
from yaoki import Budget, Effect, Run, loop, tool

print("imported")

class Client:
    def __init__(self):
        self.max_retries = 2

CLIENT = Client()

@tool(effect=Effect.READ_ONLY)
def ask(question: str) -> str:
    return CLIENT.ask(question)

@tool
def pay(cents: int) -> int:
    raise SystemExit("never called")

@tool(effect=Effect.READ_ONLY)
def look() -> str:
    return "x"

@loop
def clean(run: Run) -> str:
    return look()

@loop(budget=Budget(cost_usd=1.0))
def agent(run: Run) -> str:
    pay(5)
    return ask("?")
"""


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    here.write("tools.py", TOOLS)
    yield here
    here.close()


def line_of(text: str) -> int:
    return TOOLS.splitlines().index(text) + 1


def test_each_finding_is_a_line_with_its_place_and_the_file_is_summed_up(place, capfd):
    said = place.call(capfd, "check", "tools.py")
    assert said.code == 0, said.err
    ask, pay, agent, total = said.out.splitlines()
    at = line_of("def ask(question: str) -> str:") - 1
    assert ask.startswith(f"tools.py:{at}: warn: ask: its client CLIENT (tools.Client) retries 2 times by itself")
    assert pay.startswith(f"tools.py:{line_of('@tool')}: note: pay: undeclared, so AT_MOST_ONCE")
    assert ": warn: agent: has Budget(cost_usd=…)" in agent
    assert total == "tools.py: 2 loops, 3 tools: 2 warnings, 1 note"
    assert "imported" in said.err


def test_one_loop_is_looked_at_alone_and_a_clean_one_is_in_order(place, capfd):
    said = place.call(capfd, "check", "tools.py:clean", "--strict")
    assert (said.code, said.out) == (0, "tools.py: 1 loop, 1 tool: in order\n")


def test_strict_exits_1_if_there_is_anything_to_say(place, capfd):
    assert place.call(capfd, "check", "tools.py", "--strict").code == 1


def test_as_json_there_is_one_document_of_all_files(place, capfd):
    said = place.call(capfd, "check", "tools.py", "agents.py:done", "--json").json
    assert [one["file"] for one in said] == ["tools.py", "agents.py"]
    codes = [found["code"] for found in said[0]["findings"]]
    assert codes == ["client.retries", "effect.undeclared", "budget.unreported"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import nowhere_to_be_found", "x.py:1: error: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def f(:", "x.py:1: error: SyntaxError: "),
        ("import sys\nsys.exit(3)", "x.py:2: error: SystemExit: 3"),
        (
            "from yaoki import Effect, tool\n@tool(effect=Effect.KEYED)\ndef pay(n: int) -> int: ...",
            "x.py:2: error: DeclarationError: tool pay is KEYED but takes no key.",
        ),
        (
            "from yaoki import Run, loop\n@loop\ndef f(run: Run) -> 'Nowhere': ...",
            "x.py:2: error: f: its annotations name something that does not exist",
        ),
    ],
)
def test_what_run_would_refuse_is_an_error_with_its_line_and_exits_2(place, capfd, source, said):
    place.write("x.py", source)
    spoken = place.call(capfd, "check", "x.py", "tools.py")
    assert spoken.code == 2
    assert spoken.out.splitlines()[0].startswith(said)
    assert "tools.py: 2 loops, 3 tools: 2 warnings, 1 note" in spoken.out
    assert "Traceback" not in spoken.err


def test_a_file_that_ends_or_kills_its_process_is_no_harm_to_the_command(place, capfd):
    place.write("x.py", "import os\nos._exit(7)")
    said = place.call(capfd, "check", "x.py")
    assert said.code == 2
    assert said.last == "yaoki: importing x.py ended its process (exit status 7); import it by hand to see why"
    place.write("x.py", "import os\nos.kill(os.getpid(), 9)")
    assert "(signal 9)" in place.call(capfd, "check", "x.py").last


def test_threads_that_a_file_leaves_running_are_named_and_not_waited_for(place, capfd):
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), name='ticker').start()\n"
    place.write("x.py", source)
    said = place.call(capfd, "check", "x.py")
    assert said.code == 0
    assert "x.py:1: note: threads ticker: still run after it was imported" in said.out


def test_tools_without_a_loop_are_looked_at_too(place, capfd):
    place.write("x.py", "from yaoki import tool\n\n\n@tool\ndef pay(n: int) -> int:\n    return n\n")
    said = place.call(capfd, "check", "x.py")
    assert said.out.splitlines()[0].startswith("x.py:4: note: pay: undeclared")
    assert said.out.splitlines()[1] == "x.py: 0 loops, 1 tool: 1 note"


def test_a_tool_of_two_loops_is_named_once(place, capfd):
    place.write(
        "x.py",
        "from yaoki import Run, loop, tool\n@tool\ndef pay(n: int) -> int:\n    return n\n"
        "@loop\ndef a(run: Run) -> int:\n    return pay(1)\n@loop\ndef b(run: Run) -> int:\n    return pay(2)\n",
    )
    assert place.call(capfd, "check", "x.py").out.count("pay: undeclared") == 1
