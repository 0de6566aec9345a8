"""Asking before something goes for good."""

from __future__ import annotations

import sys

from yaoki.cli._exits import CommandError

__all__ = ["confirmed"]


def confirmed(question: str, *, yes: bool) -> bool:
    """
    Return whether it is meant: `yes` says so, else the person at the terminal does; nothing but y or yes is a yes.

    Raises:
        CommandError: Nobody is there to be asked.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError("usage", f"{question} Nobody is at a terminal to say so: add --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
