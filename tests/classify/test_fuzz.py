"""Whatever it is given, `classify` answers, soon, and leaves it as it was."""

from __future__ import annotations

import contextlib
import json
import time
import tracemalloc
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.classify.canary import reviewed
from tests.classify.rebuilt import built
from yaoki.classify import Executed, Failure, classify, is_control_flow

NAMES = sorted({name for name, said in reviewed().items() if said != "control"})
"""Every class name of every library a rule knows."""

FIELDS = [
    "status_code", "status", "http_status", "code", "headers", "body", "text", "content", "details", "response",
    "errno", "reason", "args", "os_error", "orig", "original_error", "returncode", "_content", "_body", "type",
    "error_code", "__cause__", "__context__", "__suppress_context__", "__traceback__", "sqlstate", "pgcode", "error",
    "message", "trailing_metadata", "connection_invalidated", "sqlite_errorcode", "extendedresult", "rcvd",
    "_error_labels", "history", "retryable", "isError", "is_error", "fp", "exceptions", "failure", "delay_s",
]  # fmt: skip
"""Every attribute a rule reads."""


class Bomb:
    """An object of which everything raises, its class included."""

    def __getattribute__(self, name: str) -> Any:
        raise (SystemExit, RuntimeError, RecursionError, StopIteration, OSError)[len(name) % 5](name)

    def _burst(self, *_: object) -> Any:
        raise RuntimeError("no")

    __str__ = __repr__ = __reduce__ = __bool__ = __len__ = __iter__ = __eq__ = __hash__ = __call__ = __int__ = (
        __index__
    ) = _burst
    __contains__ = __getitem__ = __lt__ = __gt__ = __float__ = _burst


class Liar:
    """An object that says it is something else."""

    def __init__(self, said: type) -> None:
        self.said = said

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return self.said


class OddInt(int):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = int.__hash__


class OddText(str):
    __slots__ = ()

    def lower(self) -> str:
        raise RuntimeError("no")

    def __getitem__(self, key: object) -> str:
        raise RuntimeError("no")


ODD: dict[str, Any] = {
    "bomb": Bomb,
    "says it is an error": lambda: Liar(BaseException),
    "says it is text": lambda: Liar(str),
    "says it is a dict": lambda: Liar(dict),
    "odd int": lambda: OddInt(503),
    "odd text": lambda: OddText("insufficient_quota"),
    "error": lambda: ValueError("x"),
    "class": lambda: Bomb,
    "function": lambda: lambda: 1 / 0,
    "function of a bomb": lambda: Bomb,
    "bytes": lambda: b"\xff\xfe\x00" * 20,
    "surrogates": lambda: "\ud800\udfff",
    "infinity": lambda: float("inf"),
    "huge int": lambda: 10**400,
    "bomb in a dict": lambda: {"error": Bomb()},
    "bomb in a list": lambda: [Bomb()],
    "iterator": lambda: iter([1]),
}
"""Things no test runner should look at; they are drawn by name, and made in the test."""


class Odd(str):
    """The name of one of them."""

    __slots__ = ()


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(100, 600)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.sampled_from(["40001", "MCP error -32000: x", '{"error": {"code": "x"}}', "[SSL: X]"])
)
VALUES = st.recursive(
    PLAIN | st.sampled_from(sorted(ODD)).map(Odd),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
    ),
    max_leaves=8,
)


def real(drawn: Any) -> Any:
    """Return what was drawn, with the odd things in the place of their names."""
    if isinstance(drawn, Odd):
        return ODD[drawn]()
    if isinstance(drawn, dict):
        return {key: real(value) for key, value in drawn.items()}
    return type(drawn)(real(value) for value in drawn) if isinstance(drawn, (list, tuple)) else drawn


RAISED = {cls.__name__: cls for cls in (RuntimeError, SystemExit, GeneratorExit, RecursionError, AttributeError)}
PLANS = st.fixed_dictionaries(
    {
        "own": st.sampled_from(["Made", "TimeoutError", "McpError", "ExceptionGroup"]),
        "base": st.sampled_from([*NAMES, "builtins.Exception", "builtins.OSError", "builtins.BaseException"]),
        "said": st.text(max_size=60)
        | st.sampled_from(["", "Error 111 connecting to x", "net::ERR_FAILED", "{'a':", "status = StatusCode.ABORTED"]),
        "fields": st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5),
        "raising": st.dictionaries(
            st.sampled_from([*FIELDS, "__class__", "__dict__"]), st.sampled_from(sorted(RAISED)), max_size=3
        ),
    }
)
"""What an error is made of, as plain data."""


def made(plans: list[dict[str, Any]]) -> BaseException:
    """Make an error of a known library's class, the next of them its cause; some attributes raise when read."""
    plan = plans[0]
    package, _, name = plan["base"].partition(".")
    raising = {
        field: property(lambda _self, raised=raised: burst(RAISED[raised])) for field, raised in plan["raising"].items()
    }
    base = built((f"{package}.{name}", "builtins.Exception"))
    cls: Any = type(plan["own"], (base,), {"__module__": "made", **raising})
    error = cls.__new__(cls, plan["said"])
    for field, value in {"said": plan["said"], **plan["fields"]}.items():
        with contextlib.suppress(Exception):
            setattr(error, field, real(value))
    if len(plans) > 1:
        with contextlib.suppress(Exception):
            error.__cause__ = made(plans[1:])
    return error


def burst(cls: type[BaseException]) -> object:
    raise cls("read")


def checked(thing: object) -> Failure:
    """Classify, and hold the answer to what every answer promises."""
    failure = classify(thing, now_ms=1_700_000_000_000)
    assert type(failure) is Failure
    assert len(failure.message) <= 2000
    assert len(failure.reason) <= 120
    assert failure.retry_after_s is None or 0 <= failure.retry_after_s < float("inf")
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    return failure


@settings(max_examples=500, deadline=None)
@given(st.lists(PLANS, min_size=1, max_size=3))
def test_no_error_makes_it_raise(plans: list[dict[str, Any]]) -> None:
    error = made(plans)
    assert is_control_flow(error) in {True, False}
    checked(error)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5))
def test_no_other_thing_makes_it_raise(thing: object, fields: dict[str, object]) -> None:
    checked(real(thing))
    checked(SimpleNamespace(**{name: real(value) for name, value in fields.items() if not name.startswith("__")}))


@settings(max_examples=100, deadline=None)
@given(st.lists(PLANS, min_size=1, max_size=4))
def test_no_group_makes_it_raise(plans: list[dict[str, Any]]) -> None:
    checked(BaseExceptionGroup("g", [made([plan]) for plan in plans]))


class Meta(type):
    """A metaclass of whose classes nothing can be read."""

    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)

    def __subclasscheck__(cls, other: type) -> bool:
        raise RuntimeError

    def __instancecheck__(cls, other: object) -> bool:
        raise RuntimeError


def test_a_class_that_cannot_be_read_is_unknown() -> None:
    error = type.__call__(Meta("Unreadable", (Exception,), {}))
    assert not is_control_flow(error)
    failure = checked(error)
    assert (failure.executed, failure.reason) == (Executed.MAYBE, "unknown.Unreadable")


def test_a_name_or_module_of_another_type_is_no_name() -> None:
    class Strange(Exception):
        __module__ = 3  # type: ignore[assignment]

    Strange.__name__ = "y" * 5000
    assert checked(Strange("z")).executed is Executed.MAYBE


class Counting(Exception):
    """An error that counts what is done to it."""

    reads: list[str] = []  # noqa: RUF012 - shared on purpose

    def __getattr__(self, name: str) -> object:
        self.reads.append(name)
        raise AttributeError(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AssertionError(f"{name} was set")

    def __delattr__(self, name: str) -> None:
        raise AssertionError(f"{name} was deleted")


def test_attributes_are_read_a_few_times_and_nothing_is_called_or_set() -> None:
    called: list[str] = []
    error = Counting("x")
    Counting.reads.clear()
    checked(error)
    assert len(Counting.reads) < 120
    names = ("read", "close", "json", "text", "send", "code", "details", "trailing_metadata")
    methods = {name: (lambda name=name: called.append(name)) for name in names}
    checked(SimpleNamespace(status_code=500, **methods))
    assert called == []


def chain(length: int) -> BaseException:
    error: BaseException = RuntimeError("first")
    for _ in range(length):
        above = RuntimeError("above")
        above.__cause__ = error
        above.__context__ = error
        error = above
    return error


def nest(depth: int, width: int) -> BaseException:
    group: BaseException = ValueError("x")
    for _ in range(depth):
        group = ExceptionGroup("g", [group] * width)  # type: ignore[list-item]
    return group


def knotted() -> BaseException:
    errors = [RuntimeError(str(n)) for n in range(40)]
    for n, error in enumerate(errors):
        error.__cause__ = errors[(n * 7 + 1) % 40]
        error.__context__ = errors[(n * 3 + 1) % 40]
        error.args = (errors[(n * 5 + 1) % 40],)
    return errors[0]


def looped() -> object:
    body: dict[str, Any] = {"error": {}}
    body["error"]["details"] = [body, body, body]
    body["metadata"] = body
    return SimpleNamespace(status_code=429, body=body, headers={})


def wide(size: int) -> object:
    return SimpleNamespace(status_code=429, body={f"k{n}": {"message": "x" * 100} for n in range(size)}, headers={})


MB = 1_000_000
BIG: dict[str, Any] = {
    "message": lambda: RuntimeError("x" * (10 * MB)),
    "braces": lambda: RuntimeError("{" * (2 * MB)),
    "brackets": lambda: answer("[" * (2 * MB)),
    "nested json": lambda: answer('{"error":' * 100_000 + "1" + "}" * 100_000),
    "json in json": lambda: answer(layered(12)),
    "printed dict": lambda: RuntimeError("Error code: 429 - {'error': {'a': " + "[" * 50_000),
    "body": lambda: answer('{"error":{"message":"' + "a b " * MB + '"}}'),
    "bytes": lambda: SimpleNamespace(status_code=503, content=b"\xff" * (10 * MB), headers={}),
    "dict": lambda: wide(50_000),
    "loop": looped,
    "headers": lambda: answer("", {f"x-{n}": "9" * 10_000 for n in range(5_000)}),
    "spaces": lambda: RuntimeError(" " * MB + "rate limit"),
    "digits": lambda: RuntimeError("try again in " + "9" * MB + "s"),
    "almost a url": lambda: RuntimeError(("http://a" * 100_000) + " rate limit"),
    "almost a key": lambda: RuntimeError("sk-" + "a-" * 400_000),
    "almost an exit": lambda: RuntimeError("returned non-zero exit status " * 50_000),
    "almost mcp": lambda: RuntimeError("MCP error -" + "3" * MB),
    "almost sql": lambda: built(("psycopg.OperationalError", "builtins.Exception"))("connection to server " * 50_000),
    "almost net": lambda: built(("playwright._impl._errors.Error", "builtins.Exception"))("net::ERR_" * 100_000),
    "chain": lambda: chain(100_000),
    "knot": knotted,
    "deep group": lambda: nest(200, 1),
    "wide group": lambda: ExceptionGroup("g", [ValueError(str(n)) for n in range(100_000)]),
    "bushy group": lambda: nest(6, 20),
    "protobuf": lambda: grpc_error(b"\x1a\xff\xff\x03" + b"\x1a\x80" * 40_000),
}  # fmt: skip


def answer(text: str, headers: dict[str, str] | None = None) -> object:
    return SimpleNamespace(status_code=500, text=text, headers=headers or {})


def layered(times: int) -> str:
    text = "x"
    for _ in range(times):
        text = json.dumps({"error": {"message": text}})
    return text


def grpc_error(packed: bytes) -> BaseException:
    error = built(("grpc._channel._InactiveRpcError", "grpc.RpcError", "builtins.Exception"))("x")
    error.code = lambda: SimpleNamespace(name="RESOURCE_EXHAUSTED")  # type: ignore[attr-defined]
    error.details = lambda: "x" * MB  # type: ignore[attr-defined]
    error.trailing_metadata = lambda: [("grpc-status-details-bin", packed)] * 50_000  # type: ignore[attr-defined]
    return error


LIMIT_S = 0.5
LIMIT_BYTES = 30 * MB


@pytest.mark.parametrize("name", BIG)
def test_however_big_it_answers_soon_and_within_bounded_memory(name: str) -> None:
    thing = BIG[name]()
    checked(thing)  # what is compiled and loaded the first time is not the thing's doing
    started = time.process_time()
    classify(thing)
    took_s = time.process_time() - started
    assert took_s < LIMIT_S
    tracemalloc.start()
    try:
        classify(thing)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LIMIT_BYTES
