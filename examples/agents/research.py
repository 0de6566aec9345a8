"""
A research agent: it searches and reads side by side, and its answer must name a source that it has read.

    export OPENAI_API_KEY=…
    yaoki run examples/agents/research.py:research --input '"Who wrote Release It?"'

The second model takes over, in the same conversation, while the first one is down or too slow to begin.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import openai

from yaoki import AsyncRun, Budget, Effect, ForModel, Retry, Toolbox, loop, tool
from yaoki.agent import aconverse
from yaoki.escalate import fallback
from yaoki.models import openai_model

LIBRARY = Path(os.environ.get("RESEARCH_LIBRARY", "library"))
RETRY = Retry(base_s=float(os.environ.get("RESEARCH_RETRY_BASE_S", "0.5")))
FIRST_TOKEN_S = float(os.environ.get("RESEARCH_FIRST_TOKEN_S", "20"))
SYSTEM = """You answer questions from a library. Search it, read what looks right, and answer with JSON alone:
{"answer": "...", "source": "<the file you took it from>"}"""

spare = openai_model(
    openai.AsyncOpenAI(base_url=os.environ.get("RESEARCH_SPARE_URL")), "gpt-5-mini", system=SYSTEM, retry=RETRY
)
model = openai_model(
    openai.AsyncOpenAI(), "gpt-5", system=SYSTEM, stream=True, first_token_s=FIRST_TOKEN_S, retry=RETRY,
    escalate=[fallback(spare)],
)  # fmt: skip


@dataclass
class Finding:
    answer: str
    source: str


@tool(effect=Effect.READ_ONLY, agent=ForModel(poll=True))  # to search the same thing twice is no circle
async def search(words: str) -> list[str]:
    """Return the names of documents that have one of these words in them."""
    wanted = words.lower().split()
    return [path.name for path in sorted(LIBRARY.glob("*.txt")) if any(w in path.read_text().lower() for w in wanted)]


@tool(effect=Effect.READ_ONLY)
async def read(name: str) -> str:
    """Read a document."""
    return (LIBRARY / Path(name).name).read_text()


def sourced(finding: Finding) -> None:
    """Hold that the source is in the library, and says something of the answer."""
    path = LIBRARY / Path(finding.source).name
    assert path.exists(), f"there is no {finding.source} in the library"
    assert any(word in path.read_text() for word in finding.answer.split()), f"{path.name} does not say that"


@loop(budget=Budget(turns=20, calls=100))
async def research(run: AsyncRun, question: str) -> Finding:
    return await aconverse(run, model, question, tools=Toolbox(search, read), into=Finding, verify=sourced)
