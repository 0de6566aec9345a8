"""
A night's queue, a run for each item: one that cannot be read does not hold up the others.

    for n in 1 2 3 4; do yaoki submit examples/queue/agent.py:digest --input "\"item-$n\"" --group night; done
    yaoki worker examples/queue/agent.py --until-idle
    yaoki dead                                  # what died, of what, and what to type about it
    yaoki redrive RUN --from start --input '"item-3-fixed"'

An item that kills its process is given up after `crashes_max` deaths; one that fails for good becomes a dead letter.
The group has one budget for all of them: yaoki group night --calls 500.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from yaoki import Effect, Retry, Run, TerminalError, loop, tool

OUT = Path(os.environ.get("QUEUE_OUT", "digests"))


@tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=3, base_s=0.05))
def read(item: str) -> str:
    if "torn" in item:
        raise TerminalError(f"{item} is no document")
    if "poison" in item:
        os.kill(os.getpid(), signal.SIGKILL)  # a parser that takes the whole process with it
    return f"the text of {item}"


@tool(effect=Effect.IDEMPOTENT)
def write(item: str, digest: str) -> None:
    OUT.mkdir(exist_ok=True)
    (OUT / f"{item}.txt").write_text(digest)


@loop(crashes_max=3)
def digest(run: Run, item: str) -> str:
    text = read(item)
    write(item, text.upper())
    return f"{len(text)} characters"
