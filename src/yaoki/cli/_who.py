"""Who types: the name that stands beside an answer, a cancel or a redrive in the journal."""

from __future__ import annotations

__all__ = ["who"]


def who() -> str:
    """Return the login name, or the user's number where there is no name for it."""
    import getpass
    import os

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
