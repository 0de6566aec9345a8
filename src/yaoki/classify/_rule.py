"""
Rules, and the order in which they are asked.

A rule looks at the evidence and answers with a `Failure`, or nothing if the matter is not its own. What the
answer leaves empty (message, fingerprint, evidence) is filled in. The order of evidence is the contract's:
whoever knows most is asked first, and a status is asked after everything that speaks of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.classify._evidence import Evidence
    from yaoki.records import Failure

__all__ = ["ORDER", "Rule", "register", "registered"]

ORDER: Final = ("user", "body", "code", "class", "status", "message")
"""Where a rule stands; whoever knows most is asked first."""


class Rule(Struct, frozen=True, kw_only=True):
    """One family's knowledge of one sort of evidence."""

    name: str
    """Shown to people who ask which rule decided: `os.errno`."""
    stage: str = "user"
    """One of `ORDER`; registered rules are asked first whatever it says."""
    judge: Callable[[Evidence], Failure | None]
    """Pure. If it raises, it is passed over."""


_registered: list[Rule] = []


def register(rule: Rule) -> None:
    """
    Ask this rule before every built-in one, and before those registered earlier; of the same name, instead of it.

    For the whole process; call it once, where the program starts.
    """
    _registered[:] = [rule, *(other for other in _registered if other.name != rule.name)]


def registered() -> tuple[Rule, ...]:
    """Return the registered rules, newest first."""
    return tuple(_registered)
