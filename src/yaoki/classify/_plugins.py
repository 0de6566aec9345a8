"""
Rules of installed packages, found by the entry-point group `yaoki.classify`.

An entry point is a `Rule`, several, or a function without arguments that returns them:

    [project.entry-points."yaoki.classify"]
    acme = "acme.failures:RULES"

Looked for once, when the first error is classified: a process that meets none pays nothing, and where no package
has such rules it costs a look at the packages' `entry_points.txt`, without `importlib.metadata`. A package whose
rules cannot be loaded is named in a log record, with the traceback, and its rules are left out.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock  # as threading has it, without the rest of threading
from typing import TYPE_CHECKING, Final, cast

from yaoki.classify._rule import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["GROUP", "installed"]

GROUP: Final = "yaoki.classify"

_lock: Final = RLock()
_found: list[tuple[Rule, ...]] = []
"""Empty until they were looked for."""


def installed() -> tuple[Rule, ...]:
    """Return the rules of installed packages, by the packages' names; loads them at the first call."""
    if _found:
        return _found[0]
    with _lock:
        if not _found:
            _found.append(())  # whoever classifies while the rules load does so without them
            _found[0] = _loaded()
    return _found[0]


def _loaded() -> tuple[Rule, ...]:
    if not any(map(_declares, sys.path)):
        return ()
    from importlib.metadata import entry_points

    rules: list[Rule] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            rules += _rules(point.load())
        except Exception:
            import logging

            logging.getLogger("yaoki.classify").exception(
                "the rules of entry point %s = %s could not be loaded and are left out", point.name, point.value
            )
    return tuple(rules)


def _declares(folder: str) -> bool:
    """Whether a package in this folder of the path, or in this archive, may have rules."""
    try:
        with os.scandir(folder or ".") as entries:
            metadata = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True  # an archive: `importlib.metadata` can look inside
    except OSError:
        return False
    return any(_has_group(path) for path in metadata)


def _has_group(metadata: str) -> bool:
    try:
        with open(f"{metadata}/entry_points.txt", "rb") as file:  # noqa: PTH123 - pathlib is loaded for nothing else here
            return f"[{GROUP}]".encode() in file.read(_POINTS_MAX)
    except OSError:
        return False


_POINTS_MAX: Final = 1_000_000


def _rules(thing: object) -> list[Rule]:
    if not isinstance(thing, Rule) and callable(thing):
        thing = cast("Callable[[], object]", thing)()
    rules = [thing] if isinstance(thing, Rule) else list(cast("Iterable[object]", thing or ()))
    if not all(isinstance(rule, Rule) for rule in rules):
        raise TypeError("expected a yaoki.classify.Rule, several, or a function that returns them")
    return cast("list[Rule]", rules)
