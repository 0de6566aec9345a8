"""
An error from what was written down about it: a class's name, a status, headers, a body.

For `yaoki explain`, logs and labelled sets. The libraries need not be installed: a class is made with the names
along its MRO, which is what the rules look at; builtins are the real ones. Of a class whose package was left
out, the package is guessed from its own name, where only one sort of library uses that.
"""

from __future__ import annotations

import builtins
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

import msgspec

from yaoki.classify import _http
from yaoki.classify._codes import spelled
from yaoki.classify._patterns import pattern
from yaoki.classify._vendors import documented

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["reported"]

_NAME: Final = pattern(r"[A-Za-z_]\w{0,100}(\.[A-Za-z_]\w{0,100}){0,12}", re.ASCII)
_MRO_MAX: Final = 24
_CLASSES_MAX: Final = 2000
_ERRNO: Final = pattern(r"\[Errno (-?\d{1,4})\]", re.ASCII)
_STATUSES = range(100, 600)


def reported(fields: Mapping[str, object]) -> object:
    """
    Return an object that classifies as the error written down: an exception, a response, or its body's text.

    Args:
        fields: `exception_class` (with or without its package), `http_status`, `headers`, `body` (text or parsed);
            and for exceptions, if known, `mro`, `message`, `errno`, `sqlstate`, `jsonrpc_code`, `aws_code`, and the
            class names `cause` and `context`. Each may be missing or null; what is of another type is left out.
    """
    body = _text(fields.get("body")) or _text(fields.get("message"))
    status, headers = _status(fields.get("http_status")), _headers(fields.get("headers"))
    mro = _mro(fields)
    if not mro or (mro[0].startswith("builtins.") and status is not None):
        answer = SimpleNamespace(status_code=status, headers=headers, text=body)
        return body if status is None and not headers else answer
    error = _made(mro, body, fields.get("errno"))
    _carry(error, fields, body)
    if status is not None or headers:
        _set(error, "status_code", status)
        _set(error, "response", SimpleNamespace(status_code=status, headers=headers, text=body))
    if code := _text(fields.get("aws_code")) or _aws_code(mro[0]):
        parsed = {
            "Error": {"Code": code, "Message": body.partition("operation: ")[2] or body},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
        }
        _set(error, "response", parsed)
    error.__cause__, error.__context__ = _beneath(fields.get("cause")), _beneath(fields.get("context"))
    return error


def _carry(error: BaseException, fields: Mapping[str, object], body: str) -> None:
    for name in ("sqlstate", "errno"):
        if isinstance(value := fields.get(name), (str, int)):
            _set(error, name, value)
    if isinstance(code := fields.get("jsonrpc_code"), int):
        _set(error, "error", SimpleNamespace(code=code, message=body, data=None))


def _set(error: BaseException, name: str, value: object) -> None:
    try:
        setattr(error, name, value)
    except (AttributeError, TypeError):  # a builtin's own slot
        return


def _text(value: object) -> str:
    """Return text as it is, parsed JSON as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return repr(value)


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _STATUSES else None


def _headers(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    pairs = cast("dict[object, object]", value).items()
    return {str(name).lower(): one if isinstance(one, str) else _text(one) for name, one in pairs}


def _mro(fields: Mapping[str, object]) -> tuple[str, ...]:
    """Return `module.Class` along the MRO, most specific first; empty for what is no exception."""
    given = fields.get("mro")
    if isinstance(given, list):
        found = [name for name in cast("list[object]", given)[:_MRO_MAX] if isinstance(name, str)]
        if found and all(_NAME.fullmatch(name) for name in found):
            return tuple(found)
    written = fields.get("exception_class")
    if not isinstance(written, str):
        return ()
    name = written.strip().partition("(")[0].strip().replace(" ", ".")
    if not _NAME.fullmatch(name) or name.endswith(_ANSWERS):
        return ()
    return _completed(name)


_ANSWERS: Final = ("Response", "Result")
"""What is returned, not raised."""


def _completed(name: str) -> tuple[str, ...]:
    """Return a class's MRO as far as it is known: its package, and the builtin it is or that it derives from."""
    package, _, own = name.rpartition(".")
    builtin = getattr(builtins, own, None)
    if isinstance(builtin, type) and issubclass(builtin, BaseException) and package in {"", "builtins"}:
        return (f"builtins.{own}",)
    if own in {"TimeoutError", "timeout"} and package.partition(".")[0] in {"asyncio", "socket", "concurrent"}:
        return ("builtins.TimeoutError",)
    if own in _ERRNO_CLASSES and package in {"", "socket", "ssl"}:
        if own in {"gaierror", "herror"}:
            return (f"socket.{own}", "builtins.OSError")
        return (f"ssl.{own}", *(() if own == "SSLError" else ("ssl.SSLError",)), "builtins.OSError")
    if not package:
        package = _package(own)
    base = ("botocore.exceptions.ClientError",) if _aws_code(f"{package}.{own}") else ()
    return (f"{package}.{own}", *base, "builtins.Exception")


_ERRNO_CLASSES: Final = frozenset(
    ["gaierror", "herror", "SSLError", "SSLEOFError", "SSLZeroReturnError", "SSLCertVerificationError"]
)
_STEERING: Final = {
    "CancelledError": "asyncio", "GraphInterrupt": "langgraph", "GraphBubbleUp": "langgraph",
    "NodeInterrupt": "langgraph", "ParentCommand": "langgraph", "ModelRetry": "pydantic_ai",
    "CallDeferred": "pydantic_ai", "ApprovalRequired": "pydantic_ai",
}  # fmt: skip


def _package(own: str) -> str:
    """Return the package whose class this is by its name alone; `unnamed` if nobody's in particular."""
    if own in _STEERING:
        return _STEERING[own]
    from yaoki.classify import _sdk  # like every family, loaded when it is needed

    return _http.package_of(own) or _sdk.package_of(own) or "unnamed"


def _aws_code(name: str) -> str:
    """Return the code of an AWS service's own exception class, which botocore makes at run time."""
    package, _, own = name.rpartition(".")
    if package.partition(".")[0] not in {"botocore", "boto3", "unnamed", "errorfactory"}:
        return ""
    found = documented(spelled(own))
    return own if found is not None and found.evidence.endswith("vendor.aws") else ""


_built: dict[tuple[str, ...], type[BaseException]] = {}


def _class(mro: tuple[str, ...]) -> type[BaseException]:
    """Return a class whose MRO reads like this one."""
    module, _, name = mro[0].rpartition(".")
    if module == "builtins":
        found = getattr(builtins, name, Exception)
        return found if isinstance(found, type) and issubclass(found, BaseException) else Exception
    if mro not in _built:
        if len(_built) >= _CLASSES_MAX:
            _built.clear()
        base = _class(mro[1:]) if len(mro) > 1 else Exception
        made = type(name, (base,), {"__module__": module, "__init__": _take, "__str__": _say})
        _built[mro] = cast("type[BaseException]", made)
    return _built[mro]


def _take(self: BaseException, *said: object) -> None:
    self.args = said


def _say(self: BaseException) -> str:
    return str(self.args[-1]) if self.args else ""


def _made(mro: tuple[str, ...], message: str, errno: object) -> BaseException:
    cls = _class(mro)
    if issubclass(cls, OSError):
        said = _ERRNO.search(message)
        number = errno if isinstance(errno, int) else int(said[1]) if said else None
        error = cls(message)
        if number is not None:
            error.errno = number
        return error
    try:
        return cls(message)
    except TypeError:  # a class of Python's that wants more, such as UnicodeDecodeError
        return cls.__new__(cls)


def _beneath(name: object) -> BaseException | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    return _made(_completed(name), "", None)
