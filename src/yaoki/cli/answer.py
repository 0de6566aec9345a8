"""`yaoki answer`: the first answer to a question wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yaoki.cli._exits import Exit
from yaoki.cli._options import DebugOption, JsonOption, RunArgument, StoreOption, session
from yaoki.cli._store import known_run, open_store
from yaoki.cli._views_text import line
from yaoki.cli._who import who
from yaoki.cli._words import ABSENT, meant, open_ask, parse_words, value_of
from yaoki.runtime._moves import skipped

if TYPE_CHECKING:
    from yaoki.cli._words import Words
    from yaoki.runtime import Runner
    from yaoki.runtime._receipt import Ask, Receipt

__all__ = ["answer", "given"]


def answer(
    run: RunArgument,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="ANSWER",
            help="VALUE, happened VALUE, not-happened, skip, abort, approve, refuse TEXT, or send, as `yaoki show RUN` "
            "says; the question's id before it where several are open. Values are JSON; text needs no quotes where "
            "text is asked for.",
            show_default=False,
        ),
    ],
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """Answer a question of a run. Refused, with the open questions listed, when it is not clear which one."""
    here = session(store, as_json=as_json)
    typed = parse_words(words)
    with open_store(here.store) as verbs:
        receipt, ask, typed = given(verbs, known_run(verbs, run, here), typed)
        which = ask.id if ask else typed.ask
    if as_json:
        here.out.data(receipt.to_json())
        return Exit.DONE
    here.out.lines([line((run, "head"), f": {which or 'the question'} is answered: {typed.verdict}.")])
    if typed.verdict == "skip" and ask is not None and (warning := skipped(ask)).startswith("the loop"):
        here.out.lines([line((f"Then {warning}. The first answer stands; if need be, change the loop.", "ask"))])
    if receipt.status.final:
        here.out.lines([line(f"The run has ended ({receipt.status.value}): this is recorded, and nothing is sent.")])
    elif receipt.next_action:
        here.out.lines([line("Next   ", (here.commands.dress(receipt.next_action), "command"))])
    return Exit.DONE


def given(verbs: Runner, before: Receipt[Any], typed: Words) -> tuple[Receipt[Any], Ask | None, Words]:
    """Give an answer as it was typed; return the run after it, the question it was about, and what was meant."""
    run = before.run_id
    ask = open_ask(before, typed.ask)
    typed = meant(typed, ask)
    value = value_of(typed, ask, run)
    which = ask.id if ask else typed.ask
    if value is ABSENT:
        return verbs.answer(run, which, typed.verdict, by=who()), ask, typed
    return verbs.answer(run, which, typed.verdict, value, by=who()), ask, typed
