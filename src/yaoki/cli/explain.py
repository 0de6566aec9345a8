"""`yaoki explain`: what an error is, what is done about it and which rule says so; or a tool's ladder, drawn."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._options import DebugOption, JsonOption, Session, StoreOption, session
from yaoki.cli._pasted import fields_of, header_fields

if TYPE_CHECKING:
    from yaoki.cli._batch import Answer

__all__ = ["explain"]

_STDIN = "-"
_SOON_S = 1.0
_INPUT_MAX = 4_000_000
"""Characters of a pasted text that are read."""


def explain(
    error: Annotated[
        str | None,
        typer.Argument(
            metavar="ERROR|FILE:TOOL",
            help="The error's text, a JSON body, a traceback, or a curl transcript; - or nothing reads stdin. "
            "Or a tool, as in agents.py:charge, or a loop, for each of its tools.",
            show_default=False,
        ),
    ] = None,
    *,
    status: Annotated[int | None, typer.Option("--status", metavar="N", help="The HTTP status.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="A header of the answer.")
    ] = None,
    class_: Annotated[
        str | None, typer.Option("--class", metavar="C", help="The exception's class: openai.RateLimitError.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="FILE", help="JSON lines, one error each; - reads stdin.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001 - read at the edge
) -> int:
    """
    Say how an error would be treated, and which rule says so; or draw a tool's ladder.

    FILE:TOOL imports the file, calls nothing, and shows the attempts and waits of one step at its worst, what
    follows a failure that may have acted, the rungs, and whether that fits the budget of each loop that uses it.

    With --batch: each line has exception_class, http_status, headers and body, any of them null; answers are JSON
    lines (id kind executed scope resend retry_after_s rule). Lines with labels (kind, accept, resend,
    retry_after_s) are scored, in a table on stderr.
    """
    here = session(store, as_json=as_json)
    if batch is not None:
        if error is not None or status is not None or header or class_ is not None:
            raise CommandError("usage", "--batch FILE takes its errors from the file alone")
        return _batch(here, batch)
    if error is not None and _TARGET.fullmatch(error) and status is None and not header and class_ is None:
        return _ladders(here, error)
    fields = fields_of(_given(error, has_more=status is not None or bool(header) or class_ is not None))
    headers = fields.get("headers")
    fields["headers"] = {**(headers if isinstance(headers, dict) else {}), **header_fields(header or [])}
    if status is not None:
        fields["http_status"] = status
    if class_ is not None:
        fields["exception_class"] = class_
    _one(here, fields)
    return Exit.DONE


_TARGET: Final = re.compile(r"[^\s:]+\.py(:[A-Za-z_]\w*)?")
"""A file, and a name in it."""


def _ladders(here: Session, target: str) -> int:
    """Draw the ladder of a tool, or of each tool of a loop."""
    from yaoki.cli._examining import examine
    from yaoki.cli._target import split_target
    from yaoki.cli._views_ladder import ladder_lines
    from yaoki.cli._views_text import line

    split_target(target)
    examined = examine(target, "explain")
    if examined.error:
        raise CommandError(examined.code, examined.error)
    if here.out.as_json:
        here.out.data({"file": examined.file, "ladders": examined.ladders})
        return Exit.DONE
    for i, ladder in enumerate(examined.ladders):
        here.out.lines([*([line("")] if i else []), *ladder_lines(ladder, here.commands.cwd)])
    return Exit.DONE


def _given(error: str | None, *, has_more: bool) -> str:
    """Return the text that was typed, or piped; beside options, nothing need be."""
    if error is not None and error != _STDIN:
        return error
    if error is None and has_more and not _is_piped():
        return ""
    if error is None and sys.stdin.isatty():
        raise CommandError("usage", "which error? yaoki explain 'TEXT', or pipe it: curl -i … | yaoki explain")
    return sys.stdin.buffer.read(_INPUT_MAX).decode("utf-8", "replace")


def _is_piped() -> bool:
    """Whether something comes on stdin, soon: a pipe nobody writes to may be inherited, and stay open for ever."""
    import select

    try:
        return not sys.stdin.isatty() and bool(select.select([sys.stdin], [], [], _SOON_S)[0])
    except (OSError, ValueError):  # no descriptor to wait on
        return False


def _one(here: Session, fields: dict[str, object]) -> None:
    from yaoki.classify import classify, is_control_flow, reported, resend, treatment
    from yaoki.cli._views_explain import control_lines, explained

    subject = reported(fields)
    failure = classify(subject, now_ms=here.clock.now_ms())
    if isinstance(subject, BaseException) and is_control_flow(subject):
        if here.out.as_json:
            here.out.data({"kind": "control", "reason": failure.reason, "resend": "no", "rule": "control"})
        else:
            here.out.lines(control_lines(type(subject).__name__))
        return
    again = resend(failure)
    if not here.out.as_json:
        here.out.lines(explained(failure, again, treatment(failure)))
        return
    word, _, rule = failure.evidence.partition(" ")
    here.out.data(
        {
            **{name: getattr(failure, name) for name in ("kind", "reason", "executed", "scope", "retry_after_s")},
            "resend": again,
            "treatment": treatment(failure),
            "rule": rule or word,
            "evidence": word,
            **{name: getattr(failure, name) for name in ("message", "hint", "fingerprint")},
        }
    )


def _batch(here: Session, name: str) -> int:
    from yaoki.cli._batch import Score, answer, read_rows
    from yaoki.cli._views_explain import score_lines

    try:
        text = sys.stdin.buffer.read() if name == _STDIN else Path(name).read_bytes()
    except OSError as error:
        raise CommandError("input.unreadable", f"--batch {name}: {error.strerror or error}") from error
    score, now_ms = Score(), here.clock.now_ms()
    for row in read_rows(text.decode("utf-8", "replace").split("\n"), name):
        said = answer(row, now_ms=now_ms)
        score.add(row, said)
        _write(said)
    here.out.progress(score_lines(score))
    return Exit.DONE


def _write(said: Answer) -> None:
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
