"""What a model answered, as it is recorded: once, in the transcript's own form."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from yaoki.models._talks import parts_of
from yaoki.runtime import ToolCall, Usage

__all__ = ["Reply"]


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A whole answer of a model. `message` goes to the transcript; `text` and `calls` are read from it.

    It is on disk once: what is read from it is not stored again, nor is a transcript that it was appended to.
    """

    form: str
    """How `message` is written: `anthropic`, `openai` or `responses`."""
    message: list[dict[str, Any]]
    """Messages, or items, to append."""
    stop: str = ""
    """The vendor's word for why it ended: `end_turn`, `tool_use`, `stop`, `tool_calls`, `max_tokens`, `length`, …"""
    model: str = ""
    """The model that answered, as the vendor names it."""
    usage: Usage = msgspec.field(default_factory=Usage)

    @property
    def text(self) -> str:
        """What it says in words."""
        return "\n".join(part.text for part in parts_of(self.message, self.form) if part.text)

    @property
    def calls(self) -> list[ToolCall]:
        """The tools it asks for."""
        return [call for part in parts_of(self.message, self.form) for call in part.calls]
