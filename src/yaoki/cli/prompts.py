"""`yaoki prompts`: the rules in plain words, to paste into an assistant."""

from __future__ import annotations

import sys

from yaoki.cli._exits import Exit
from yaoki.cli._options import DebugOption, JsonOption, StoreOption  # noqa: TC001 - typer reads them
from yaoki.cli._out import Out

__all__ = ["RULES", "prompts"]

RULES = """\
When something fails
1. Say first what failed: the request was not carried out, it may have been carried out, or it was.
   - "It may have been" is the rule when there was no answer: a timeout, a lost connection, a crash, a 502.
   - "It was not" only when somebody said so: a refusal, a 429, a 4xx, a connection that was never made.
2. Never repeat something that acts on the world (a payment, a mail, a delete, a deploy) while it may have been
   carried out. Look in the system it acts on. If you cannot look, stop and ask me.
3. Repeat what only reads, at most 3 times, waiting longer each time; if you are told how long to wait, wait that long.
4. Do not repeat what cannot succeed as it is: wrong arguments, missing permission, a used-up quota, too much text.
   Change the request, or tell me what is missing.

When you work in steps
5. Do not make the same call with the same arguments a third time if it gave the same result twice. Try another way.
6. Keep a short list of what failed and why. Do not try again what is on it, until something has changed.
7. Before you start an action, write down what you are about to do; after it, what came of it. If you are interrupted,
   go on from that list, and treat an action without an outcome as one that may have been carried out.
8. Keep to a limit: at most 30 steps, or the time or money I gave you. When it is used up, stop, and give me what you
   have.

When you think you are done
9. You do not decide that. Run the check I named (the tests, the command, the comparison) and show me its output.
   If it does not pass, go on; if it fails three times, stop and show me.
10. If a part is missing, say which, plainly, in your answer. Do not fill it with a guess.
"""


def prompts(
    *,
    store: StoreOption = None,  # noqa: ARG001 - every verb takes it
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Print the rules Yaoki follows, in plain words, for an assistant that has no runtime under it."""
    if as_json:
        Out(as_json=True).data({"rules": RULES})
    else:
        sys.stdout.write(RULES)
    return Exit.DONE
