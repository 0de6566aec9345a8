"""
Loops with a model in them: the tool loop, and its parts for loops of your own.

    from yaoki.agent import converse              # in a plain loop; `aconverse` in an async one

    @loop(budget=Budget(turns=40))
    def ticket_agent(run: Run, ticket: str) -> Answer:
        return converse(run, ask_model, ticket, form="anthropic", tools=TOOLS, into=Answer)

`StallGuard` says whether calls go in circles, `repaired` makes a transcript whole after a crash, `results_as` writes
results down as a vendor wants them. All of it is built on the public API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaoki.agent._converse import Model, Reply, Talk, aconverse, converse
from yaoki.agent._forms import INTERRUPTED, form_of
from yaoki.agent._stall import StallGuard, action_of, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from yaoki.runtime import ToolResult

__all__ = [
    "INTERRUPTED",
    "Model",
    "Reply",
    "StallGuard",
    "Talk",
    "aconverse",
    "action_of",
    "converse",
    "repaired",
    "results_as",
    "signature_of",
    "tools_as",
]


def repaired(
    messages: Sequence[dict[str, Any]], form: str, interrupted: Callable[[str, str], str] | None = None
) -> list[dict[str, Any]]:
    """
    Return a transcript that the vendor accepts: every call has its result, every result its call, each once, in place.

    A call whose result was lost is said to be interrupted. The messages given are not changed; a whole transcript comes
    back equal.

    Args:
        messages: As the vendor's client takes them.
        form: `anthropic`, `openai` or `responses`.
        interrupted: Given a call's id and its tool's name, returns what the model is told; by default that it may have
            happened.

    Raises:
        DeclarationError: No such form.
    """
    return form_of(form).repaired(messages, interrupted or _interrupted)


def _interrupted(_call: str, _tool: str) -> str:
    return INTERRUPTED


def results_as(form: str, results: Sequence[ToolResult], word: str = "") -> list[dict[str, Any]]:
    """Return the results of a reply's calls as messages to append, and a word of yours where the vendor allows one."""
    return form_of(form).results(results, word)


def tools_as(form: str, specs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `Toolbox.specs()` as the vendor wants them."""
    return form_of(form).tools(specs)
