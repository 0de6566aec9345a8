"""
The codes vendors document, each with what it means; asked before the words codes are made of.

Loaded when the first code is met.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from yaoki.classify._status import executed_by_status
from yaoki.records import Executed

if TYPE_CHECKING:
    from yaoki.records import Failure

__all__ = ["documented", "executed_of_code"]

_MAY_REFUSE = (None, 503)
"""Where the status does not tell a refusal from a failure, and the code does."""

_HOMES = ("_google", "_aws", "_openai", "_anthropic")
"""Of a code that two document, the later one's word counts."""


@cache
def _codes() -> dict[str, Failure]:
    found: dict[str, Failure] = {}
    for home in _HOMES:
        found.update(cast("dict[str, Failure]", import_module(f"yaoki.classify.{home}").CODES))
    return found


def documented(code: str) -> Failure | None:
    """Return what a vendor says this code means; `code` in small letters, its words joined by underscores."""
    return _codes().get(code)


def executed_of_code(said: Executed, status: int | None) -> Executed:
    """Return whether a request answered with a documented code was acted upon: by the code, and by the status."""
    if said is Executed.YES or status in _MAY_REFUSE:
        return said
    # What follows a 200 is the end of an answer that had begun.
    return Executed.MAYBE if status < 300 else executed_by_status(status)
