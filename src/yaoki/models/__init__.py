"""
The real clients of model vendors as tools: each call a READ_ONLY step, recorded whole, with one owner of its retries.

    from anthropic import AsyncAnthropic
    from yaoki.models import anthropic_model

    claude = anthropic_model(AsyncAnthropic(), "claude-sonnet-5", escalate=[fallback(gpt)])

    reply = await claude(messages, tools)             # in a loop; reply.text, reply.calls, reply.message
    answer = await aconverse(run, claude, task)       # or let yaoki.agent drive it

No client is imported: they are used by the methods they document. Their own retries are switched off for these calls.
"""

from __future__ import annotations

from yaoki.models._model import anthropic_model, openai_model, responses_model
from yaoki.models._reply import Reply

__all__ = ["Reply", "anthropic_model", "openai_model", "responses_model"]
