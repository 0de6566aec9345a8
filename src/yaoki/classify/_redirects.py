"""
Whether the failing request was the second one, after a redirect.

A 303, and by custom a 301 or 302, answers a request that was acted upon: when the client then fails to
fetch what it was sent to, "connection refused" or 404 speaks of the second request, and the first may have
charged a card. 307 and 308 repeat the request itself, so there the refusal stands (RFC 9110, 15.4).

Responses keep a history. Errors of connecting do not, but their traceback passes through the client's own
loop over redirects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from yaoki.classify._evidence import Evidence

__all__ = ["followed_redirect"]

_FRAMES_MAX: Final = 200
_REPEATING: Final = frozenset({307, 308})

_LOOPS: Final = {
    "_send_handling_redirects": ("httpx", "history"),
    "_request": ("aiohttp", "history"),
    "resolve_redirects": ("requests", "hist"),
    "http_error_302": ("urllib", ""),
}
"""The function of a client that follows redirects, its package, and its local list of answers so far."""


def followed_redirect(evidence: Evidence) -> bool:
    """Whether an earlier request of the same call was answered by a redirect that does not repeat it."""
    for holder in (evidence.get("history"), getattr(evidence.response, "history", None)):
        if _moved(holder):
            return True
    retries = getattr(evidence.response, "retries", None)
    if retries is not None and _moved(getattr(retries, "history", None)):
        return True
    return evidence.is_exception and _in_traceback(cast("TracebackType | None", evidence.get("__traceback__")))


def _moved(history: object) -> bool:
    if not isinstance(history, (list, tuple)):
        return False
    for past in cast("list[object]", history):
        status = getattr(past, "status_code", None) or getattr(past, "status", None)
        if isinstance(status, int) and 300 <= status < 400 and status not in _REPEATING:
            return True
    return False


def _in_traceback(traceback: TracebackType | None) -> bool:
    pools = 0
    for _ in range(_FRAMES_MAX):
        if traceback is None:
            return False
        frame = traceback.tb_frame
        name = frame.f_code.co_name
        if name in _LOOPS and _looped(frame, *_LOOPS[name]):
            return True
        # urllib3's pool manager calls itself for the next address.
        pools += name == "urlopen" and _module(frame) == "urllib3.poolmanager"
        if pools > 1:
            return True
        traceback = traceback.tb_next
    return False


def _looped(frame: FrameType, package: str, history: str) -> bool:
    if _module(frame).partition(".")[0].removesuffix("2") != package:  # httpx2 is httpx's next
        return False
    return not history or _moved(frame.f_locals.get(history))


def _module(frame: FrameType) -> str:
    name: object = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""
