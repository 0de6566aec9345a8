"""
Patterns that are compiled when they are first used.

A process that meets no failure pays for none of them: compiling them all would be a third of `import yaoki`.
"""

from __future__ import annotations

import re
from typing import cast

__all__ = ["has_one", "pattern"]


class _Uncompiled:
    """Stands for a pattern; once asked for anything it compiles, and keeps the methods asked for as its own."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        method = cast("object", getattr(re.compile(self._source, self._flags), name))
        setattr(self, name, method)
        return method


def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return what behaves as `re.compile(source, flags)`; a mistake in it shows at first use."""
    return cast("re.Pattern[str]", _Uncompiled(source, flags))


def has_one(text: str, words: tuple[str, ...]) -> bool:
    """Whether one of the words is in the text; also if there are none. `any` would cost more than it asks."""
    for word in words:
        if word in text:
            return True
    return not words
