"""What tokens cost, by genai-prices where it is installed (`pip install yaoki[prices]`); it is imported when asked."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaoki.runtime._usage import Usage

__all__ = ["price_usd", "prices_known"]


def prices_known() -> bool:
    """Whether there is a list of prices; it is not loaded."""
    try:
        return find_spec("genai_prices") is not None
    except ValueError:  # it stands in `sys.modules`, without a spec
        return False


def price_usd(usage: Usage, *, wanted: bool) -> tuple[float | None, str]:
    """
    Return what a use costs in US dollars, by the list's own prices of its model; else None, and why not.

    Args:
        usage: Its tokens and its model.
        wanted: Whether a bound hangs on it: without a list of prices that is worth a word only then.
    """
    if not usage.model:
        return None, "what it costs is not counted: it names no model and no cost_usd"
    if not prices_known():
        why = "what it costs is not counted: there is no list of prices. pip install yaoki[prices], or give usage="
        return None, why if wanted else ""
    import genai_prices

    given = genai_prices.Usage(
        input_tokens=usage.input_tokens or usage.tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return float(genai_prices.calc_price(given, usage.model).total_price), ""
    except LookupError:
        return None, f"what it costs is not counted: no price is known for model {usage.model!r}"
    except Exception as error:  # noqa: BLE001 - somebody else's list; the call is kept all the same
        return None, f"what it costs is not counted: {type(error).__name__} for model {usage.model!r}: {error}"
