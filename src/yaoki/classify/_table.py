"""
Tables of a family: what each class of a library, or each word of its protocol, means.

A class is looked up by its own name along the MRO, within the packages of its family, so that a subclass of
tomorrow answers like its base. The name of the rule stands in each answer, since a family is more than one rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from yaoki.classify._evidence import Evidence

__all__ = ["Row", "by_class", "by_names", "table"]

Row = tuple[FailureKind, Executed, Scope, str, str]
"""Kind, executed, scope, reason (`{}` is the key in it), and the keys: words apart by spaces."""


def table(rule: str, evidence: str, *rows: Row, hints: Mapping[str, str] | None = None) -> dict[str, Failure]:
    """Return a failure per key; `hints` are by key."""
    hints = hints or {}
    return {
        key: Failure(
            kind=kind,
            executed=executed,
            scope=scope,
            reason=reason.replace("{}", key),
            evidence=f"{evidence} {rule}",
            hint=hints.get(key, ""),
        )
        for kind, executed, scope, reason, keys in rows
        for key in keys.split()
    }


def by_class(evidence: Evidence, packages: Collection[str] | None, classes: Mapping[str, Failure]) -> Failure | None:
    """Return the answer for the most specific class of these packages (`None`: of any) that has one."""
    return by_names(evidence.names, packages, classes)


def by_names(
    names: tuple[str, ...], packages: Collection[str] | None, classes: Mapping[str, Failure]
) -> Failure | None:
    """Return the answer for the first of these `package.Class` names that has one."""
    for name in names:
        package, _, own = name.partition(".")
        if (packages is None or package in packages) and (found := classes.get(own)) is not None:
            return found
    return None
