"""The doctor's answers as lines. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.classify import redact
from yaoki.cli._probe import Answer
from yaoki.cli._views_text import Line, columns, line, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.cli._findings import Examined
    from yaoki.cli._views_text import Commands, Now, Role, Span
    from yaoki.journal import Target

__all__ = ["about_examined", "about_left", "about_targets", "doctor_lines", "not_told"]

_ROLES: dict[str, Role] = {"ok": "good", "note": "dim", "warn": "ask", "FAIL": "bad"}
_SLOWED = 0.5
_NAMED = 3
_DAY_MS = 86_400_000


def doctor_lines(answers: Sequence[Answer]) -> list[Line]:
    """Return one line an answer, what to do about it below, and a last line that sums up."""
    table: list[list[Span]] = [[(a.level, _ROLES[a.level]), (a.about, "head"), (a.text, "")] for a in answers]
    lines: list[Line] = []
    for answer, row in zip(answers, columns(table), strict=True):
        lines.append(row)
        if answer.then:
            lines.append(line("      -> ", (answer.then, "command")))
    worst = [answer for answer in answers if answer.level in ("warn", "FAIL")]
    if not worst:
        return [*lines, line(("All is well.", "good"))]
    return [*lines, line((f"{plural(len(worst), 'thing')} to look at.", "ask"))]


def about_left(left: Sequence[tuple[str, str, str]], commands: Commands, *, more: bool) -> Answer:
    """Return what to say of runs whose process died: (id, loop, file) of each."""
    if not left:
        return Answer(level="ok", about="left", text="no run was left by a process that died")
    names = ", ".join(name for name, _, _ in left[:_NAMED]) + (", …" if len(left) > _NAMED else "")
    count = f"{len(left):,} or more runs" if more else plural(len(left), "run")
    files = sorted({commands.dress(file) for _, _, file in left if file})
    serve = commands.verb("worker", *files) if files else commands.verb("runs")
    text = f"{count} left by a process that died, taken up by nobody: {names}"
    return Answer(level="warn", about="left", text=text, then=serve)


def about_targets(targets: Sequence[Target], now: Now) -> list[Answer]:
    """Return how telling people goes, one answer for each address."""
    return [_about_target(one, now) for one in targets]


def _about_target(target: Target, now: Now) -> Answer:
    wrong = not_told(target, now)
    if wrong:
        return Answer(level="warn", about="notify", text=wrong, then="does that address still take messages?")
    return Answer(level="ok", about="notify", text=f"{target.shown} is told of what needs somebody")


def not_told(target: Target, now: Now) -> str:
    """Return what is wrong with telling an address, or nothing; what was lost is said for a day."""
    lost = target.lost if target.lost and now.now_ms - target.lost_ms < _DAY_MS else 0
    gone = f"{plural(lost, 'notice')} lost, the last {now.time(target.lost_ms)}" if lost else ""
    if target.failing_ms:
        said = f"{target.shown} cannot be told since {now.time(target.failing_ms)}: {redact(target.error)}"
        return f"{said}; {gone}" if gone else said
    return f"{target.shown}: {gone}" if gone else ""


def about_examined(examined: Examined, file: str) -> list[Answer]:
    """Return what importing a file shows: whether something in it slows every step down."""
    if examined.error:
        return [Answer(level="FAIL", about=file, text=examined.error)]
    answers: list[Answer] = []
    threads = f"; it left {plural(len(examined.threads), 'thread')} running: {', '.join(examined.threads)}"
    beside = threads if examined.threads else ""
    rates = f"{examined.rate_beside:,.0f} empty steps a second once it is imported, {examined.rate:,.0f} before{beside}"
    if examined.rate_beside < _SLOWED * examined.rate:
        then = "a thread that computes holds the interpreter's lock: give it a process of its own"
        answers.append(Answer(level="warn", about=file, text=rates, then=then))
    elif examined.threads:
        answers.append(Answer(level="note", about=file, text=rates))
    else:
        answers.append(Answer(level="ok", about=file, text=rates))
    return answers
