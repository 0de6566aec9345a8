"""`yield from`, for a generator or coroutine that was started already and whose first item is in hand."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["resumed"]


def _resumed(items: Generator[Any, Any, Any], item: object) -> Generator[Any, Any, Any]:
    """
    Yield `item`, then the rest; what is sent, thrown or closed reaches `items`, as PEP 380 says.

    Returns what `items` returns. From the first plain `next` on, the interpreter's own `yield from` takes over.
    """
    while True:
        try:
            sent: object = yield item
        except GeneratorExit:
            items.close()
            raise
        except BaseException as error:  # noqa: BLE001 - thrown on
            try:
                item = items.throw(error)
            except StopIteration as done:
                return done.value
        else:
            if sent is None:
                return (yield from items)
            try:
                item = items.send(sent)
            except StopIteration as done:
                return done.value


resumed = cast("Callable[[Any, object], Generator[Any, Any, Any]]", types.coroutine(_resumed))
"""The same, marked: only so may it take over a coroutine too."""
