"""
What an error or a response shows, read without trusting it and without importing its library.

Attributes may raise, lie or be of any type: each is read through `Evidence.get`, and taken only where its
type is the expected one. Nothing here touches the network: a body that was not read yet stays unread;
of urllib's, what was received already is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from msgspec import structs

from yaoki.classify._body import NOTHING, Body, read
from yaoki.classify._later import phrase_s
from yaoki.classify._received import received

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["TEXT_MAX", "Evidence", "names_of", "own_name"]

TEXT_MAX = 20_000
"""Characters of a message or body that are looked at."""

_HEADERS_MAX = 200
_HEAD_MAX = 20_000
"""Bytes of all names and values together, up to which a response's head is read at once."""


_T = TypeVar("_T")


class _lazy(Generic[_T]):  # noqa: N801 - used as a decorator
    """`functools.cached_property` without its lock, which costs more than what is computed here."""

    def __init__(self, compute: Callable[[Evidence], _T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, cls: type[Evidence]) -> _lazy[_T]: ...
    @overload
    def __get__(self, owner: Evidence, cls: type[Evidence]) -> _T: ...
    def __get__(self, owner: Evidence | None, cls: type[Evidence]) -> _T | _lazy[_T]:
        if owner is None:
            return self
        value = owner.__dict__[self.name] = self.compute(owner)
        return value


class Evidence:
    """One exception or response, and on demand what it carries and what lies beneath it."""

    def __init__(self, subject: object, *, now_ms: int | None = None, depth: int = 0) -> None:
        self.subject = subject
        self.now_ms = now_ms
        self.depth = depth
        """How many links of the chain lead here; rules stop at `chain_max`."""
        self.is_exception: bool = issubclass(type(subject), BaseException)
        """Whether it was raised, rather than returned."""
        self.names: tuple[str, ...]
        """`package.Class` along the MRO, most specific first: `("httpx.ReadTimeout", "httpx.TimeoutException", …)`."""
        self.names, self._name_set = names_of(type(subject))

    def get(self, name: str, default: object = None) -> object:
        """Return an attribute, or the default if it is missing or reading it raises."""
        try:
            return getattr(self.subject, name, default)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException:  # noqa: BLE001 - a property of a stranger may raise anything
            return default

    def call(self, name: str) -> object:
        """Return what a method without arguments answers; `None` if there is none, or it raises."""
        method = _get(self.subject, name)
        if not callable(method):
            return None
        try:
            return method()
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException:  # noqa: BLE001 - as a property's
            return None

    @_lazy
    def name(self) -> str:
        """Return the class's own name, without its package."""
        return self.names[0].partition(".")[2]

    def is_a(self, *names: str) -> bool:
        """Whether one of the `package.Class` names is on the MRO."""
        return not self._name_set.isdisjoint(names)

    @_lazy
    def message(self) -> str:
        """Return what it says as text, bounded, secrets still in it."""
        if isinstance(self.subject, (str, bytes)):
            return _text(self.subject)
        if not self.is_exception:
            return self.text or f"{self.status or ''} {_text(self.get('reason_phrase') or self.get('reason'))}".strip()
        try:
            return str(self.subject)[:TEXT_MAX]
        except Exception:  # noqa: BLE001 - a __str__ may do anything
            return self.name

    @_lazy
    def response(self) -> object:
        """Return the response itself, or the one an exception carries, or `None`."""
        return self.get("response") if self.is_exception else self.subject

    @_lazy
    def status(self) -> int | None:
        """HTTP status, 100-599, from the exception or its response."""
        found = _get(self.subject, "status_code")
        if type(found) is int and 100 <= found <= 599:
            return found
        # A `code` is a status only where the class is about HTTP: an error's own numbering is no evidence.
        http = not self.is_exception or self.names[0].startswith(("google.", "urllib.")) or "http" in self.name.lower()
        places: list[tuple[object, tuple[str, ...]]] = [
            (self.subject, ("status_code", "http_status", "status", *(("code",) if http else ())))
        ]
        if self.is_exception and self.response is not None:
            places.append((self.response, ("status_code", "status")))
        for holder, names in places:
            for name in names:
                found = _get(holder, name)
                if isinstance(found, int) and not isinstance(found, bool) and 100 <= found <= 599:
                    return int(found)
        return None

    @_lazy
    def headers(self) -> dict[str, str]:
        """Response headers, names in lower case; of repeated ones the last."""
        found = self.get("headers") or _get(self.response, "headers")
        if not found:
            return {}
        raw = _get(found, "raw")  # httpx's own: pairs of bytes
        if type(raw) is list and (whole := _at_once(cast("list[tuple[bytes, bytes]]", raw))) is not None:
            return whole
        try:
            if hasattr(found, "items"):
                plain = cast("Mapping[str, str]", found).items()
                if len(plain) <= _HEADERS_MAX:
                    return {key.lower(): value[:1000] + "" for key, value in plain}
        except Exception:  # noqa: BLE001, S110 - names or values that are no text, or no mapping at all: read one by one
            pass
        try:
            pairs: Iterable[tuple[object, object]] = (
                cast("Mapping[object, object]", found).items()
                if hasattr(found, "items")
                else cast("Iterable[tuple[object, object]]", found or ())
            )
            return {_text(key).lower(): _text(value)[:1000] for key, value in list(pairs)[:_HEADERS_MAX]}
        except Exception:  # noqa: BLE001 - a header mapping may be anything
            return {}

    @_lazy
    def payload(self) -> object:
        """Return the body that was already read, as text or parsed; `None` if there is none."""
        if issubclass(type(self.subject), (str, bytes, dict)):
            return self.subject
        builtin = self.names[0].startswith("builtins.")  # a SyntaxError has a `text` too
        for holder in (self.subject, self.response):
            if holder is None or (holder is self.subject and builtin):
                continue
            found = _body_of(holder)
            if found:
                return found
        return received(self.subject) if self.is_a("urllib.HTTPError") else None

    @_lazy
    def text(self) -> str:
        """Return the body as text, bounded; empty if there is none."""
        payload = self.payload
        return _text(payload) if isinstance(payload, (str, bytes)) else repr(payload)[:TEXT_MAX] if payload else ""

    @_lazy
    def body(self) -> Body:
        """Return the codes and sentences of the body; without one, of the JSON an exception's message quotes."""
        payload = self.payload
        if payload is None and self.is_exception and ("{" in self.message or " " not in self.message):
            payload = self.message
        own = [self.get(name) for name in ("error_code", "code", "type")] if self.is_exception else []
        words = [word for word in own if isinstance(word, str)]
        if payload is None and not words:
            return NOTHING
        body = read(_text(payload) if isinstance(payload, bytes) else payload)
        return structs.replace(body, codes=[*body.codes, *words]) if words else body

    @_lazy
    def prose(self) -> str:
        """Return the sentences that may say what went wrong: the body's, else an exception's message."""
        if self.body.messages:
            return "\n".join(self.body.messages)
        if self.payload is not None:
            return self.text
        return "" if self.status is not None and self.response is not None else self.message

    @_lazy
    def soon(self) -> float | None:
        """Return the wait that the body names, or an exception's message where there is no response."""
        text = self.text or (self.message if self.is_exception and self.response is None else "")
        return phrase_s(text) if text else None

    def under(self, subject: object) -> Evidence:
        """Return the evidence of something beneath this one."""
        return Evidence(subject, now_ms=self.now_ms, depth=self.depth + 1)

    @_lazy
    def cause(self) -> Evidence | None:
        """Return what it was raised `from`."""
        found = self.get("__cause__")
        return self.under(found) if isinstance(found, BaseException) and found is not self.subject else None

    @_lazy
    def context(self) -> Evidence | None:
        """Return what was being handled when it was raised, unless that was suppressed."""
        found = self.get("__context__")
        hidden = self.get("__suppress_context__") is True
        return self.under(found) if isinstance(found, BaseException) and not hidden else None

    @_lazy
    def inside(self) -> Evidence | None:
        """Return the exception a library packed into this one: `os_error`, `reason`, `orig`, or an argument."""
        for name in ("os_error", "reason", "orig", "original_error"):
            found = self.get(name)
            if isinstance(found, BaseException) and found is not self.subject:
                return self.under(found)
        args = self.get("args")
        if isinstance(args, tuple):
            for item in cast("tuple[object, ...]", args)[:4]:
                if isinstance(item, BaseException) and item is not self.subject:
                    return self.under(item)
        return None

    def chain(self, chain_max: int = 8) -> list[Evidence]:
        """Return this and what lies beneath: packed in, raised from, or raised while handling it."""
        found: list[Evidence] = []
        seen: set[int] = set()
        at: Evidence | None = self
        while at is not None and len(found) < chain_max and id(at.subject) not in seen:
            seen.add(id(at.subject))
            found.append(at)
            at = at.inside or at.cause or at.context
        return found


def _at_once(raw: list[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Return the pairs decoded, all names and all values in one go each; `None` if they are not what they seem."""
    try:
        names, values = b"\n".join([pair[0] for pair in raw]), b"\n".join([pair[1] for pair in raw])
        if len(raw) > _HEADERS_MAX or len(names) + len(values) > _HEAD_MAX:
            return None
        found = values.decode("latin-1").split("\n")
        return dict(zip(names.decode("latin-1").lower().split("\n"), found, strict=True)) if raw else {}
    except Exception:  # noqa: BLE001 - a stranger's `raw`
        return None


_NAMES: dict[type, tuple[tuple[str, ...], frozenset[str]]] = {}
_NAMES_MAX = 2000


def names_of(cls: type) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return `package.Class` along the MRO, in order and as a set."""
    found = _NAMES.get(cls)
    if found is None:
        if len(_NAMES) >= _NAMES_MAX:  # classes made in a loop must not fill the memory
            _NAMES.clear()
        mro: tuple[type, ...] = _MRO.__get__(cls)
        names = tuple(f"{_package(base)}.{own_name(base)}" for base in mro if base is not object)
        found = (names or ("builtins.object",), frozenset(names))
        _NAMES[cls] = found
    return found


_MRO: Any = type.__dict__["__mro__"]
_NAME: Any = type.__dict__["__name__"]
_MODULE: Any = type.__dict__["__module__"]
"""The descriptors themselves: a metaclass may answer for its classes what it likes."""
_NAME_MAX = 200


def own_name(cls: type) -> str:
    """Return a class's name, bounded."""
    name: str = _NAME.__get__(cls)
    return name[:_NAME_MAX]


def _package(cls: type) -> str:
    try:
        module: object = _MODULE.__get__(cls)
    except Exception:  # noqa: BLE001 - a class without a module has no package
        return ""
    root = module.partition(".")[0][:_NAME_MAX] if type(module) is str else ""
    return {
        "_socket": "socket",
        "_ssl": "ssl",
        "httpx2": "httpx",
        "httpcore": "httpx",
        "httpcore2": "httpx",
        "pydantic_core": "pydantic",
    }.get(root, root)


def _get(holder: object, name: str, default: object = None) -> object:
    try:
        return getattr(holder, name, default)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException:  # noqa: BLE001 - a property of a stranger may raise anything
        return default


def _text(value: object) -> str:
    if isinstance(value, str):
        return value[:TEXT_MAX]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[:TEXT_MAX]).decode("utf-8", "replace")
    return ""


def _body_of(holder: object) -> str | bytes | dict[str, object] | list[object] | None:
    """
    Return the body where it was read already.

    `.text` and `.data` of requests and urllib3 read from the network when it was not; they keep what was
    read in `_content` and `_body`, as httpx and aiohttp do, so that is looked at first and alone.
    """
    for kept in () if isinstance(holder, Exception) else ("_content", "_body"):
        found = _get(holder, kept, holder)
        if found is not holder:
            return found if isinstance(found, (str, bytes)) else None
    for name in ("body", "text", "content", "details", "http_body"):
        found = _get(holder, name)
        if found and isinstance(found, (str, bytes, dict, list)):
            return cast("str | bytes | dict[str, object] | list[object]", found)
    return None
