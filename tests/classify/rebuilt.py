"""Build objects from the labelled rows: classes with the names along the MRO, and what the row says they carry."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Row = dict[str, Any]

_BUILT: dict[tuple[str, ...], type[BaseException]] = {}


def rows(name: str) -> list[Row]:
    path = Path(__file__).parent / "data" / name
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def built(mro: tuple[str, ...]) -> type[BaseException]:
    """Return a class whose MRO reads like the row's; builtins are the real ones."""
    full = mro[0]
    module, _, name = full.rpartition(".")
    if module == "builtins":
        return getattr(builtins, name)
    if mro not in _BUILT:
        base = built(mro[1:]) if len(mro) > 1 else Exception
        _BUILT[mro] = type(name, (base,), {"__module__": module, "__init__": _take, "__str__": lambda self: self.said})
    return _BUILT[mro]


def _take(self: Any, said: str = "") -> None:
    self.said = said


def exception(row: Row) -> BaseException:
    cls = built(tuple(name for name in row["mro"] if not name.endswith((".Call", ".RpcContext"))))
    if cls.__module__ == "builtins":
        said = row["message"].strip("'") if row["exception_class"].endswith(".KeyError") else row["message"]
        exc = cls(row["errno"], said.partition("] ")[2]) if row["errno"] is not None else cls(said)
    else:
        exc = cls(row["message"])
    for name, value in (("status_code", row["http_status"]), ("sqlstate", row["sqlstate"]), ("errno", row["errno"])):
        if value is not None:
            setattr(exc, name, value)
    if row["jsonrpc_code"] is not None:
        exc.error = SimpleNamespace(code=row["jsonrpc_code"], message=row["message"], data=None)
    if row["aws_code"] is not None:
        exc.response = {
            "Error": {"Code": row["aws_code"], "Message": row["message"].partition(": ")[2]},
            "ResponseMetadata": {"HTTPStatusCode": row["http_status"], "HTTPHeaders": {}},
        }
    if row["cause"] == "CancelledError":
        exc.__cause__ = built(("asyncio.exceptions.CancelledError", "builtins.BaseException"))("")
    return exc


def wire(row: Row) -> object:
    """Return a response with the row's status, headers and body; without a status, an exception that says the body."""
    status = row["http_status"]
    if status is None:
        name = (row["exception_class"] or "SomethingError").rpartition(".")[2].strip("()").replace(" ", "")
        package = (row["exception_class"] or "").rpartition(".")[0] or "elsewhere"
        return built((f"{package}.{name}", "builtins.Exception"))(row["body"] or "")
    return SimpleNamespace(status_code=status, headers=row["headers"] or {}, text=row["body"] or "")
