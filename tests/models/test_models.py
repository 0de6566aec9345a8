"""The vendors' real clients against a vendor on loopback that misbehaves: each fault ends as it should."""

from __future__ import annotations

import time
from typing import Any

import anthropic
import openai
import pytest

from tests.runtime.house import House, got
from yaoki import Breaker, Budget, Effect, Retry, Toolbox, ToolCall, tool
from yaoki.agent import aconverse, converse
from yaoki.escalate import fallback
from yaoki.models import anthropic_model, openai_model, responses_model
from yaoki.records import Begin, Settle, State
from yaoki.testing import Answer, ModelServer

FORMS = ["anthropic", "openai", "responses"]
QUICK = Retry(attempts_max=4, base_s=0.01, cap_s=0.02)
NEVER_OPEN = Breaker(failures=10_000)


def model_of(form: str, vendor: ModelServer, *, is_async: bool, name: str = "gpt-9", **policy: Any):
    """Return a model behind the real client of its vendor."""
    policy = {"retry": QUICK, "breaker": NEVER_OPEN, **policy}
    if form == "anthropic":
        kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
        return anthropic_model(kind(api_key="x", base_url=vendor.url), name, **policy)
    kind = openai.AsyncOpenAI if is_async else openai.OpenAI
    make = openai_model if form == "openai" else responses_model
    return make(kind(api_key="x", base_url=vendor.url + "/v1"), name, **policy)


class Case:
    """A form, a colour, streamed or not."""

    def __init__(self, form: str, colour: str, path, *, stream: bool) -> None:
        self.form = form
        self.stream = stream
        self.house = House(colour, path, real_time=True)

    def model(self, vendor: ModelServer, **policy: Any):
        return model_of(self.form, vendor, is_async=self.house.is_async, **{"stream": self.stream, **policy})

    def run(self, model, **policy: Any):
        """Ask once; the receipt's value is text, calls, stop, model and tokens."""

        @self.house.loop(**policy)
        async def work(run) -> list[Any]:
            reply = await got(model([{"role": "user", "content": "hello"}]))
            calls = [[one.id, one.name, one.args] for one in reply.calls]
            return [reply.text, calls, reply.stop, reply.model, reply.usage.total]

        return self.house.run(work.bind())


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request) -> bool:
    return request.param


@pytest.fixture(params=["sync", "async"])
def colour(request) -> str:
    return request.param


@pytest.fixture(params=FORMS)
def case(request, colour, stream, tmp_path) -> Case:
    return Case(request.param, colour, tmp_path, stream=stream)


LOOKS = Answer("I look.", calls=[("look", {"order": "A-1", "n": 3})], input_tokens=1000, output_tokens=20)


def test_words_calls_stop_model_and_usage(case):
    with ModelServer([LOOKS]) as vendor:
        receipt = case.run(case.model(vendor))
    stop = {"anthropic": "tool_use", "openai": "tool_calls", "responses": "completed"}[case.form]
    assert receipt.value == ["I look.", [["call_1", "look", {"order": "A-1", "n": 3}]], stop, "gpt-9", 1020]
    assert receipt.spent.tokens == 1020
    assert {begin.effect for begin in case.house.records(Begin)} == {Effect.READ_ONLY}
    assert vendor.asked[0].body["model"] == "gpt-9"
    assert bool(vendor.asked[0].body.get("stream")) == case.stream


def test_arguments_that_are_no_json_are_a_mistake_not_a_failure(case):
    with ModelServer([Answer(calls=[("look", '{"order": ')]), "done"]) as vendor:
        receipt = case.run(case.model(vendor))
    assert receipt.status is State.COMPLETED
    assert receipt.value[1][0][1] == "look"


# --- the sixteen faults, each with the number of requests the vendor saw


@pytest.mark.parametrize(
    ("faults", "asked"),
    [
        (["429 after=0.2"], 2),
        (["429"], 2),
        (["500"], 2),
        (["529", "503"], 3),
        (["reset"], 2),
        (["cut"], 2),
        (["malformed"], 2),
    ],
    ids=lambda value: "-".join(value).replace(" ", "_") if isinstance(value, list) else str(value),
)
def test_what_heals_is_asked_again_by_us_alone(case, faults, asked):
    with ModelServer(["hello to you"], faults=faults) as vendor:
        receipt = case.run(case.model(vendor))
        assert receipt.value is not None, receipt.failure
        assert receipt.value[0] == "hello to you"
    assert len(vendor.asked) == asked, vendor.faults_met
    if faults == ["429 after=0.2"]:
        assert vendor.gaps_s[0] >= 0.2
    assert receipt.spent.tokens == 15, "no failed attempt is billed as an answer"


@pytest.mark.parametrize("fault", ["400", "401", "context", "filter", "prefill"])
def test_what_cannot_heal_is_asked_once(case, fault):
    with ModelServer(["never"], faults=[f"{fault}*"]) as vendor:
        receipt = case.run(case.model(vendor))
    assert receipt.status is State.DEAD
    assert len(vendor.asked) == 1


def test_a_quota_waits_for_somebody_and_is_not_asked_again(case):
    with ModelServer(["never"], faults=["quota*"]) as vendor:
        receipt = case.run(case.model(vendor))
    assert (receipt.status, receipt.waits_for) == (State.WAITING, "budget")
    assert len(vendor.asked) == 1


def test_one_that_is_down_for_good_is_given_up(case):
    with ModelServer(["never"], faults=["503*"]) as vendor:
        receipt = case.run(case.model(vendor))
    assert receipt.status is State.DEAD
    assert len(vendor.asked) == 4


def test_silence_is_left_at_its_limit(case):
    with ModelServer(["back"], faults=["silence"]) as vendor:
        began = time.monotonic()
        limits = {"first_token_s": 0.4} if case.stream else {"timeout_s": 0.4}
        receipt = case.run(case.model(vendor, **limits))
        assert receipt.value[0] == "back", receipt.failure
        assert time.monotonic() - began < 20
    assert vendor.faults_met == ["silence", "ok"]


@pytest.fixture(params=FORMS)
def streaming(request, colour, tmp_path) -> Case:
    return Case(request.param, colour, tmp_path, stream=True)


def test_a_stalled_stream_is_no_answer(streaming):
    with ModelServer(["a long answer in several pieces"], faults=["stall"]) as vendor:
        receipt = streaming.run(streaming.model(vendor, silence_s=0.4))
        assert receipt.value[0] == "a long answer in several pieces"
    settles = [one for one in streaming.house.records(Settle) if one.failure is not None]
    assert [one.failure.reason for one in settles] == ["stream.silent"]
    assert len(vendor.asked) == 2


def test_a_slow_first_token_is_waited_for_within_its_limit(streaming):
    with ModelServer(["slow"], faults=["slow=0.5"]) as vendor:
        assert streaming.run(streaming.model(vendor, first_token_s=20, silence_s=0.2)).value[0] == "slow"
    assert len(vendor.asked) == 1


def test_an_error_inside_a_stream_is_what_it_says(streaming):
    with ModelServer(["whole"], faults=["error-event"]) as vendor:
        receipt = streaming.run(streaming.model(vendor))
        assert receipt.value[0] == "whole"
    failures = [one.failure for one in receipt.failures]
    assert len(failures) == 1
    assert failures[0].kind in ("overloaded", "transient")


def test_a_whole_stream_without_its_end_is_an_answer_at_once(streaming):
    with ModelServer([LOOKS], faults=["no-marker"]) as vendor:
        receipt = streaming.run(streaming.model(vendor))
        assert receipt.value[:2] == ["I look.", [["call_1", "look", {"order": "A-1", "n": 3}]]]
    assert len(vendor.asked) == 1
    if streaming.form != "responses":
        assert receipt.spent.tokens == 1020


def test_who_has_seen_some_of_it_is_told_that_it_was_no_answer(streaming):
    seen: list[str] = []
    with ModelServer(["a long answer in several pieces"], faults=["cut"]) as vendor:
        receipt = streaming.run(streaming.model(vendor, on_text=seen.append))
    assert receipt.value[0] == "a long answer in several pieces"
    told = "".join(seen)
    assert told.count("[cut off here, and no answer") == 1
    assert told.endswith("a long answer in several pieces")
    partial, _, _ = told.partition("\n[cut off here")
    assert partial
    assert "a long answer in several pieces".startswith(partial)


def test_or_its_own_word_is_called(streaming):
    seen: list[str] = []
    broken: list[Any] = []
    with ModelServer(["a long answer in several pieces"], faults=["stall"]) as vendor:
        model = streaming.model(vendor, on_text=seen.append, on_break=broken.append, silence_s=0.3)
        streaming.run(model)
    assert [(one.why, one.partial) for one in broken] == [("silent", "".join(seen)[: len(broken[0].partial)])]
    assert "cut off" not in "".join(seen)


# --- another model


@pytest.mark.parametrize("fault", ["silence*", "503*", "context", "filter", "prefill", "stall*"])
def test_another_model_answers_and_is_named(streaming, fault):
    with ModelServer(["from the first"], faults=[fault]) as first, ModelServer(["from the second"]) as second:
        other = streaming.model(second, name="other")
        limits = {"first_token_s": 0.3, "silence_s": 0.3}
        receipt = streaming.run(streaming.model(first, name="primary", escalate=[fallback(other)], **limits))
        assert receipt.value is not None, receipt.failure
        assert receipt.value[0] == "from the second"
        assert receipt.value[3] == "other"
    asked = {"503*": 3}.get(fault, 1)
    assert len(first.asked) == asked, "a silent one is left after its first timeout"
    assert len(second.asked) == 1
    assert second.asked[0].messages == [{"role": "user", "content": "hello"}], "a clean restart: nothing is prefilled"
    assert receipt.spent.tokens == 15
    assert receipt.failures[0].failure.reason != receipt.failure.reason if receipt.failure else True


@pytest.mark.parametrize(
    ("one", "another"), [("anthropic", "openai"), ("openai", "anthropic"), ("responses", "anthropic")]
)
def test_a_model_of_another_vendor_takes_over_in_the_same_transcript(colour, tmp_path, one, another):
    house = House(colour, tmp_path, real_time=True)

    @house.tool(effect=Effect.READ_ONLY)
    def look(order: str) -> str:
        return f"{order}: 4200 cents"

    script = [Answer("", calls=[("look", {"order": "A-1"})]), "It is 4200 cents."]
    with ModelServer(script, faults=["ok", "503*"]) as first, ModelServer(script) as second:
        other = model_of(another, second, is_async=house.is_async, name="other", transcript=one)
        model = model_of(one, first, is_async=house.is_async, name="primary", escalate=[fallback(other)])

        @house.loop
        async def work(run) -> str:
            loop = aconverse if house.is_async else converse
            return await got(loop(run, model, "How much is A-1?", tools=Toolbox(look)))

        receipt = house.run(work.bind())
    assert receipt.value == "It is 4200 cents.", receipt.failure
    sent = second.asked[0]
    assert sent.form == another
    assert "4200 cents" in str(sent.messages)
    assert sent.turn == 1


def test_a_primary_that_is_down_is_probed_and_returned_to(colour, tmp_path):
    house = House(colour, tmp_path, real_time=True)
    with ModelServer(["first"], faults=["503"] * 3) as first, ModelServer(["second"]) as second:
        other = model_of("openai", second, is_async=house.is_async, name="other")
        breaker = Breaker(failures=3, open_s=0.5)
        model = model_of(
            "openai", first, is_async=house.is_async, name="primary", escalate=[fallback(other)], breaker=breaker
        )

        @house.loop(budget=Budget(calls=100))
        async def work(run) -> list[str]:
            said: list[str] = []
            for n in range(40):
                said.append((await got(model([{"role": "user", "content": f"{n}"}]))).text)
                if said[-1] == "first":
                    break
                await got(run.sleep(0.1))
            return said

        said = house.run(work.bind()).value
    assert said[0] == "second"
    assert said[-1] == "first"
    assert len(first.asked) == 4, "while it is open it is not asked; then by one probe"


# --- what is stored and sent


def test_a_prefix_of_a_megabyte_costs_nothing_a_turn(colour, tmp_path):
    house = House(colour, tmp_path, real_time=True)
    with ModelServer(lambda asked: f"answer {asked.number}") as vendor:
        model = model_of("openai", vendor, is_async=house.is_async)

        @house.loop
        async def work(run) -> int:
            messages = [{"role": "user", "content": "x" * 1_000_000}]
            for _ in range(10):
                messages += (await got(model(messages))).message
                messages.append({"role": "user", "content": "go on"})
            return len(messages)

        assert house.run(work.bind()).value == 21
    assert (tmp_path / "store.db").stat().st_size < 300_000


def test_tools_and_options_reach_the_vendor_in_its_form(case):
    @tool(effect=Effect.READ_ONLY)
    def look(order: str) -> str:
        """Look an order up."""
        return order

    with ModelServer(["done"]) as vendor:
        model = case.model(vendor, system="Be brief.", temperature=0.3)

        @case.house.loop
        async def work(run) -> str:
            return (await got(model([{"role": "user", "content": "x"}], Toolbox(look).specs()))).text

        assert case.house.run(work.bind()).value == "done"
    body = vendor.asked[0].body
    assert body["temperature"] == 0.3
    (told,) = body["tools"]
    assert (told.get("function") or told)["name"] == "look"
    assert "Be brief." in str(body.get("system") or body.get("instructions") or body.get("messages"))
    assert "authorization" in vendor.asked[0].headers or "x-api-key" in vendor.asked[0].headers


def test_refusals_and_calls_cut_off_are_no_answers(colour, tmp_path):
    for stop, answer in (("content_filter", Answer("I cannot.")), ("length", Answer(calls=[("look", {})]))):
        (tmp_path / stop).mkdir()
        case = Case("openai", colour, tmp_path / stop, stream=False)
        with ModelServer([Answer(answer.text, answer.calls, stop=stop)]) as vendor:
            receipt = case.run(case.model(vendor))
        assert receipt.status is State.DEAD
        assert len(vendor.asked) == 1
        assert stop in receipt.text


def test_outside_a_run_it_is_the_policy_alone():
    with ModelServer(["hi"], faults=["529"]) as vendor:
        model = model_of("anthropic", vendor, is_async=False)
        assert model([{"role": "user", "content": "x"}]).text == "hi"
    assert len(vendor.asked) == 2


def test_a_reply_reads_calls_from_its_message():
    from yaoki.models import Reply

    message = [{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {"a": 1}}]}]
    assert Reply(form="anthropic", message=message).calls == [ToolCall("c", "n", {"a": 1})]
