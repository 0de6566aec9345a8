"""
The errors of the SDKs that are too large to install for every test run, written down from the real ones.

    pip install 'yaoki[sdks]'; python -m tests.classify.record_sdks    write data/sdk_errors.jsonl, sdk_classes.jsonl

Each SDK's own client talks to a server on loopback that answers with what its vendor documents, refuses, hangs or
hangs up. Of what it raises, the names along the MRO and the attributes that classification reads are kept, down the
chain of causes; `rebuilt` makes an exception of them. While recording, both must be judged alike.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

from tests.classify.canary import load
from tests.classify.rebuilt import Row, built, rows
from tests.classify.test_real_sdks import CLIENTS, EXTRA, SHORT_S
from tests.classify.wild_server import closed_port
from tests.classify.wire_server import Wire, serving_wire
from yaoki.classify import Failure, classify

DATA = Path(__file__).parent / "data"
RECORDED = {"google": "google-genai", "mistral": "mistralai", "cohere": "cohere", "litellm": "litellm"}
CALLED = {"google": "google", "mistral": "mistral", "cohere": "cohere", "litellm": "groq deepseek"}
"""The documented answers each client is given, by their vendor."""
DEPTH_MAX, TEXT_MAX = 6, 4000

OF_ERRORS = ("status_code", "http_status", "status", "code", "error_code", "type", "body", "text", "content", "details")
OF_RESPONSES = ("status_code", "status", "_content", "_body", "body", "text", "content", "details")
WAITS: tuple[tuple[int, dict[str, str], float], ...] = (
    (429, {"retry_after": "7"}, 7.0),
    (429, {"retry_after_ms": "250"}, 0.25),
    (503, {"retry_after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
)


# ---------------------------------------------------------------- written down


def recorded(error: BaseException, depth: int = 0) -> Row:
    """Return what there is to see of an error, and of those beneath it."""
    found: Row = {
        "mro": [f"{base.__module__}.{base.__qualname__}" for base in type(error).__mro__ if base is not object]
    }
    found["said"] = str(error)[:TEXT_MAX]
    found["has"] = seen(error, OF_ERRORS)
    if isinstance(number := getattr(error, "errno", None), int):
        found["has"]["errno"] = number
    if headers := headers_of(error):
        found["headers"] = headers
    response = getattr(error, "response", None)
    if response is not None:
        found["response"] = {"has": seen(response, OF_RESPONSES), "headers": headers_of(response)}
    found["hidden"] = error.__suppress_context__
    for name in ("__cause__", "__context__"):
        beneath = getattr(error, name)
        if beneath is not None and depth < DEPTH_MAX and not (name == "__context__" and beneath is error.__cause__):
            found[name] = recorded(beneath, depth + 1)
    for i, item in enumerate(error.args[:4]):
        if isinstance(item, BaseException) and depth < DEPTH_MAX:
            found["packed"] = {"at": i, "error": recorded(item, depth + 1)}
            break
    return found


def seen(holder: object, names: tuple[str, ...]) -> Row:
    found: Row = {}
    for name in names:
        try:
            value = getattr(holder, name, None)
        except Exception:  # as a property of an unread stream
            continue
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, (str, int, dict, list)) and not isinstance(value, bool):
            found[name] = json.loads(json.dumps(value, default=str))
    return found


def headers_of(holder: object) -> dict[str, str]:
    headers = getattr(holder, "headers", None)
    if not isinstance(headers, Mapping) and not hasattr(headers, "items"):
        return {}
    return {str(name): str(value) for name, value in headers.items()}


# ---------------------------------------------------------------- and made of it again


def rebuilt(row: Row) -> BaseException:
    """Return an error that shows what was recorded."""
    error = built(tuple(row["mro"]))(row["said"])
    for name, value in row["has"].items():
        put(error, name, value)
    if row.get("headers"):
        put(error, "headers", row["headers"])
    if response := row.get("response"):
        put(error, "response", SimpleNamespace(**response["has"], headers=response["headers"]))
    if cause := row.get("__cause__"):
        error.__cause__ = rebuilt(cause)
    if context := row.get("__context__"):
        error.__context__ = rebuilt(context)
    error.__suppress_context__ = row["hidden"]
    if packed := row.get("packed"):
        error.args = (*[""] * packed["at"], rebuilt(packed["error"]))
    return error


def put(error: BaseException, name: str, value: object) -> None:
    try:
        setattr(error, name, value)
    except (AttributeError, TypeError):  # a builtin's own slot
        return


# ---------------------------------------------------------------- recording


def raised(client: str, url: str, *timeout_s: float) -> BaseException:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CLIENTS[client][0](url, *timeout_s)
        except Exception as error:
            return error
    raise AssertionError(f"{client} raised nothing")


def cases(client: str, wire: Wire) -> Iterator[tuple[Row, BaseException]]:
    for row in rows("documented.jsonl"):
        if row["id"].rpartition("-")[0] in CALLED[client].split() and (row["http_status"] or 0) >= 400:
            wire.says(row["http_status"], row["body"])
            status = row["http_status"]
            label = {"id": row["id"], "accept": row["accept"], "refused": 400 <= status < 500 and status != 499}
            yield label, raised(client, wire.url)
    for i, (status, headers, wait_s) in enumerate(WAITS):
        wire.says(status, '{"message": "slow down please"}', **headers)
        yield {"id": f"later-{i}", "executed": "no", "retry_after_s": wait_s}, raised(client, wire.url)
    broken = {"accept": ["transient"], "executed": "maybe"}
    wire.says(502, "<html><title>502 Bad Gateway</title></html>")
    yield {"id": "page", **broken}, raised(client, wire.url)
    wire.says(200, "", how="close")
    yield {"id": "close", **broken}, raised(client, wire.url)
    wire.released.clear()
    wire.says(200, "", how="hang")
    yield {"id": "hang", **broken}, raised(client, wire.url, SHORT_S)
    wire.released.set()
    closed = f"http://127.0.0.1:{closed_port()}"
    yield {"id": "refused", "accept": ["transient"], "executed": "no"}, raised(client, closed)


def exported() -> Iterator[type[BaseException]]:
    """Yield each exception class that these SDKs export."""
    for package in EXTRA:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in (package, f"{package}.errors", f"{package}.exceptions", f"{package}.client.errors"):
                try:
                    load(module)
                except ImportError:
                    continue
        modules = [module for name, module in list(sys.modules.items()) if f"{name}.".startswith(f"{package}.")]
        things = [thing for module in modules for thing in list(vars(module).values())]
        classes = {thing for thing in things if isinstance(thing, type) and issubclass(thing, BaseException)}
        own = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in classes if cls.__module__.startswith(package)}
        yield from (
            cls for _, cls in sorted(own.items()) if not issubclass(cls, Warning) and not cls.__name__.startswith("_")
        )


def alike(one: Failure, other: Failure) -> bool:
    return (one.kind, one.executed, one.retry_after_s) == (other.kind, other.executed, other.retry_after_s)


def main() -> None:
    versions = {client: importlib.metadata.version(package) for client, package in RECORDED.items()}
    lines: list[str] = []
    with serving_wire() as wire:
        for client in RECORDED:
            for label, error in cases(client, wire):
                row = {"client": client, "version": versions[client], **label, "error": recorded(error)}
                real, copy = classify(error), classify(rebuilt(row["error"]))
                if not alike(real, copy):
                    print(f"{client} {label['id']}: {real} is not {copy}", file=sys.stderr)
                lines.append(json.dumps(row, ensure_ascii=False))
    (DATA / "sdk_errors.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    classes = [
        json.dumps([f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__ if base is not object])
        for cls in exported()
    ]
    (DATA / "sdk_classes.jsonl").write_text("\n".join(classes) + "\n", encoding="utf-8")
    print(f"{len(lines)} errors, {len(classes)} classes, {versions}")


if __name__ == "__main__":
    main()
