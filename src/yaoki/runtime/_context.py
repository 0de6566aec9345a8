"""Where a call is made from: a branch of a run, the inside of an attempt, or neither."""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from yaoki.errors import OutsideBranch
from yaoki.records import Effect

if TYPE_CHECKING:
    from yaoki.runtime._step import Step
    from yaoki.runtime._tool import Tool

__all__ = ["Here", "InAttempt", "driving", "enter", "here", "leave", "note_driving"]


class Here(Protocol):
    """Something that knows what calling a tool means at this place."""

    def use(
        self, tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, owner: object = None
    ) -> object:
        """Use a tool from here."""
        ...


_HERE: ContextVar[Here | None] = ContextVar("yaoki_here", default=None)
here = _HERE.get
"""Return where the caller is, or None outside any run."""

_driven = 0
_counting = Lock()


def enter(place: Here | None) -> Token[Here | None]:
    """Set where the code that follows is."""
    return _HERE.set(place)


def leave(token: Token[Here | None]) -> None:
    """Undo `enter`."""
    _HERE.reset(token)


def driving() -> bool:
    """Whether this process drives a run at this moment."""
    return _driven > 0


def note_driving(change: int) -> None:
    """Count a run that starts (1) or stops (-1) being driven here."""
    global _driven  # noqa: PLW0603 - a fact about the process
    with _counting:  # threads of one `work` count here at the same time, and += is two steps
        _driven += change


class InAttempt:
    """The inside of one attempt. Tools called here are no steps: no retries, and no effects."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step

    def use(
        self, tool: Tool[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, owner: object = None
    ) -> object:
        """Call a read-only tool plainly; refuse any other, since nothing would journal it."""
        values = tool.params.bind(args, kwargs)
        if tool.effect_of(values) is not Effect.READ_ONLY or tool.approve is not None:
            msg = (
                f"{tool.name} was called inside an attempt of {self.step.tool.name}, where nothing could be journaled; "
                f"nothing was executed. Call it from the loop, or call the plain function {tool.name}.fn."
            )
            raise OutsideBranch(msg)
        own = () if owner is None else (owner,)
        extra = {name: _UNSET_INJECTED[name] for name in tool.params.injected}
        return tool.fn(*own, *args, **kwargs, **extra)


_UNSET_INJECTED: dict[str, Any] = {"idempotency_key": "", "feedback": None, "timeout_s": 120.0}
