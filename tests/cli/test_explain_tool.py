"""`yaoki explain FILE:TOOL`: a ladder drawn at its worst, what the gate forbids, and whether it fits."""

from __future__ import annotations

import pytest

from tests.cli.command import Place
from yaoki.policy import Retry

TOOLS = """
from yaoki import Budget, Effect, ForModel, Happened, NotHappened, Retry, Run, loop, tool
from yaoki.escalate import ask, dead_letter

@tool(effect=Effect.READ_ONLY, timeout_s=10, retry=Retry(attempts_max=3, deadline_s=100))
def look() -> str:
    raise SystemExit("never called")

@tool(escalate=[ask("What now?", expires_s=86_400), dead_letter()])
def pay(cents: int) -> int:
    return cents

def posted(text: str) -> Happened[None] | NotHappened:
    return NotHappened()

@tool(check=posted, timeout_s=300)
async def post(text: str) -> None: ...

@tool(effect=lambda command: Effect.READ_ONLY, retry=Retry(attempts_max=20, deadline_s=9000))
def shell(command: str) -> str:
    return ""

@tool(agent=ForModel(unsure="tell"))
async def order(what: str) -> str:
    return what

@loop(budget=Budget(retries=1, wall_s=60), crashes_max=2, escalate=dead_letter())
def tight(run: Run) -> str:
    return look()

@loop
def wide(run: Run) -> int:
    look()
    return pay(5)
"""


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    here.write("tools.py", TOOLS)
    yield here
    here.close()


def ladder(place, capfd, name):
    said = place.call(capfd, "explain", f"tools.py:{name}", "--json")
    assert said.code == 0, said.err
    return said.json["ladders"][0]


def test_each_attempt_is_drawn_with_the_wait_after_it(place, capfd):
    said = place.call(capfd, "explain", "tools.py:look")
    assert said.code == 0, said.err
    rows = [row.split() for row in said.out.splitlines()[3:6]]
    assert [row[:3] for row in rows] == [["1", "0", "s"], ["2", "15", "s"], ["3", "35", "s"]]
    assert all("\u2588" in row[-1] for row in rows)
    assert "up to 5.0 s" in said.out
    assert "up to 10 s" in said.out


def test_the_worst_case_is_the_policy_s_own(place, capfd):
    look = ladder(place, capfd, "look")
    assert look["worst_case_s"] == Retry(attempts_max=3, deadline_s=100).worst_case_s(10)
    last = look["rises"][-1]
    assert last["begins_s"] + last["takes_s"] == look["worst_case_s"]


def test_attempts_the_deadline_cuts_off_are_said_not_to_begin(place, capfd):
    post = ladder(place, capfd, "post")
    assert (post["reached"], post["attempts_max"]) == (3, 8)
    last = post["rises"][-1]
    assert last["begins_s"] + last["takes_s"] == post["deadline_s"] == post["worst_case_s"]
    said = place.call(capfd, "explain", "tools.py:post")
    assert "5 attempts of 8 never begin then: deadline_s=900 comes first" in said.out


def test_a_long_ladder_is_drawn_in_part(place, capfd):
    shell = ladder(place, capfd, "shell")
    assert (shell["reached"], len(shell["rises"])) == (20, 12)
    assert "\u2026 and 8 more like the last" in place.call(capfd, "explain", "tools.py:shell").out


RUNGS = """
from yaoki import Effect, Hedge, FailureKind, Retry, Run, loop, tool, INJECTED
from yaoki.escalate import cached, compensate, degrade, fallback

@tool(effect=Effect.READ_ONLY, scope="openai/gpt", retry=Retry(attempts_max=2))
async def ask_b(prompt: str, model: str = "b") -> str: ...

def yesterday(prompt: str, model: str) -> str:
    return ""

@tool(effect=Effect.READ_ONLY, scope="anthropic/sonnet", hedge=Hedge(quantile=0.9), escalate=[
    fallback(ask_b, on=[FailureKind.OVERLOADED, FailureKind.BUDGET]),
    fallback(model="small"),
    cached(yesterday, gap="as of yesterday"),
    compensate(),
    degrade("nothing new " * 20),
])
async def ask_a(prompt: str, model: str = "a") -> str: ...
"""


def test_every_kind_of_rung_is_said_in_words(place, capfd):
    place.write("rungs.py", RUNGS)
    said = place.call(capfd, "explain", "rungs.py:ask_a", "--json")
    assert said.code == 0, said.err
    (one,) = said.json["ladders"]
    value = "nothing new " * 20
    assert one["rungs"] == [
        "fallback to ask_b at openai/gpt: 2 attempts of its own, only after budget, overloaded",
        "fallback to itself with model='small': a ladder of its own",
        "cached: what yesterday() has; if it has nothing, the next rung; noted as a gap: as of yesterday",
        "compensate: what the run has done is undone, the newest first; then the next rung",
        f"degrade: goes on with {repr(value)[:59]}…; noted as a gap: what failed",
    ]


def test_a_hedged_tool_says_when_a_second_call_is_made(place, capfd):
    place.write("rungs.py", RUNGS)
    said = place.call(capfd, "explain", "rungs.py:ask_a")
    assert "once a call takes longer than 90 % of its last 200, a second, equal one beside it" in said.out
    assert "hedged" not in place.call(capfd, "explain", "rungs.py:ask_b").out


@pytest.mark.parametrize(
    ("name", "effect", "after_maybe"),
    [
        ("look", "READ_ONLY", "repeat"),
        ("pay", "AT_MOST_ONCE", "ask"),
        ("post", "CHECKED", "check"),
        ("shell", "by its arguments", "by its arguments"),
        ("order", "AT_MOST_ONCE", "tell"),
    ],
)
def test_what_the_gate_forbids_is_said(place, capfd, name, effect, after_maybe):
    found = ladder(place, capfd, name)
    assert (found["effect"], found["after_maybe"]) == (effect, after_maybe)
    assert found["undeclared"] == (name in {"pay", "order"})


def test_rungs_are_the_tool_s_own_else_those_of_the_loop(place, capfd):
    pay, look = ladder(place, capfd, "pay"), ladder(place, capfd, "look")
    assert pay["rungs_of"] == "tool"
    assert [rung.partition(":")[0].partition(";")[0] for rung in pay["rungs"]] == ["ask a person", "dead letter"]
    assert look["rungs_of"] == "tight"
    assert look["rungs"][0].startswith("dead letter")


def test_a_loop_whose_budget_is_too_small_is_named_with_what_it_lacks(place, capfd):
    fits = {(fit["loop"], fit["field"]): fit["fits"] for fit in ladder(place, capfd, "look")["fits"]}
    assert fits["tight", "retries"] is False
    assert fits["tight", "crashes_max"] is False
    assert fits["tight", "wall_s"] is True
    assert all(fit for (loop, _), fit in fits.items() if loop == "wide")
    lines = place.call(capfd, "explain", "tools.py:look").out.splitlines()
    tight, wide = (next(one for one in lines if one.startswith(f"in {name} ")) for name in ("tight", "wide"))
    assert "does not fit: retries 2 of 1 (retries), deaths in a row 3 of 2 (crashes_max)" in tight
    assert " fits: " in wide


def test_only_a_call_that_cannot_be_interrupted_is_killed_by_the_supervisor(place, capfd):
    assert ladder(place, capfd, "look")["killed_after_s"] == 20
    assert ladder(place, capfd, "post")["killed_after_s"] is None
    assert "no loop of this file uses it" in place.call(capfd, "explain", "tools.py:post").out


def test_a_loop_is_explained_by_each_of_its_tools(place, capfd):
    found = place.call(capfd, "explain", "tools.py:wide", "--json").json["ladders"]
    assert [one["tool"] for one in found] == ["look", "pay"]
    assert {fit["loop"] for one in found for fit in one["fits"]} == {"wide"}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("tools.py:lok", "no tool or loop lok in tools.py; there: look, order, pay, post, shell, tight, wide; did you"),
        ("tools.py", "which tool or loop of tools.py? look, order, pay, post, shell, tight, wide; say tools.py:look"),
        ("tool.py:look", "no file tool.py; did you mean tools.py?"),
        ("broken.py:x", "broken.py:1: RuntimeError: no"),
        ("empty.py:x", "empty.py has no tool; decorate one: @tool def my_tool(\u2026)"),
    ],
)  # fmt: skip
def test_a_target_that_is_not_there_gets_one_line(place, capfd, target, said):
    place.write("broken.py", "raise RuntimeError('no')")
    place.write("empty.py", "")
    found = place.call(capfd, "explain", target)
    assert found.code == 2
    assert said in found.err
    assert len(found.err.splitlines()) == 1


def test_a_line_of_a_log_that_names_a_file_is_an_error_s_text(place, capfd):
    said = place.call(capfd, "explain", "tools.py:12: httpx.ReadTimeout: timed out", "--json")
    assert said.code == 0
    assert "ladders" not in said.json
