"""urllib raises its HTTPError with the body unread: what was received already is evidence, and stays readable."""

from __future__ import annotations

import contextlib
import email.message
import io
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.classify.wild_server import CERTIFICATE, QUOTA, serving
from yaoki.classify import FailureKind, classify
from yaoki.classify._received import RECEIVED_MAX, received

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"HTTP/1.1 429 Said\r\nContent-Type: application/json\r\nConnection: close\r\n"


@contextlib.contextmanager
def answering(*parts: bytes) -> Iterator[tuple[str, threading.Event]]:
    """Serve one request with the first part, and with each other once the event is set."""
    go_on = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            sock, _ = server.accept()
            with sock, contextlib.suppress(OSError):
                sock.recv(65536)
                sock.sendall(parts[0])
                for part in parts[1:]:
                    go_on.wait(5)
                    sock.sendall(part)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/", go_on
        finally:
            go_on.set()
            thread.join(5)


def raised_by(url: str) -> urllib.error.HTTPError:
    context = ssl.create_default_context(cafile=str(CERTIFICATE))
    context.check_hostname = False
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open(url, timeout=5)
    return caught.value


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_spent_quota_is_told_from_a_rate_limit_and_its_body_can_still_be_read(tls: bool) -> None:
    with serving(tls=tls) as port:
        error = raised_by(f"{'https' if tls else 'http'}://127.0.0.1:{port}/429-quota")
        with error:
            failure = classify(error, now_ms=0)
            assert failure.kind is FailureKind.BUDGET, failure
            assert error.read() == QUOTA


def test_a_body_that_has_not_come_is_not_waited_for() -> None:
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(QUOTA)
    with answering(head, QUOTA) as (url, go_on), raised_by(url) as error:
        before = time.monotonic()
        failure = classify(error, now_ms=0)
        assert time.monotonic() - before < 1  # the socket's own timeout is 5 s
        assert failure.kind is FailureKind.RATE_LIMITED
        go_on.set()
        assert error.read() == QUOTA


def test_the_beginning_of_a_body_is_taken_as_far_as_it_came() -> None:
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(QUOTA)
    with answering(head + QUOTA[:20], QUOTA[20:]) as (url, go_on), raised_by(url) as error:
        assert received(error) == QUOTA[:20]
        go_on.set()
        assert error.read() == QUOTA


def test_a_chunked_body_is_understood() -> None:
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(QUOTA), QUOTA)
    with answering(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body) as (url, _), raised_by(url) as error:
        assert (received(error) or b"").startswith(QUOTA)  # and not with its length
        assert classify(error, now_ms=0).kind is FailureKind.BUDGET
        assert error.read() == QUOTA


def test_nothing_past_the_body_s_length_is_taken_for_it() -> None:
    with answering(HEAD + b"Content-Length: 2\r\n\r\n{}" + QUOTA) as (url, _), raised_by(url) as error:
        assert received(error) == b"{}"


def test_a_body_that_was_read_or_closed_is_gone() -> None:
    with answering(HEAD + b"Content-Length: %d\r\n\r\n" % len(QUOTA) + QUOTA) as (url, _), raised_by(url) as error:
        error.read()
        assert received(error) is None


def test_a_body_given_as_a_buffer_is_looked_at_and_bounded() -> None:
    """Tests and proxies make their own."""
    made = urllib.error.HTTPError("http://x/", 429, "Said", email.message.Message(), io.BytesIO(QUOTA))
    assert classify(made, now_ms=0).kind is FailureKind.BUDGET
    assert made.read() == QUOTA
    huge = urllib.error.HTTPError("http://x/", 429, "Said", email.message.Message(), io.BytesIO(bytes(200_000)))
    assert len(received(huge) or b"") == RECEIVED_MAX


@pytest.mark.parametrize("subject", [None, object(), OSError(), io.StringIO("x")])
def test_what_holds_no_answer_has_received_nothing(subject: object) -> None:
    assert received(subject) is None
