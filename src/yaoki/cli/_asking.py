"""`yaoki run --interactive`: the questions of the run, asked on the terminal it was started from, with a countdown."""

from __future__ import annotations

import os
import select
import shlex
import sys
from typing import TYPE_CHECKING, Any

from yaoki.cli._exits import CommandError
from yaoki.cli._store import known_run, open_store
from yaoki.cli._views_ask import ask_lines, evidence
from yaoki.cli._views_text import duration, line
from yaoki.cli._words import parse_words
from yaoki.cli.answer import given
from yaoki.errors import AnswerRefused
from yaoki.records import State
from yaoki.runtime._moves import open_asks

if TYPE_CHECKING:
    from yaoki.cli._options import Session
    from yaoki.runtime import Runner
    from yaoki.runtime._receipt import Ask, Receipt

__all__ = ["go_on", "refuse_without_terminal"]

_PATIENCE_MS = 600_000
"""How long the terminal waits for an answer; then the run is left waiting, as it is without anybody there."""
_REDRAW_S = 1.0
_LINE_MAX = 65_536


def refuse_without_terminal() -> None:
    """Refuse to ask where nobody can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError("usage", "--interactive asks on a terminal, and this is none; leave it out")


def go_on(run_id: str, here: Session) -> bool:
    """
    Ask what the run waits to be told; return whether it can go on now.

    It can once a question is answered, or when one that was asked in place of a wait is over. Left alone for ten
    minutes, or ended with Ctrl-D, it stays as it is.
    """
    with open_store(here.store) as verbs:
        while True:
            receipt = known_run(verbs, run_id, here)
            if receipt.status is not State.WAITING or receipt.waits_for != "person":
                return receipt.status in (State.PENDING, State.SLEEPING)
            asks = open_asks(receipt, here.clock.now_ms())
            if not asks:
                return True
            said = _said(verbs, receipt, asks[0], here)
            if said is None:
                return asks[0].retries and here.clock.now_ms() >= asks[0].expires_at
            if _taken(verbs, receipt, asks[0], said, here):
                return True


def _said(verbs: Runner, receipt: Receipt[Any], ask: Ask, here: Session) -> list[str] | None:
    """Show a question and return the words typed; None: nobody answered in time, or wants to."""
    known = evidence(verbs.journal(receipt.run_id), ask.step)
    lines = ask_lines(receipt.run_id, ask, known, here.now(), here.commands)
    here.out.progress([line(), *lines, line(("Type what stands behind the question's id, then Enter.", "dim"))])
    now_ms = here.clock.now_ms()
    until_ms = min(now_ms + _PATIENCE_MS, ask.expires_at or now_ms + _PATIENCE_MS)
    drawn = False
    while (left_ms := until_ms - here.clock.now_ms()) > 0:
        _draw(f"{ask.id} {duration(left_ms):>7} > ", again=drawn)
        drawn = True
        ready, _, _ = select.select([0], [], [], min(_REDRAW_S, left_ms / 1000))
        if not ready:
            continue
        drawn = False
        typed = os.read(0, _LINE_MAX)
        if not typed:
            break
        try:
            words = shlex.split(typed.decode(errors="replace"))
        except ValueError as error:
            here.out.note(f"{error}: quotes come in pairs")
            continue
        if words:
            return words
        here.out.note("nothing was typed; Ctrl-D leaves it to the one who types yaoki answer")
    sys.stderr.write("\n")
    return None


def _draw(prompt: str, *, again: bool) -> None:
    """Draw the prompt; again: at the line's start, and what is being typed behind it stays."""
    sys.stderr.write(f"\x1b7\r{prompt}\x1b8" if again else f"\r{prompt}")
    sys.stderr.flush()


def _taken(verbs: Runner, receipt: Receipt[Any], ask: Ask, words: list[str], here: Session) -> bool:
    """Give the answer; what is none is said in a line, and asked again."""
    if words[0] != ask.id:
        words = [ask.id, *words]
    try:
        _, _, typed = given(verbs, receipt, parse_words(words))
    except CommandError as error:
        here.out.note(error.message)
        return False
    except AnswerRefused as error:
        here.out.note(str(error))
        return False
    here.out.note(f"{ask.id} is answered: {typed.verdict}")
    return True
