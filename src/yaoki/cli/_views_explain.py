"""What `yaoki explain` shows: one failure in full, or how many answers agree with their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaoki.cli._views_text import Line, columns, duration, line

if TYPE_CHECKING:
    from yaoki.classify import Failure
    from yaoki.cli._batch import Score
    from yaoki.cli._views_text import Role, Span

__all__ = ["control_lines", "explained", "score_lines"]

_EXECUTED = {
    "no": "nothing was done; it may be sent again whatever the tool's effect",
    "maybe": "it may have been done",
    "yes": "it was done",
}
_SCOPE = {
    "request": "this request alone",
    "model": "this model; another may do",
    "key": "this key or account",
    "vendor": "the vendor, or the way to it",
    "process": "this machine or process; not the vendor",
}
_RESEND = {
    "yes": "the same request can succeed",
    "if_idempotent": "the same request can succeed, if repeating it does no harm",
    "after_action": "only after something else has changed",
    "no": "the same request fails again",
}
_HEALING = ("transient", "rate_limited", "overloaded")


def explained(failure: Failure, resend: str, treatment: str) -> list[Line]:
    """Return the failure's lines: what it is, and which rule said so."""
    role: Role = "ask" if failure.kind.value in _HEALING else "bad"
    word, _, rule = failure.evidence.partition(" ")
    wait = "-" if failure.retry_after_s is None else duration(round(failure.retry_after_s * 1000))
    rows: list[list[Span]] = [
        [("kind", "dim"), (failure.kind.value, role), (failure.reason, "")],
        [("executed", "dim"), (failure.executed.value, ""), (_EXECUTED[failure.executed.value], "")],
        [("scope", "dim"), (failure.scope.value, ""), (_SCOPE[failure.scope.value], "")],
        [("wait", "dim"), (wait, ""), ("as the server says" if wait != "-" else "the server says nothing", "")],
        [("resend", "dim"), (resend, ""), (_RESEND[resend], "")],
        [("rule", "dim"), (rule or word, ""), (f"by {word.replace('.', ' ')}" if rule else "", "")],
    ]
    lines = columns(rows)
    lines.append(line(("yaoki", "dim"), f"     {treatment}"))
    if failure.hint:
        lines.append(line(("hint", "dim"), f"      {failure.hint}"))
    if failure.message:
        lines.append(line(("message", "dim"), f"   {failure.message}"))
    return lines


def control_lines(name: str) -> list[Line]:
    """Return the lines of an error that is control flow."""
    return [line(("control flow", "ask"), f": {name} is no failure; it passes through, and counts for no breaker")]


def score_lines(score: Score) -> list[Line]:
    """Return the confusion table of kinds, and the scores of resend and wait; empty without labels."""
    order = score.kind_order()
    lines: list[Line] = []
    if order:
        head: list[Span] = [("label \\ answer", "dim"), *((kind, "dim") for kind in order), ("right", "dim")]
        rows = [head]
        for label in order:
            total = sum(count for (wanted, _), count in score.kinds.items() if wanted == label)
            if not total:
                continue
            cells: list[Span] = [(label, "dim")]
            for kind in order:
                count = score.kinds[label, kind]
                cells.append((str(count) if count else "·", ("good" if kind == label else "bad") if count else "dim"))
            rows.append([*cells, (f"{score.kinds[label, label]}/{total}", "")])
        lines += columns(rows)
        right = sum(count for (wanted, said), count in score.kinds.items() if wanted == said)
        lines.append(line(f"kind    {_share(right, score.kinds.total())}"))
    if score.resends:
        right = score.resends[True, True] + score.resends[False, False]
        wrong, missed = score.resends[False, True], score.resends[True, False]
        text = (
            f"resend  {_share(right, score.resends.total())}, sent again in vain {wrong}, given up too early {missed}"
        )
        lines.append(line(text))
        lines += [line(("        in vain: ", "bad"), name) for name in score.wrong]
    if score.waits:
        lines.append(line(f"wait    {_share(score.waits[True], score.waits.total())} exact"))
    return lines


def _share(right: int, total: int) -> str:
    return f"{right} of {total} ({right / total:.1%})"
