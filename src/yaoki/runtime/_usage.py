"""What a call uses of a budget: reserved before it is made, and read from its result afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct

from yaoki.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaoki.records import Spent

__all__ = ["UNUSED", "Reserve", "Usage", "Used", "count", "count_use", "reservation", "usage_in", "used_by"]

_MOST = 2**53
_RESERVED = ("tokens", "cost_usd")
_TEXT_MAX = 300


class Usage(Struct, frozen=True, kw_only=True):
    """
    What one call used.

    With `cost_usd` that is what it cost, in US dollars. Without, it is priced by genai-prices (the extra `prices`)
    where `model` names a model that it knows; else its tokens alone are counted, and a gap says so.
    `tokens` is all of them; left at 0 it is `input_tokens` plus `output_tokens`. `cache_read_tokens` and
    `cache_write_tokens` are those of the input that were read from, or written to, the vendor's cache.
    """

    tokens: int = 0
    cost_usd: float | None = None
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total(self) -> int:
        """All tokens."""
        return self.tokens or self.input_tokens + self.output_tokens


if TYPE_CHECKING:
    from typing import TypeAlias

    Reserve: TypeAlias = Mapping[str, float] | Callable[..., Mapping[str, float]]
else:
    Reserve = object

_COUNTS = tuple(name for name in Usage.__struct_fields__ if name.endswith("tokens"))


def reservation(owner: str, amounts: object) -> dict[str, float]:
    """
    Return what is reserved for an attempt.

    Raises:
        DeclarationError: It is no mapping of `tokens` and `cost_usd` to amounts.
    """
    if not isinstance(amounts, Mapping):
        msg = f'{owner}: reserve is {amounts!r}; write a mapping, for example {{"tokens": 4000}}'
        raise DeclarationError(msg)
    found: dict[str, float] = {}
    for name, amount in cast("Mapping[object, object]", amounts).items():
        if name not in _RESERVED:
            msg = f"{owner}: reserve names {name!r}; it reserves tokens and cost_usd"
            raise DeclarationError(msg)
        if not _amount(amount, whole=name == "tokens"):
            kind = "a whole number" if name == "tokens" else "a number"
            msg = f"{owner}: reserve says {name}={amount!r}; write {kind} from 0 to {_MOST}"
            raise DeclarationError(msg)
        if amount:
            found[name] = cast("float", amount)
    return found


def count(of: Spent, amounts: Mapping[str, float], sign: int) -> None:
    """Add amounts of tokens and dollars to what is spent, or take them off."""
    of.tokens += sign * int(amounts.get("tokens", 0))
    of.cost_usd += sign * amounts.get("cost_usd", 0.0)


def count_use(
    spent: Spent, in_flight: Spent, reserved: Mapping[str, float] | None, used: Mapping[str, float] | None
) -> None:
    """Count an attempt's end: what it used takes the place of what it reserved; if it says nothing, that stays."""
    if reserved:
        count(in_flight, reserved, -1)
        if used is not None:
            count(spent, reserved, -1)
    if used:
        count(spent, used, 1)


class Used(NamedTuple):
    """What an attempt is settled with."""

    used: dict[str, float] | None
    """As recorded; None where nothing is known: what was reserved stays spent."""
    uncounted: str
    """What could not be counted, one line for people; or nothing."""


UNUSED = Used(None, "")
"""Nothing is known."""


def used_by(
    tool: str,
    usage: Callable[[Any], object] | None,
    result: object,
    reserved: Mapping[str, float] | None,
    *,
    cost_bounded: bool,
) -> Used:
    """
    Return what a call used, by its tool's `usage` function, or else by what its result says of itself.

    Never raises: a result that was paid for is not lost because its price cannot be read. What is not known of
    it stays as it was reserved, and is said.

    Args:
        tool: The tool's name.
        usage: Returns a `Usage`, a mapping of its fields, a vendor's usage object, or None for nothing known.
        result: As the tool returned it.
        reserved: What its begin reserved.
        cost_bounded: Whether a bound on cost hangs on it; if not, a price that is not known is worth no word unless
            other models' prices are known.
    """
    if usage is None:
        found = usage_in(result)
        return UNUSED if found is None else _priced(tool, found, reserved, cost_bounded=cost_bounded)
    try:
        said = usage(result)
    except Exception as error:  # noqa: BLE001 - user code; what it was asked about is kept all the same
        return Used(None, f"{tool}: usage= raised {type(error).__name__}: {error}{_stays(reserved)}"[:_TEXT_MAX])
    if said is None:
        return UNUSED
    found = said if isinstance(said, Usage) else _as_usage(said)
    if found is None or not _sound(found):
        return Used(None, f"{tool}: usage= returned {said!r}, which is no usage{_stays(reserved)}"[:_TEXT_MAX])
    if not found.model:
        found = _named(found, result)
    return _priced(tool, found, reserved, cost_bounded=cost_bounded)


def _stays(reserved: Mapping[str, float] | None) -> str:
    return "; what it reserved stays counted" if reserved else "; what it used is not counted"


def _priced(tool: str, usage: Usage, reserved: Mapping[str, float] | None, *, cost_bounded: bool) -> Used:
    cost_usd, why = usage.cost_usd, ""
    if cost_usd is None and (usage.model or cost_bounded):
        from yaoki.runtime._prices import price_usd

        cost_usd, why = price_usd(usage, wanted=cost_bounded)
    used: dict[str, float] = {}
    if usage.total:
        used["tokens"] = usage.total
    elif reserved and "tokens" in reserved:
        used["tokens"] = reserved["tokens"]
    if cost_usd is None and reserved:
        cost_usd = reserved.get("cost_usd")
    if cost_usd:
        used["cost_usd"] = cost_usd
    return Used(used, f"{tool}: {why}"[:_TEXT_MAX] if why else "")


def usage_in(result: object) -> Usage | None:
    """
    Return what a result says of its own use, in `usage` or `usage_metadata` beside the `model`; None if nothing.

    So do the responses of OpenAI's, Anthropic's and Google's clients, and dicts like them.
    """
    if isinstance(result, str | bytes | int | float | list | tuple | None):
        return None
    for name in ("usage", "usage_metadata", "usageMetadata"):
        part = _part(result, name)
        if part is not None and not callable(part):
            found = part if isinstance(part, Usage) else _as_usage(part)
            if found is not None and _sound(found):
                return found if found.model else _named(found, result)
    return None


def _named(usage: Usage, result: object) -> Usage:
    from msgspec.structs import replace

    for name in ("model", "model_version", "modelVersion"):
        model = _part(result, name)
        if isinstance(model, str) and model:
            return replace(usage, model=model[:200])
    return usage


def _as_usage(said: object) -> Usage | None:
    """Return a vendor's usage object, or a mapping of our own fields, as ours; None if it is neither."""
    own = _own_fields(said)
    if own is not None:
        return Usage(**own)
    for read in (_google, _chat, _messages):
        found = read(said)
        if found is not None:
            return found
    return None


def _own_fields(said: object) -> Mapping[str, Any] | None:
    fields = cast("Mapping[str, Any]", said) if isinstance(said, Mapping) else None
    return fields if fields and set(fields) <= set(Usage.__struct_fields__) else None


def _chat(said: object) -> Usage | None:
    """OpenAI's chat completions, and all that answer like them: the cached are among the prompt's."""
    prompt, completion = _count(said, "prompt_tokens"), _count(said, "completion_tokens")
    if prompt is None and completion is None:
        return None
    cached = _count(_part(said, "prompt_tokens_details"), "cached_tokens") or 0
    return _made(said, prompt, completion, _count(said, "total_tokens"), read=cached)


def _messages(said: object) -> Usage | None:
    """Anthropic's messages (the cached are beside the input's) and OpenAI's responses (they are among them)."""
    given, output = _count(said, "input_tokens"), _count(said, "output_tokens")
    if given is None and output is None:
        return None
    read = _count(said, "cache_read_input_tokens") or 0
    written = _count(said, "cache_creation_input_tokens") or 0
    if read or written:
        return _made(said, (given or 0) + read + written, output, None, read=read, written=written)
    cached = _count(_part(said, "input_tokens_details"), "cached_tokens") or 0
    return _made(said, given, output, _count(said, "total_tokens"), read=cached)


def _google(said: object) -> Usage | None:
    for prompt, output, total, cached in _GOOGLE:
        given = _count(said, prompt)
        if given is not None:
            whole = _count(said, total) or given + (_count(said, output) or 0)
            return _made(said, given, whole - given, whole, read=_count(said, cached) or 0)
    return None


_GOOGLE = (
    ("prompt_token_count", "candidates_token_count", "total_token_count", "cached_content_token_count"),
    ("promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount"),
)


def _made(
    said: object, given: int | None, output: int | None, total: int | None, *, read: int, written: int = 0
) -> Usage:
    cost = _part(said, "cost_usd")
    return Usage(
        tokens=total or 0,
        input_tokens=given or 0,
        output_tokens=output or 0,
        cache_read_tokens=min(read, given or 0),
        cache_write_tokens=min(written, given or 0),
        cost_usd=cast("float", cost) if _amount(cost, whole=False) else None,
    )


def _part(whole: object, name: str) -> object:
    """Return a field of an object or a mapping; None where there is none, or it cannot be read."""
    if isinstance(whole, Mapping):
        return cast("Mapping[str, object]", whole).get(name)
    try:
        return getattr(whole, name, None)
    except Exception:  # noqa: BLE001 - a property of somebody else's
        return None


def _count(whole: object, name: str) -> int | None:
    value = _part(whole, name)
    return cast("int", value) if _amount(value, whole=True) else None


def _amount(value: object, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    return math.isfinite(value) and 0 <= value <= _MOST


def _sound(usage: Usage) -> bool:
    counts = all(_amount(getattr(usage, name), whole=True) for name in _COUNTS)
    return counts and (usage.cost_usd is None or _amount(usage.cost_usd, whole=False))
