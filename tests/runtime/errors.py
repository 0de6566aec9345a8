"""Real exceptions, as the libraries raise them, by what they say of the action."""

from __future__ import annotations

import errno
import urllib.error
from email.message import Message

import httpx


def refused() -> OSError:
    """Nothing was sent: transient, executed no."""
    return ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def reset() -> OSError:
    """Sent, and cut off: transient, executed maybe."""
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def status(code: int, *, retry_after: str | None = None, text: str = "") -> httpx.HTTPStatusError:
    """Return an answer of this status, as httpx raises it."""
    request = httpx.Request("POST", "http://vendor.test/v1/charges")
    headers = {} if retry_after is None else {"retry-after": retry_after}
    response = httpx.Response(code, request=request, headers=headers, text=text)
    return httpx.HTTPStatusError(f"{code}", request=request, response=response)


def read_timeout() -> httpx.ReadTimeout:
    """Sent, and no answer: transient, executed maybe."""
    return httpx.ReadTimeout("timed out", request=httpx.Request("POST", "http://vendor.test/v1/charges"))


def not_found() -> urllib.error.HTTPError:
    """Return a 404 as urllib raises it: permanent, executed no."""
    return urllib.error.HTTPError("http://vendor.test/x", 404, "Not Found", Message(), None)
