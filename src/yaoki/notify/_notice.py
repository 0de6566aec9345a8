"""What somebody is told, and the settings of telling."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: TC003 - msgspec reads the annotations
from typing import Literal

from msgspec import Struct

from yaoki.errors import DeclarationError

__all__ = ["Notice", "Notify"]

_PER_MINUTE_MOST = 60


class Notice(Struct, frozen=True, kw_only=True):
    """
    One message. The same `id` is the same news, sent again after a death: whoever receives it can tell.

    `text` says what happened and the commands to act on it, secrets left out; at most 3,500 characters.
    """

    id: str
    kind: Literal["waiting", "dead", "capped", "breaker", "rate", "digest"]
    """
    waiting: somebody is needed · breaker: a scope failed so often that nothing begins there, of any run ·
    rate: first attempts fail too often · digest: several at once.
    """
    title: str
    text: str
    run_id: str = ""
    loop: str = ""
    at_ms: int = 0
    """When it happened; milliseconds UTC."""


class Notify(Struct, frozen=True, kw_only=True):
    """
    Whom to tell, and how much.

    Args:
        to: Addresses, or callables that take a `Notice`; see `sink_of`.
        per_minute_max: Messages a minute to each of them, 1 to 60. What comes beyond is told as one digest.
        rate_max: The share of a tool's first attempts that may fail, above 0 and at most 1, before that is told
            (once an hour); over its last 100 in one process, and not before there were 20. `None`: never told.

    Raises:
        DeclarationError: Nobody to tell, or bounds that cannot work.
    """

    to: Sequence[str | Callable[[Notice], object]]
    per_minute_max: int = 6
    rate_max: float | None = 0.5

    def __post_init__(self) -> None:
        """Refuse bounds that cannot work."""
        if isinstance(self.to, str) or not self.to:
            raise DeclarationError("Notify: to= is a list of addresses or callables, and not empty")
        if not 1 <= self.per_minute_max <= _PER_MINUTE_MOST:
            msg = f"Notify: per_minute_max is {self.per_minute_max}; it lies between 1 and {_PER_MINUTE_MOST}"
            raise DeclarationError(msg)
        if self.rate_max is not None and not 0 < self.rate_max <= 1:
            raise DeclarationError(f"Notify: rate_max is {self.rate_max}; it is above 0 and at most 1, or None")
