"""What a person is told before a loop runs: what is declared and has no effect, or has more than it says."""

from __future__ import annotations

import functools
import sys

import httpx
import pytest
import requests
import urllib3

from yaoki import INJECTED, Budget, Effect, Feedback, Local, Retry, Toolbox, loop, tool
from yaoki.runtime import ForModel
from yaoki.runtime._clients import retries_of
from yaoki.runtime._preflight import Finding

READ = Effect.READ_ONLY


class Client:
    """As the SDKs of openai and anthropic are made: `max_retries` on the client, 2 by default; parts keep `_client`."""

    def __init__(self, *, api_key: str = "", max_retries: int = 2) -> None:
        self.max_retries = max_retries
        self.messages = Messages(self)


class Messages:
    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self) -> str:
        return "hi"


CLIENT = Client()
QUIET = Client(max_retries=0)


class Shelf:
    client = None

    def __init__(self, client: Client) -> None:
        self.client = client


SHELF = Shelf(CLIENT)


def found(one) -> list[Finding]:
    return one.findings()


def codes(one) -> list[str]:
    return [finding.code for finding in one.findings()]


def asking(fn, **policy):
    """Return a loop that uses one tool made of the function."""
    made = tool(effect=READ, **policy)(fn)

    @loop
    def work(run) -> str:
        return made()

    return work


def by_global() -> str:
    return CLIENT.messages.create()


def by_shelf() -> str:
    return SHELF.client.messages.create()


def helper() -> str:
    return CLIENT.messages.create()


def by_helper() -> str:
    return helper()


def by_quiet() -> str:
    return QUIET.messages.create()


def by_default(client: Local[Client] = CLIENT) -> str:
    return client.messages.create()


def made_inside() -> str:
    return Client(api_key="x").messages.create()


def made_quiet() -> str:
    return Client(api_key="x", max_retries=0).messages.create()


def test_a_client_with_retries_of_its_own_is_named_with_the_sum_and_the_way_out():
    (finding,) = found(asking(by_global, name="ask_model"))
    assert (finding.level, finding.code, finding.subject) == ("warn", "client.retries", "ask_model")
    assert "its client CLIENT (tests.Client) retries 2 times by itself" in finding.text
    assert "8 attempts can be 24 requests" in finding.text
    assert finding.text.endswith("Switch that off: max_retries=0")
    assert finding.file == __file__
    assert finding.line == by_global.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (by_helper, "CLIENT"),
        (by_shelf, "SHELF"),
        (by_default, "client"),
        (made_inside, "Client"),
    ],
)
def test_a_client_is_found_wherever_the_tool_can_reach_it(fn, name):
    (finding,) = found(asking(fn))
    assert f"its client {name} (" in finding.text


@pytest.mark.parametrize("fn", [by_quiet, made_quiet])
def test_a_client_told_not_to_retry_is_none(fn):
    assert found(asking(fn)) == []


def test_a_client_in_a_closure_and_one_on_self_are_found():
    inner = Client()

    @tool(effect=READ)
    def ask() -> str:
        return inner.messages.create()

    class Desk:
        def __init__(self) -> None:
            self.client = Client()

        @tool(effect=READ)
        def look(self) -> str:
            return self.client.messages.create()

    box = Toolbox(ask, Desk().look)

    @loop
    def work(run) -> str:
        return run.call_tools(box, [])

    assert [finding.text.split(" (")[0] for finding in found(work)] == ["its client inner", "its client self.client"]


def test_a_client_given_to_the_loop_is_found():
    @loop
    def work(run, client: Local[Client]) -> str:
        return "x"

    assert codes(work.with_locals(client=Client())) == ["client.retries"]
    assert codes(work.with_locals(client=Client(max_retries=0))) == []


def session(total: int) -> requests.Session:
    made = requests.Session()
    made.mount("https://", requests.adapters.HTTPAdapter(max_retries=total))
    return made


class Boto:
    """As botocore makes its clients: `meta`, and in it the config as resolved."""

    def __init__(self, retries: object) -> None:
        self.meta = type("Meta", (), {})()
        self.meta._client_config = type("Config", (), {})()
        self.meta._client_config.retries = retries


@pytest.mark.parametrize(
    ("client", "retries"),
    [
        (Client(), 2),
        (Client(max_retries=0), 0),
        (Client().messages, 2),
        (Client().messages.create, 2),
        (functools.partial(Client().messages.create), 2),
        (session(0), 0),
        (session(3), 3),
        (httpx.Client(), 0),
        (httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(retries=4)), 4),
        (urllib3.PoolManager(), 3),
        (urllib3.PoolManager(retries=False), 0),
        (urllib3.PoolManager(retries=urllib3.Retry(5)), 5),
        (Boto(None), 4),
        (Boto({"total_max_attempts": 1}), 0),
        (Boto({"max_attempts": 2, "mode": "standard"}), 2),
    ],
)
def test_the_retries_of_clients_are_known_by_their_attributes(client, retries):
    known = retries_of(client)
    assert known is not None
    assert known[0] == retries


@pytest.mark.parametrize("other", [object(), 5, "text", {"max_retries": 3}, len, Client, functools, None])
def test_what_is_no_client_says_nothing(other):
    assert retries_of(other) is None


def create() -> str:
    return CLIENT.messages.create()


def named_alike() -> str:
    return QUIET.messages.create()


def test_an_attribute_is_no_global_of_that_name():
    assert found(asking(named_alike)) == []


def test_looking_runs_no_code_of_the_object():
    class Trap:
        def __getattr__(self, name: str):
            raise AssertionError(name)

        @property
        def __class__(self) -> type:  # as lazy proxies have it, which then load their library
            raise AssertionError

        @property
        def max_retries(self) -> int:
            raise AssertionError

    assert retries_of(Trap()) is None


def test_clients_that_keep_each_other_are_no_endless_search():
    a, b = Shelf(CLIENT), Shelf(CLIENT)
    a.client, b.client = b, a
    assert retries_of(a) is None


def test_repair_on_a_tool_that_may_not_be_repeated_is_said_to_have_no_effect():
    agent = ForModel(validate=bool)

    @tool(effect=Effect.KEYED, agent=agent)
    def pay(*, idempotency_key: str = INJECTED, feedback: Feedback | None = INJECTED) -> str:
        return "x"

    @tool(effect=READ, agent=agent)
    def untold() -> str:
        return "x"

    @tool(effect=READ, agent=agent)
    def told(*, feedback: Feedback | None = INJECTED) -> str:
        return "x"

    @tool(effect=Effect.AT_MOST_ONCE, agent=ForModel(validate=bool, repairs_max=0))
    def once() -> str:
        return "x"

    @loop
    def work(run) -> str:
        return pay() + untold() + told() + once()

    assert [(one.subject, one.code) for one in found(work)] == [("pay", "repair.never"), ("untold", "repair.untold")]


def test_a_cost_budget_nobody_reports_to_is_said_to_hold_nothing():
    @loop(budget=Budget(cost_usd=2.0))
    def silent(run) -> str:
        return "x"

    @loop(budget=Budget(cost_usd=2.0))
    def speaks(run) -> str:
        run.spend(cost_usd=0.1)
        return "x"

    (finding,) = found(silent)
    assert (finding.code, finding.level) == ("budget.unreported", "warn")
    assert "Budget(cost_usd=…)" in finding.text
    assert found(speaks) == []


@pytest.mark.parametrize(
    ("policy", "budget", "code"),
    [
        ({"retry": Retry(attempts_max=8)}, Budget(retries=3), "budget.retries"),
        ({}, Budget(calls=4), "budget.calls"),
        ({}, Budget(wall_s=600), "budget.wall_s"),
        ({}, Budget(retry_wait_s=10), "budget.retry_wait_s"),
        ({"timeout_s": 600}, Budget(), "ladder.deadline"),
        ({"retry": Retry(attempts_max=3, deadline_s=100)}, Budget(), "ladder.deadline"),
    ],
)
def test_a_ladder_that_does_not_fit_is_named(policy, budget, code):
    @tool(effect=READ, **policy)
    def look() -> str:
        return "x"

    @loop(budget=budget)
    def work(run) -> str:
        return look()

    (finding,) = found(work)
    assert (finding.subject, finding.code, finding.level) == ("look", code, "note")


def test_defaults_are_nothing_to_speak_of():
    @tool(effect=READ)
    def look() -> str:
        return "x"

    @loop
    def work(run) -> str:
        return look()

    assert found(work) == []


def test_lines_that_say_the_same_of_several_tools_are_one():
    @tool
    def a() -> str:
        return "x"

    @tool
    def b() -> str:
        return "x"

    @loop
    def work(run) -> str:
        return a() + b()

    (line,) = work.preflight()
    assert line.startswith("a, b: undeclared, so AT_MOST_ONCE")


def spending(fn, budget, **agent):
    @loop(budget=budget)
    def work(run) -> int:
        made(1)
        return 1

    made = tool(effect=READ, agent=ForModel(**agent))(fn)
    return work


def priced(n: int) -> dict:
    return {}


def texting(n: int) -> str:
    return ""


def test_a_tool_that_says_what_it_used_reports_a_budget():
    assert "budget.unreported" in codes(spending(texting, Budget(cost_usd=1)))
    assert "budget.unreported" not in codes(spending(texting, Budget(cost_usd=1), usage=len))
    assert "budget.unreported" not in codes(spending(texting, Budget(cost_usd=1), reserve={"cost_usd": 0.01}))
    assert "budget.unreported" not in codes(spending(priced, Budget(cost_usd=1)))


def test_tokens_that_nothing_here_can_price_are_named_before_a_budget_of_dollars(monkeypatch):
    work = spending(priced, Budget(cost_usd=1))
    assert "budget.unpriced" not in codes(work)
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    (finding,) = found(work)
    assert (finding.code, finding.level) == ("budget.unpriced", "warn")
    assert "pip install yaoki[prices]" in finding.text
    assert codes(spending(priced, Budget(tokens=1))) == []
    assert codes(spending(texting, Budget(cost_usd=1), usage=len)) == []


@pytest.mark.parametrize("field", ["tokens", "cost_usd"])
def test_a_step_that_can_reserve_more_than_the_whole_run_may_use_is_named(field):
    """Eight attempts of 2 are 16."""
    budgets = Budget(**{field: 16}), Budget(**{field: 15})
    fits, wants = (codes(spending(priced, budget, reserve={field: 2})) for budget in budgets)
    assert fits == []
    assert wants == [f"budget.{field}"]
