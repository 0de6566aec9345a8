"""Real errors of Playwright without a browser: its driver starts, and what it is asked to do fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Error, sync_playwright

from tests.classify.rebuilt import built
from tests.classify.wild_server import closed_port, serving
from yaoki.classify import Executed, Failure, FailureKind, classify, is_control_flow

K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def wild() -> Iterator[str]:
    with serving() as port:
        yield f"http://127.0.0.1:{port}"


def failure_of(call: Callable[[], object]) -> Failure:
    with pytest.raises(Error) as caught:
        call()
    assert not is_control_flow(caught.value)
    return classify(caught.value, now_ms=0)


def test_a_browser_that_is_not_installed_stays_away(driver: Any) -> None:
    for options in ({}, {"executable_path": "/nonexistent"}):
        failure = failure_of(lambda options=options: driver.firefox.launch(**options))
        assert (failure.kind, failure.executed, failure.reason) == (K.PERMANENT, NO, "browser.not_installed"), failure
        assert failure.hint


def test_a_browser_that_dies_as_it_starts_may_have_acted(driver: Any) -> None:
    failure = failure_of(lambda: driver.chromium.launch(executable_path="/bin/false"))
    assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, MAYBE, "browser.closed"), failure


def test_a_browser_elsewhere_that_is_not_there_got_nothing(driver: Any) -> None:
    for call in (driver.chromium.connect, driver.chromium.connect_over_cdp):
        scheme = "ws" if call == driver.chromium.connect else "http"
        failure = failure_of(lambda call=call, scheme=scheme: call(f"{scheme}://127.0.0.1:{closed_port()}/"))
        assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, NO, "os.ECONNREFUSED"), failure


@pytest.mark.parametrize(
    ("path", "kind", "executed"),
    [
        ("/hang", K.TRANSIENT, MAYBE),
        ("/reset", K.TRANSIENT, MAYBE),
        ("/early", K.TRANSIENT, MAYBE),
        ("/truncated", K.TRANSIENT, MAYBE),
        ("/short", K.TRANSIENT, MAYBE),
        ("/garbage", K.PERMANENT, MAYBE),
        ("/bad-gzip", K.PERMANENT, MAYBE),
    ],
)
def test_a_request_of_the_page_s_own_client_fails_like_any_other(
    driver: Any, wild: str, path: str, kind: FailureKind, executed: Executed
) -> None:
    context = driver.request.new_context()
    failure = failure_of(lambda: context.post(wild + path, data="x", timeout=300))
    context.dispose()
    assert (failure.kind, failure.executed) == (kind, executed), failure


def test_a_connection_that_is_not_made_sent_nothing(driver: Any, wild: str) -> None:
    context = driver.request.new_context()
    with serving(tls=True) as port:
        untrusted = failure_of(lambda: context.get(f"https://127.0.0.1:{port}/404"))
    assert (untrusted.kind, untrusted.executed) == (K.PERMANENT, NO), untrusted
    refused = failure_of(lambda: context.get(f"http://127.0.0.1:{closed_port()}/"))
    assert (refused.kind, refused.executed) == (K.TRANSIENT, NO), refused
    nowhere = failure_of(lambda: context.get("nothing"))
    assert (nowhere.kind, nowhere.executed) == (K.PROGRAMMING, NO), nowhere
    context.dispose()
    gone = failure_of(lambda: context.get(wild))
    assert gone.reason == "browser.closed"


@pytest.mark.parametrize(
    ("said", "kind", "executed"),
    [
        ("Page.goto: net::ERR_CONNECTION_REFUSED at http://x/", K.TRANSIENT, NO),
        ("Page.goto: net::ERR_CONNECTION_RESET at http://x/", K.TRANSIENT, MAYBE),
        ("Page.goto: net::ERR_EMPTY_RESPONSE at http://x/", K.TRANSIENT, MAYBE),
        ("Page.goto: net::ERR_NAME_NOT_RESOLVED at http://x/", K.PERMANENT, NO),
        ("Page.goto: net::ERR_CERT_DATE_INVALID at https://x/", K.PERMANENT, NO),
        ("Page.goto: net::ERR_INTERNET_DISCONNECTED at http://x/", K.TRANSIENT, NO),
        ("Page.goto: net::ERR_TOO_MANY_REDIRECTS at http://x/", K.PERMANENT, MAYBE),
        ("Page.goto: NS_ERROR_UNKNOWN_HOST", K.PERMANENT, NO),
        ("Page.goto: NS_ERROR_NET_RESET", K.TRANSIENT, MAYBE),
        ("Page.goto: Cannot navigate to invalid URL", K.PROGRAMMING, NO),
        ("Page.click: Page crashed", K.TRANSIENT, MAYBE),
        ("Page.evaluate: ReferenceError: x is not defined\n    at eval", K.SEMANTIC, MAYBE),
        ('Locator.click: Error: strict mode violation: locator("a") resolved to 2 elements', K.SEMANTIC, NO),
        ("Page.evaluate: Execution context was destroyed, most likely because of a navigation", K.TRANSIENT, MAYBE),
    ],
)
def test_what_a_browser_says_of_its_network(said: str, kind: FailureKind, executed: Executed) -> None:
    failure = classify(Error(said))
    assert (failure.kind, failure.executed) == (kind, executed), failure


def test_an_error_of_another_page_s_text_is_not_taken_for_a_server_s_word() -> None:
    said = 'Page.evaluate: Error: {"error": {"code": "rate_limit_exceeded"}}'
    assert classify(Error(said)).kind is K.SEMANTIC
    other = built(("elsewhere.TargetClosedError", "builtins.Exception"))("Target closed")
    assert classify(other).reason == "browser.closed"
