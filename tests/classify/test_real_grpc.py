"""Real errors of gRPC: a real server that answers each code, and ports that speak something else."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.classify.wild_server import answering, closed_port
from yaoki.classify import Executed, Failure, FailureKind, Scope, classify, is_control_flow

K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE
TIMEOUT_S = 20.0


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def rich(code: int, *details: tuple[str, bytes]) -> bytes:
    """Return a serialised google.rpc.Status."""
    packed = [
        field(3, field(1, b"type.googleapis.com/google.rpc." + name.encode()) + field(2, value))
        for name, value in details
    ]
    return field(1, code) + field(2, b"said") + b"".join(packed)


RETRY = ("RetryInfo", field(1, field(1, 3) + field(2, 500_000_000)))
DAILY = (
    "QuotaFailure",
    field(1, field(2, b"x") + field(4, b"generate_requests") + field(5, b"GenerateRequestsPerDayPerProject-FreeTier")),
)
REASON = ("ErrorInfo", field(1, b"RATE_LIMIT_EXCEEDED") + field(2, b"googleapis.com"))

ANSWERS: dict[str, tuple[grpc.StatusCode, str, dict[str, Any]]] = {
    **{code.name: (code, "said", {}) for code in grpc.StatusCode if code is not grpc.StatusCode.OK},
    "retry-info": (
        grpc.StatusCode.RESOURCE_EXHAUSTED, "said", {"grpc-status-details-bin": rich(8, RETRY, REASON)}
    ),
    "daily": (
        grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded", {"grpc-status-details-bin": rich(8, RETRY, DAILY)}
    ),
    "broken-details": (grpc.StatusCode.RESOURCE_EXHAUSTED, "said", {"grpc-status-details-bin": b"\xff\xff\x03\x80"}),
    "pushback": (grpc.StatusCode.UNAVAILABLE, "said", {"grpc-retry-pushback-ms": "2500"}),
    "never": (grpc.StatusCode.UNAVAILABLE, "said", {"grpc-retry-pushback-ms": "-1"}),
    "overloaded": (grpc.StatusCode.UNAVAILABLE, "The model is overloaded. Please try again later.", {}),
}  # fmt: skip


class Handler(grpc.GenericRpcHandler):
    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        if name == "unknown-method":
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.answer(name, context))

    def answer(self, name: str, context: Any) -> bytes:
        if name == "hang":
            context.add_callback(lambda: None)
            while context.is_active():
                time.sleep(0.005)
            return b""
        if name == "raise":
            raise ValueError("a bug in the handler")
        if name == "large":
            return b"x" * 5_000_000
        code, said, trailers = ANSWERS[name]
        context.set_trailing_metadata(tuple(trailers.items()))
        context.abort(code, said)
        raise AssertionError


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Handler()], options=[("grpc.so_reuseport", 0)])
    found = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found
    server.stop(0).wait()


def by_grpc(port: int, method: str, timeout_s: float = TIMEOUT_S, request: bytes = b"") -> object:
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        return channel.unary_unary(f"/s/{method}")(request, timeout=timeout_s)


def by_aio(port: int, method: str, timeout_s: float = TIMEOUT_S, request: bytes = b"") -> object:
    async def call() -> object:
        target = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
            return await channel.unary_unary(f"/s/{method}")(request, timeout=timeout_s)

    return asyncio.run(call())


def failure_of(call: Callable[[], object]) -> Failure:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert not is_control_flow(caught.value)
    return classify(caught.value, now_ms=0)


each_client = pytest.mark.parametrize("call", [by_grpc, by_aio], ids=["sync", "aio"])


@each_client
@pytest.mark.parametrize(
    ("name", "kind", "executed"),
    [
        ("CANCELLED", K.PERMANENT, MAYBE),
        ("UNKNOWN", K.UNKNOWN, MAYBE),
        ("INVALID_ARGUMENT", K.PERMANENT, NO),
        ("DEADLINE_EXCEEDED", K.TRANSIENT, MAYBE),
        ("NOT_FOUND", K.PERMANENT, NO),
        ("ALREADY_EXISTS", K.PERMANENT, NO),
        ("PERMISSION_DENIED", K.PERMANENT, NO),
        ("RESOURCE_EXHAUSTED", K.RATE_LIMITED, NO),
        ("FAILED_PRECONDITION", K.PERMANENT, NO),
        ("ABORTED", K.TRANSIENT, NO),
        ("OUT_OF_RANGE", K.PERMANENT, NO),
        ("UNIMPLEMENTED", K.CAPABILITY, NO),
        ("INTERNAL", K.TRANSIENT, MAYBE),
        ("UNAVAILABLE", K.TRANSIENT, MAYBE),
        ("DATA_LOSS", K.PERMANENT, MAYBE),
        ("UNAUTHENTICATED", K.PERMANENT, NO),
        ("overloaded", K.OVERLOADED, NO),
        ("broken-details", K.RATE_LIMITED, NO),
        ("unknown-method", K.CAPABILITY, NO),
        ("raise", K.UNKNOWN, MAYBE),
        ("large", K.CAPABILITY, MAYBE),
    ],
)
def test_each_status_code_says_what_it_means(
    port: int, call: Any, name: str, kind: FailureKind, executed: Executed
) -> None:
    failure = failure_of(lambda: call(port, name))
    assert (failure.kind, failure.executed) == (kind, executed), failure


def test_every_code_is_tried() -> None:
    tried = {args[0] for args in test_each_status_code_says_what_it_means.pytestmark[0].args[1]}
    assert {code.name for code in grpc.StatusCode} - tried == {"OK"}


@each_client
def test_the_trailers_say_when_and_whether_to_come_back(port: int, call: Any) -> None:
    failure = failure_of(lambda: call(port, "retry-info"))
    assert (failure.kind, failure.executed, failure.retry_after_s) == (K.RATE_LIMITED, NO, 3.5), failure
    failure = failure_of(lambda: call(port, "daily"))
    assert (failure.kind, failure.executed) == (K.BUDGET, NO), failure
    failure = failure_of(lambda: call(port, "pushback"))
    assert (failure.kind, failure.retry_after_s) == (K.TRANSIENT, 2.5), failure
    failure = failure_of(lambda: call(port, "never"))
    assert (failure.kind, failure.executed, failure.retry_after_s) == (K.PERMANENT, MAYBE, None), failure


@each_client
def test_a_server_that_is_not_there_got_nothing(call: Any) -> None:
    failure = failure_of(lambda: call(closed_port(), "x"))
    assert (failure.kind, failure.executed, failure.scope) == (K.TRANSIENT, NO, Scope.VENDOR), failure


@each_client
def test_a_server_that_is_silent_may_have_acted(port: int, call: Any) -> None:
    failure = failure_of(lambda: call(port, "hang", 0.1))
    assert (failure.kind, failure.executed, failure.reason) == (K.TRANSIENT, MAYBE, "grpc.DEADLINE_EXCEEDED"), failure


@each_client
def test_a_server_that_leaves_or_speaks_garbage_is_never_said_not_to_have_acted(call: Any) -> None:
    settings = struct.pack(">I", 0)[1:] + b"\x04\x00" + struct.pack(">I", 0)

    def leave(sock: Any) -> None:
        sock.sendall(settings)
        sock.recv(65_536)
        sock.settimeout(0.1)
        sock.recv(65_536)

    with answering(leave) as port:
        failure = failure_of(lambda: call(port, "x", 5.0))
    assert (failure.kind, failure.executed) == (K.TRANSIENT, MAYBE), failure


def test_a_cancelled_call_is_control_flow(port: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_http_proxy", 0)]) as channel:
        future = channel.unary_unary("/s/hang").future(b"", timeout=20)
        future.cancel()
        with pytest.raises(grpc.FutureCancelledError) as caught:
            future.result()
    assert is_control_flow(caught.value)
