"""
The vendors' own clients against a server that answers with what the vendors document.

Whatever an SDK makes of an answer, it is judged as the answer itself. The SDKs of Google, Mistral, Cohere and
LiteLLM are large: they are an extra, `yaoki[sdks]`, and are provoked here where it is installed; everywhere else
`test_recorded_sdks` holds what they raised.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from typing import TYPE_CHECKING, Any

import anthropic
import botocore.config
import botocore.session
import openai
import pytest

from tests.classify.rebuilt import Row, rows
from tests.classify.wild_server import closed_port
from tests.classify.wire_server import Wire, serving_wire
from yaoki.classify import Executed, Failure, FailureKind, classify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

K, NO, MAYBE, YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES
TIMEOUT_S = 5.0
SHORT_S = 0.3
MESSAGES: Any = [{"role": "user", "content": "hello"}]


@functools.cache
def openai_client(url: str, timeout_s: float) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=0, timeout=timeout_s)


@functools.cache
def anthropic_client(url: str, timeout_s: float) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="sk-ant-test", max_retries=0, timeout=timeout_s)


@functools.cache
def botocore_client(url: str, timeout_s: float) -> Any:
    config = botocore.config.Config(
        retries={"total_max_attempts": 1}, read_timeout=timeout_s, connect_timeout=timeout_s, region_name="us-east-1"
    )
    return botocore.session.get_session().create_client(
        "bedrock-runtime", endpoint_url=url, config=config, aws_access_key_id="AKIATEST", aws_secret_access_key="x"
    )


@pytest.fixture(scope="module", autouse=True)
def no_client_is_left() -> Iterator[None]:
    yield
    for client in (openai_client, anthropic_client, botocore_client):
        client.cache_clear()


def by_openai(url: str, timeout_s: float = TIMEOUT_S, **more: Any) -> object:
    client = openai_client(url, timeout_s)
    found: Any = client.chat.completions.create(model="m", messages=MESSAGES, **more)
    return list(found) if more else found


def by_anthropic(url: str, timeout_s: float = TIMEOUT_S, **more: Any) -> object:
    client = anthropic_client(url, timeout_s)
    found: Any = client.messages.create(model="m", max_tokens=9, messages=MESSAGES, **more)
    return list(found) if more else found


def by_botocore(url: str, timeout_s: float = TIMEOUT_S) -> object:
    client = botocore_client(url, timeout_s)
    return client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "hello"}]}])


def by_google(url: str, timeout_s: float = TIMEOUT_S) -> object:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(
        base_url=url, timeout=int(timeout_s * 1000), retry_options=types.HttpRetryOptions(attempts=1)
    )
    client = genai.Client(api_key="AIzaTest", http_options=options)
    return client.models.generate_content(model="m", contents="hello")


def by_mistral(url: str, timeout_s: float = TIMEOUT_S) -> object:
    from mistralai.client import Mistral

    with Mistral(server_url=url, api_key="test", timeout_ms=int(timeout_s * 1000)) as client:
        return client.chat.complete(model="m", messages=MESSAGES, retries=None)


def by_cohere(url: str, timeout_s: float = TIMEOUT_S) -> object:
    import cohere

    client = cohere.ClientV2(base_url=url, api_key="test", timeout=timeout_s)
    return client.chat(model="m", messages=MESSAGES, request_options={"max_retries": 0})


def by_litellm(url: str, timeout_s: float = TIMEOUT_S) -> object:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it looks for prices on the internet when it is imported
    import litellm

    litellm.suppress_debug_info = True
    return litellm.completion(
        model="openai/m", messages=MESSAGES, api_base=f"{url}/v1", api_key="sk-test", timeout=timeout_s,
        num_retries=0, max_retries=0,
    )  # fmt: skip


EXTRA = ("google.genai", "mistralai", "cohere", "litellm")


def installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


HERE = {name for name in EXTRA if installed(name)}

CLIENTS: dict[str, tuple[Callable[..., object], str]] = {
    "openai": (by_openai, "openai azure openrouter groq deepseek together vllm gateways moonshot xai z.ai dashscope"),
    "anthropic": (by_anthropic, "anthropic"),
    "botocore": (by_botocore, "bedrock"),
    **({"google": (by_google, "google")} if "google.genai" in HERE else {}),
    **({"mistral": (by_mistral, "mistral")} if "mistralai" in HERE else {}),
    **({"cohere": (by_cohere, "cohere")} if "cohere" in HERE else {}),
    **({"litellm": (by_litellm, "openai groq deepseek")} if "litellm" in HERE else {}),
}
SAID = rows("documented.jsonl")


def failure_of(call: Callable[..., object], *args: Any, **more: Any) -> Failure:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what an SDK warns of is its own affair
        try:
            found = call(*args, **more)
        except Exception as error:
            return classify(error)
    raise AssertionError(f"no error but {found!r}")


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with serving_wire() as found:
        yield found


def lines() -> list[Any]:
    return [
        pytest.param(client, row, id=f"{client}-{row['id']}")
        for client, (_, vendors) in CLIENTS.items()
        for row in SAID
        if row["id"].rpartition("-")[0] in vendors.split() and (row["http_status"] or 0) >= 400
    ]


def test_where_everything_is_checked_the_large_sdks_are_there() -> None:
    assert set(EXTRA) == HERE or not os.environ.get("YAOKI_SDKS")


@pytest.mark.parametrize(("client", "row"), lines())
def test_an_sdk_s_error_is_judged_as_the_answer_it_was_made_of(wire: Wire, client: str, row: Row) -> None:
    call, _ = CLIENTS[client]
    code = row["body"].partition("#")[2].partition('"')[0]
    wire.says(row["http_status"], row["body"], **({"x_amzn_errortype": code} if client == "botocore" else {}))
    failure = failure_of(call, wire.url)
    assert wire.requests == 1
    assert failure.kind in row["accept"], failure
    if 400 <= row["http_status"] < 500 and row["http_status"] != 499 and failure.kind is not K.SEMANTIC:
        assert failure.executed is NO, failure


ALL = sorted(CLIENTS)


@pytest.mark.parametrize("client", ALL)
def test_a_refused_connection_sent_nothing(client: str) -> None:
    failure = failure_of(CLIENTS[client][0], f"http://127.0.0.1:{closed_port()}")
    assert (failure.kind, failure.executed) == (K.TRANSIENT, NO), failure


@pytest.mark.parametrize("client", ALL)
def test_a_server_that_does_not_answer_may_have_acted(wire: Wire, client: str) -> None:
    wire.released.clear()
    wire.says(200, "", how="hang")
    failure = failure_of(CLIENTS[client][0], wire.url, SHORT_S)
    wire.released.set()
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure


@pytest.mark.parametrize("client", ALL)
def test_a_server_that_closes_may_have_acted(wire: Wire, client: str) -> None:
    wire.says(200, "", how="close")
    failure = failure_of(CLIENTS[client][0], wire.url)
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure


@pytest.mark.parametrize("client", ALL)
@pytest.mark.parametrize(("status", "headers", "wait_s"), [
    (429, {"retry_after": "7"}, 7.0),
    (429, {"retry_after_ms": "250"}, 0.25),
    (503, {"retry_after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
])  # fmt: skip
def test_the_wait_of_the_headers_is_found(
    wire: Wire, client: str, status: int, headers: dict[str, str], wait_s: float
) -> None:
    wire.says(status, '{"message": "slow down please"}', **headers)
    failure = failure_of(CLIENTS[client][0], wire.url)
    assert failure.retry_after_s == wait_s, failure
    assert failure.executed is NO, failure


@pytest.mark.parametrize("client", ALL)
def test_a_gateway_s_page_is_judged_by_its_status(wire: Wire, client: str) -> None:
    wire.says(502, "<html><title>502 Bad Gateway</title></html>")
    failure = failure_of(CLIENTS[client][0], wire.url)
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure


def event(data: str, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"


BEGUN = event('{"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}')
ERRORS: list[tuple[str, FailureKind]] = [
    ('{"error":{"message":"The server had an error","type":"server_error","code":null}}', K.TRANSIENT),
    ('{"error":{"message":"Overloaded","type":"server_error","code":"server_is_overloaded"}}', K.OVERLOADED),
    ('{"error":{"message":"Rate limit reached. Try again in 2s.","type":"tokens","code":"rate_limit_exceeded"}}',
     K.RATE_LIMITED),
    ('{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}',
     K.BUDGET),
    ('{"error":{"message":"Failed to call a function","type":"invalid_request_error","code":"tool_use_failed"}}',
     K.SEMANTIC),
    ('{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}', K.CAPABILITY),
    ('{"error":{"message":"no","type":"invalid_request_error","code":null}}', K.PERMANENT),
    ('{"error":{"message":"Provider returned error","code":502}}', K.TRANSIENT),
    ('{"error":{"message":"something else"}}', K.TRANSIENT),
]  # fmt: skip


@pytest.mark.parametrize(("error", "kind"), ERRORS)
def test_an_error_event_in_openai_s_stream_is_judged_by_what_it_says(wire: Wire, error: str, kind: FailureKind) -> None:
    wire.says(200, BEGUN + event(error), how="stream")
    failure = failure_of(by_openai, wire.url, stream=True)
    assert failure.kind is kind, failure
    assert failure.executed is not NO, failure


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("overloaded_error", K.OVERLOADED),
        ("api_error", K.TRANSIENT),
        ("rate_limit_error", K.RATE_LIMITED),
        ("invalid_request_error", K.PERMANENT),
        ("timeout_error", K.TRANSIENT),
        ("billing_error", K.BUDGET),
    ],
)
def test_an_error_event_in_anthropic_s_stream_is_judged_by_its_type(wire: Wire, type_: str, kind: FailureKind) -> None:
    ping = event('{"type":"ping"}', "ping")
    wire.says(
        200, ping + event(f'{{"type":"error","error":{{"type":"{type_}","message":"x"}}}}', "error"), how="stream"
    )
    failure = failure_of(by_anthropic, wire.url, stream=True)
    assert failure.kind is kind, failure
    assert failure.executed is not NO, failure


@pytest.mark.parametrize("call", [by_openai, by_anthropic])
def test_a_stream_that_just_ends_may_have_acted(wire: Wire, call: Any) -> None:
    wire.says(200, BEGUN if call is by_openai else event('{"type":"ping"}', "ping"), how="cut")
    failure = failure_of(call, wire.url, stream=True)
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure


def test_an_answer_cut_at_its_limit_or_filtered_was_given(wire: Wire) -> None:
    from pydantic import BaseModel

    class Out(BaseModel):
        x: int

    def parse(url: str) -> object:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=0) as client:
            return client.chat.completions.parse(model="m", messages=MESSAGES, response_format=Out)

    for reason, kind in (("length", K.CAPABILITY), ("content_filter", K.PERMANENT)):
        choice = f'{{"index":0,"finish_reason":"{reason}","message":{{"role":"assistant","content":"{{"}}}}'
        wire.says(200, f'{{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{choice}]}}')
        failure = failure_of(parse, wire.url)
        assert (failure.kind, failure.executed) == (kind, YES), failure


@pytest.mark.parametrize(("make", "name"), [(openai.OpenAI, "OPENAI_API_KEY"), (openai.AzureOpenAI, "OPENAI_API_KEY")])
def test_a_client_without_a_key_sent_nothing(make: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    failure = failure_of(make)
    assert failure.kind in {K.PERMANENT, K.PROGRAMMING}, failure
    assert failure.kind is K.PROGRAMMING or failure.executed is NO, failure
