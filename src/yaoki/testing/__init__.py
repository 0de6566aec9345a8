"""What programs that use Yaoki need in their own tests."""

from typing import TYPE_CHECKING, Any

from yaoki.testing._no_waits import NoWaits, no_waits

if TYPE_CHECKING:
    from yaoki.testing._always_replay import always_replay
    from yaoki.testing._clock import FakeClock
    from yaoki.testing._faults import faults, lost, ok, refused, reset, timeout
    from yaoki.testing._matrix import CrashDifferences, Matrix, crash_matrix
    from yaoki.testing._model_server import Asked, ModelServer
    from yaoki.testing._model_wire import Answer
    from yaoki.testing._points import point
    from yaoki.testing._world import World

__all__ = [
    "Answer",
    "Asked",
    "CrashDifferences",
    "FakeClock",
    "Matrix",
    "ModelServer",
    "NoWaits",
    "World",
    "always_replay",
    "crash_matrix",
    "faults",
    "lost",
    "no_waits",
    "ok",
    "point",
    "refused",
    "reset",
    "timeout",
]

_FROM = {
    "always_replay": "_always_replay",
    "Answer": "_model_wire",
    **dict.fromkeys(("Asked", "ModelServer"), "_model_server"),
    "FakeClock": "_clock",
    "point": "_points",
    "World": "_world",
    **dict.fromkeys(("faults", "lost", "ok", "refused", "reset", "timeout"), "_faults"),
    **dict.fromkeys(("CrashDifferences", "Matrix", "crash_matrix"), "_matrix"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever is exported
    """Import the instruments, and with them the drivers and asyncio, when one is asked for."""
    from importlib import import_module

    if name not in _FROM:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"yaoki.testing.{_FROM[name]}"), name)
