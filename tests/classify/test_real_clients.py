"""Real exceptions of the real HTTP clients, provoked by a server that misbehaves on loopback."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

from tests.classify.wild_server import closed_port, serving
from yaoki.classify import Executed, Failure, FailureKind, classify, is_control_flow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMEOUT_S = 0.15


def by_httpx(url: str) -> object:
    with httpx.Client(timeout=TIMEOUT_S, trust_env=False) as client:
        return client.post(url, content=b"x").raise_for_status()


def by_httpx_async(url: str) -> object:
    async def call() -> object:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
            return (await client.post(url, content=b"x")).raise_for_status()

    return asyncio.run(call())


def by_httpx2(url: str) -> object:
    with httpx2.Client(timeout=TIMEOUT_S, trust_env=False) as client:
        return client.post(url, content=b"x").raise_for_status()


def by_httpx2_async(url: str) -> object:
    async def call() -> object:
        async with httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
            return (await client.post(url, content=b"x")).raise_for_status()

    return asyncio.run(call())


def by_requests(url: str) -> object:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(url, data=b"x", timeout=TIMEOUT_S)
        answer.raise_for_status()
        return answer.json() if url.endswith("/not-json") else answer


def by_urllib3(url: str) -> object:
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request("POST", url, body=b"x", timeout=TIMEOUT_S)
        return answer if answer.status < 400 else classify(answer, now_ms=0)


def by_aiohttp(url: str) -> object:
    async def call() -> object:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, data=b"x") as answer:
            answer.raise_for_status()
            return await (answer.json() if url.endswith("/not-json") else answer.read())

    return asyncio.run(call())


def by_urllib(url: str) -> object:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data=b"x"), timeout=TIMEOUT_S) as answer:
        return answer.read()


CLIENTS = [by_httpx, by_httpx_async, by_httpx2, by_httpx2_async, by_requests, by_urllib3, by_aiohttp, by_urllib]


def failure_of(call: Callable[[str], object], url: str) -> Failure:
    try:
        found = call(url)
    except Exception as error:
        failure = classify(error, now_ms=0)
        steers = is_control_flow(error)
    else:
        assert isinstance(found, Failure), f"{url} did not fail"
        failure, steers = found, False
    assert not steers
    return failure


@pytest.fixture(scope="module")
def wild() -> Iterator[str]:
    with serving() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def wild_tls() -> Iterator[str]:
    with serving(tls=True) as port:
        yield f"https://127.0.0.1:{port}"


K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE


@pytest.mark.parametrize("call", CLIENTS, ids=lambda call: call.__name__)
@pytest.mark.parametrize(
    ("path", "kind", "executed", "wait_s"),
    [
        ("/hang", K.TRANSIENT, MAYBE, None),
        ("/reset", K.TRANSIENT, MAYBE, None),
        ("/early", K.TRANSIENT, MAYBE, None),
        ("/truncated", K.TRANSIENT, MAYBE, None),
        ("/short", K.TRANSIENT, MAYBE, None),
        ("/garbage", K.PERMANENT, MAYBE, None),
        ("/429-seconds", K.RATE_LIMITED, NO, 7.0),
        ("/429-date", K.RATE_LIMITED, NO, 30.0),
        ("/429-days", K.BUDGET, NO, 200_000.0),
        ("/503", K.OVERLOADED, MAYBE, None),
        ("/503-later", K.OVERLOADED, NO, 5.0),
        ("/500", K.TRANSIENT, MAYBE, None),
        ("/502", K.TRANSIENT, MAYBE, None),
        ("/504", K.TRANSIENT, MAYBE, None),
        ("/529", K.OVERLOADED, NO, None),
        ("/404", K.PERMANENT, NO, None),
        ("/401", K.PERMANENT, NO, None),
        ("/413", K.CAPABILITY, NO, None),
    ],
)
def test_each_client_s_failure_means_the_same(
    wild: str, call: Any, path: str, kind: FailureKind, executed: Executed, wait_s: float | None
) -> None:
    failure = failure_of(call, wild + path)
    assert (failure.kind, failure.executed, failure.retry_after_s) == (kind, executed, wait_s), failure


@pytest.mark.parametrize(
    "call", [by_httpx, by_httpx_async, by_httpx2, by_requests, by_urllib3], ids=lambda call: call.__name__
)
def test_a_quota_in_the_body_outweighs_its_429(wild: str, call: Any) -> None:
    failure = failure_of(call, wild + "/429-quota")
    assert (failure.kind, failure.executed, failure.reason) == (K.BUDGET, NO, "http.429.insufficient_quota")


@pytest.mark.parametrize("call", CLIENTS, ids=lambda call: call.__name__)
def test_a_refused_connection_sent_nothing(call: Any) -> None:
    failure = failure_of(call, f"http://127.0.0.1:{closed_port()}/")
    assert (failure.kind, failure.executed) == (K.TRANSIENT, NO), failure
    assert failure.reason in {"os.ECONNREFUSED", "net.connect"}


@pytest.mark.parametrize("call", CLIENTS, ids=lambda call: call.__name__)
def test_an_untrusted_certificate_sends_nothing_and_stays(wild_tls: str, call: Any) -> None:
    failure = failure_of(call, wild_tls + "/404")
    assert (failure.kind, failure.executed) == (K.PERMANENT, NO), failure
    assert failure.reason == "tls.CERTIFICATE_VERIFY_FAILED"


@pytest.mark.parametrize("call", CLIENTS, ids=lambda call: call.__name__)
def test_tls_spoken_to_a_plain_port_sends_nothing_and_stays(wild: str, call: Any) -> None:
    failure = failure_of(call, wild.replace("http:", "https:") + "/404")
    assert failure.executed is not Executed.YES
    assert failure.kind in {K.PERMANENT, K.TRANSIENT}, failure


@pytest.mark.parametrize("call", CLIENTS, ids=lambda call: call.__name__)
def test_a_name_that_does_not_resolve_sent_nothing(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo

    def numeric(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("flags", None)
        return resolve(host, port, flags=socket.AI_NUMERICHOST)  # no packet leaves for a name

    monkeypatch.setattr(socket, "getaddrinfo", numeric)
    failure = failure_of(call, "http://no-such-host.invalid/")
    assert (failure.kind, failure.executed, failure.reason) == (K.PERMANENT, NO, "dns.EAI_NONAME"), failure


@pytest.mark.parametrize("call", CLIENTS, ids=lambda call: call.__name__)
def test_a_connection_that_is_not_taken_in_time_sent_nothing(call: Any) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]  # the backlog is full: the kernel drops further SYNs
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        failure = failure_of(call, f"http://127.0.0.1:{port}/")
        for sock in waiting:
            sock.close()
    assert failure.kind is K.TRANSIENT, failure
    # aiohttp's total timeout and urllib do not say in which phase it struck.
    assert failure.executed is (MAYBE if call in {by_aiohttp, by_urllib} else NO), failure


def test_aiohttp_tells_its_connect_timeout_from_its_read_timeout(wild: str) -> None:
    async def call(url: str) -> object:
        timeout = aiohttp.ClientTimeout(sock_read=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, data=b"x") as answer:
            return await answer.read()

    failure = failure_of(lambda url: asyncio.run(call(url)), wild + "/hang")
    assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, MAYBE, "timeout.read")


def test_a_pool_without_a_free_connection_sent_nothing(wild: str) -> None:
    limits = httpx.Limits(max_connections=1)
    timeout = httpx.Timeout(1, pool=0.01)
    with httpx.Client(limits=limits, timeout=timeout, trust_env=False) as client:
        with client.stream("GET", wild + "/short"), pytest.raises(httpx.PoolTimeout) as caught:
            client.get(wild + "/404")
        failure = classify(caught.value)
    assert (failure.executed, failure.reason) == (NO, "timeout.pool")


@pytest.mark.parametrize("call", [by_requests, by_aiohttp], ids=lambda call: call.__name__)
def test_an_answer_that_is_no_json_is_semantic(wild: str, call: Any) -> None:
    assert failure_of(call, wild + "/not-json").kind is K.SEMANTIC


@pytest.mark.parametrize(
    "call", [by_httpx, by_httpx2, by_requests, by_urllib3, by_aiohttp], ids=lambda call: call.__name__
)
def test_an_undecodable_body_came_from_a_server_that_may_have_acted(wild: str, call: Any) -> None:
    failure = failure_of(call, wild + "/bad-gzip")
    assert failure.executed is MAYBE, failure
    assert failure.kind in {K.PERMANENT, K.TRANSIENT}


@pytest.mark.parametrize("url", ["nothing", "ftp://127.0.0.1/x", "http://"])
@pytest.mark.parametrize("call", [by_httpx, by_httpx2, by_requests], ids=lambda call: call.__name__)
def test_a_url_that_is_none_is_a_bug_and_sent_nothing(call: Any, url: str) -> None:
    failure = failure_of(call, url)
    assert (failure.kind, failure.executed) == (K.PROGRAMMING, NO), failure


def following(call: Any) -> Any:
    """Make the client follow redirects where it does not by itself."""

    def by_httpx_following(url: str) -> object:
        with httpx.Client(timeout=TIMEOUT_S, trust_env=False, follow_redirects=True) as client:
            return client.post(url, content=b"x").raise_for_status()

    def by_urllib3_following(url: str) -> object:
        with urllib3.PoolManager(retries=urllib3.Retry(total=2, connect=0, redirect=2)) as pool:
            return classify(pool.request("POST", url, body=b"x", timeout=TIMEOUT_S), now_ms=0)

    def by_httpx2_following(url: str) -> object:
        with httpx2.Client(timeout=TIMEOUT_S, trust_env=False, follow_redirects=True) as client:
            return client.post(url, content=b"x").raise_for_status()

    return {by_httpx: by_httpx_following, by_httpx2: by_httpx2_following, by_urllib3: by_urllib3_following}.get(
        call, call
    )


@pytest.mark.parametrize(
    "call", [by_httpx, by_httpx2, by_requests, by_urllib3, by_aiohttp, by_urllib], ids=lambda call: call.__name__
)
def test_a_failure_after_a_redirect_says_nothing_of_the_first_request(wild: str, call: Any) -> None:
    away = failure_of(following(call), wild + "/away")
    assert (away.kind, away.executed) == (K.TRANSIENT, MAYBE), away
    lost = failure_of(following(call), wild + "/away-lost")
    assert (lost.kind, lost.executed) == (K.PERMANENT, MAYBE), lost


@pytest.mark.parametrize("call", [by_httpx, by_httpx2, by_requests, by_aiohttp], ids=lambda call: call.__name__)
def test_a_redirect_that_repeats_the_request_leaves_its_refusal(wild: str, call: Any) -> None:
    again = failure_of(following(call), wild + "/again-lost")
    assert (again.kind, again.executed) == (K.PERMANENT, NO), again


def test_a_response_can_be_classified_itself(wild: str) -> None:
    with httpx.Client(trust_env=False) as client:
        answer = client.get(wild + "/429-seconds")
    assert classify(answer).retry_after_s == 7.0
    assert classify(requests.get(wild + "/503-later", timeout=1)).executed is NO
    assert classify(answer).reason == "http.429"


def test_a_body_that_was_not_read_stays_unread(wild: str) -> None:
    with httpx.Client(trust_env=False) as client, client.stream("GET", wild + "/429-quota") as answer:
        assert classify(answer).kind is K.RATE_LIMITED
        assert not answer.is_stream_consumed
    with requests.get(wild + "/429-quota", stream=True, timeout=1) as streamed:
        assert classify(streamed).kind is K.RATE_LIMITED
        assert streamed.raw.tell() == 0
    with urllib3.PoolManager() as pool:
        raw = pool.request("GET", wild + "/429-quota", preload_content=False, retries=False)
        assert classify(raw).kind is K.RATE_LIMITED
        assert raw.tell() == 0
        raw.release_conn()
