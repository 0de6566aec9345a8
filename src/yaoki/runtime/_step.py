"""One journaled use of a tool: who it is, what it is called with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaoki.codec import canonical
from yaoki.errors import EncodingError
from yaoki.runtime._signature import show_call

try:
    # hashlib's own, without the cryptographic library hashlib loads first, a tenth of `import yaoki`.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from yaoki.records import Effect
    from yaoki.runtime._live import Branch
    from yaoki.runtime._tool import Tool

__all__ = ["Step", "action_key", "blake2b", "check_step", "fingerprint", "make_step", "undo_key"]


_FIXED = frozenset({str, int, float, bool, bytes, type(None)})


class Step:
    """
    A call's identity and arguments, fixed when the call expression is evaluated.

    `declared` is the tool that was called; `tool` the one that acts, with `given`, `named` and `values`: the same
    until a fallback takes its place, when `own` keeps the call's.
    """

    __slots__ = (
        "about",
        "action",
        "args",
        "branch",
        "call_id",
        "declared",
        "effect",
        "fixed_key",
        "for_model",
        "given",
        "key",
        "loose",
        "named",
        "own",
        "tool",
        "values",
    )

    def __init__(self, tool: Tool[Any, Any], branch: Branch, key: str) -> None:
        self.tool = tool
        self.declared = tool
        self.own: tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]] | None = None
        self.fixed_key = ""
        self.branch = branch
        self.key = key
        self.given: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.args = ""
        self.action = ""
        self.call_id = ""
        self.for_model = False
        self.effect: Effect | None = None
        self.loose = False
        """Whether what it was called with could have been changed since."""
        self.about = ""
        """For a check: the key of the action it is asked about."""

    @property
    def call(self) -> str:
        """The call for people."""
        return show_call(self.tool.name, self.values, self.tool.hidden)

    @property
    def changed(self) -> bool:
        """Whether its arguments are no longer those its identity and its key were made of."""
        if not self.loose:
            return False
        values, hidden = self.values if self.own is None else self.own[2], self.declared.hidden
        shown = {name: value for name, value in values.items() if name not in hidden}
        try:
            return fingerprint(self.declared.name, canonical(shown)) != self.args
        except EncodingError:
            return True


def make_step(
    branch: Branch,
    tool: Tool[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    owner: object = None,
    call_id: str = "",
    for_model: bool = False,
    key: str = "",
) -> Step:
    """
    Bind a call and give it its identity.

    Raises:
        TypeError: The arguments do not fit, as Python would say.
        EncodingError: An argument cannot be journaled; nothing was recorded.
    """
    values = tool.params.bind(args, kwargs)
    hidden = tool.hidden
    shown = {name: value for name, value in values.items() if name not in hidden} if hidden else values
    whole = fingerprint(tool.name, canonical(shown))
    action = whole if tool.key_of is None else fingerprint(tool.name, canonical(tool.key_values(values)))
    step = Step(tool, branch, key or branch.next_key(tool.name))
    step.given = args if owner is None else (owner, *args)
    step.named = kwargs
    step.values = values
    step.loose = not _FIXED.issuperset(map(type, shown.values()))
    step.args = whole
    step.action = action
    step.call_id = call_id
    step.for_model = for_model
    return step


def check_step(step: Step, check: Tool[Any, Any], key: str, about: str = "") -> Step:
    """
    Return a sub-step that is given a step's own arguments, Local ones included: its check, its cached value.

    `about` is the key of the action a check is asked about.
    """
    asked = Step(check, step.branch, key)
    asked.given = step.given[:1] if check.is_method else ()
    asked.named = step.values
    asked.values = step.values
    asked.about = about
    asked.args = asked.action = fingerprint(check.name, step.args.encode())
    return asked


def fingerprint(name: str, data: bytes) -> str:
    """Return the hash that equal calls share: 24 hexadecimal characters."""
    made = blake2b(name.encode() + b"\0", digest_size=12)
    made.update(data)  # not joined: it may be large
    return made.hexdigest()


def action_key(run: str, action: str, slot: int, rung: int = 0) -> str:
    """
    Return the idempotency key: hash(run, tool, arguments, slot), 32 hexadecimal characters.

    A fallback sends another request for the same action, so each rung has a key of its own.
    """
    place = f"{run}\0{action}\0{slot}\0{rung}" if rung else f"{run}\0{action}\0{slot}"
    return blake2b(place.encode(), digest_size=16).hexdigest()


def undo_key(key: str) -> str:
    """Return the key an action is undone with: hash(key, 'undo')."""
    return blake2b(f"{key}\0undo".encode(), digest_size=16).hexdigest()
