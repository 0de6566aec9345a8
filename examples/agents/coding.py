"""
A coding agent: it edits files in one folder until the tests there pass. The test suite decides, not the model.

    export OPENAI_API_KEY=…
    yaoki run examples/agents/coding.py:fix --input '"The tests fail. Fix the code, not the tests."'
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import openai

from yaoki import Budget, Effect, Retry, Run, TerminalError, Toolbox, loop, tool
from yaoki.agent import converse
from yaoki.models import responses_model
from yaoki.verify import command

SANDBOX = Path(os.environ.get("CODING_SANDBOX", "sandbox")).resolve()
RETRY = Retry(base_s=float(os.environ.get("CODING_RETRY_BASE_S", "0.5")))
SYSTEM = "You fix code. Look at the files, edit them, run the tests. Say in one line what was wrong when they pass."

model = responses_model(openai.OpenAI(), os.environ.get("CODING_MODEL", "gpt-5"), system=SYSTEM, retry=RETRY)
suite = command([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=SANDBOX, timeout_s=120)


def inside(name: str) -> Path:
    """Return a path in the sandbox; nothing outside of it is touched."""
    path = (SANDBOX / name).resolve()
    if not path.is_relative_to(SANDBOX):
        raise TerminalError(f"{name} lies outside of the sandbox", happened=False)
    return path


@tool(effect=Effect.READ_ONLY)
def list_files() -> list[str]:
    """List the files."""
    return sorted(str(path.relative_to(SANDBOX)) for path in SANDBOX.rglob("*.py"))


@tool(effect=Effect.READ_ONLY)
def read_file(name: str) -> str:
    """Read a file."""
    return inside(name).read_text()


@tool(effect=Effect.IDEMPOTENT)
def write_file(name: str, text: str) -> str:
    """Write a file, all of it."""
    if name.startswith("test_"):
        raise TerminalError("the tests stay as they are", happened=False)
    inside(name).write_text(text)
    return f"{name}: {len(text)} characters"


@tool(effect=Effect.READ_ONLY)
def run_tests() -> str:
    """Run the tests."""
    return suite(None).evidence


@loop(budget=Budget(turns=30, calls=200))
def fix(run: Run, task: str) -> str:
    box = Toolbox(list_files, read_file, write_file, run_tests)
    return converse(run, model, task, tools=box, verify=suite)
