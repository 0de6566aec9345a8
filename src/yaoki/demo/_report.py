"""The audit for people: lines of text, with a style for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from yaoki.demo._audit import Audit

__all__ = ["audit_lines", "write_lines"]

_NAMES = {"refund": "refunds", "send_mail": "mails", "append_ledger": "ledger lines"}
_KINDS = {"refund": "KEYED", "send_mail": "CHECKED", "append_ledger": "AT_MOST_ONCE"}
_SLIPS = {
    "output.rejected": "answers in malformed JSON",
    "tool.unknown": "unknown tool",
    "tool.arguments": "call with wrong arguments",
}


def audit_lines(audit: Audit) -> list[tuple[str, str]]:
    """Return (text, style) of each line; styles are rich's."""
    lines = [
        ("", ""),
        ("AUDIT  the vendor's own log and the ledger file, against the tickets and the journal", "bold"),
        (f"  {'':14}{'':13} wanted   done  in journal   duplicated   lost", "dim"),
    ]
    for tool, tally in audit.effects.items():
        bad = tally.duplicated or tally.lost or tally.unwanted
        text = f"  {_NAMES[tool]:14}{_KINDS[tool]:13} {tally.wanted:6} {tally.done:6} {tally.journaled:11} "
        text += f"{tally.duplicated:12} {tally.lost:6}" + (f"   {tally.unwanted} unwanted" if tally.unwanted else "")
        lines.append((text, "bold red" if bad else "green"))
    lines.append(("", ""))
    lines += [(f"  {name:9} {text}", "") for name, text in _facts(audit)]
    for asked in audit.asked:
        lines.append((f"            {asked.run} {asked.ask}: did {asked.call} happen?", ""))
        lines.append((f"              {asked.looked} → {asked.verdict}", "magenta"))
    lines.append(("", ""))
    lines += [(f"  PROBLEM   {problem}", "bold red") for problem in audit.problems]
    times = ", ".join(f"{name} {value:g}" for name, value in audit.times.items())
    if audit.ok:
        verdict = f"Nothing done twice, nothing lost, every run ended: {audit.took_s:.1f} s, seed {audit.seed}."
        lines.append((verdict, "bold green"))
    else:
        lines.append((f"NOT as promised ({len(audit.problems)} problems): seed {audit.seed}.", "bold red"))
    lines += [(f"With the demo's own short times: {times}.", "dim")] if times else []
    lines.append((f"The same faults and kills again: yaoki demo --seed {audit.seed}", "dim"))
    return lines


def _facts(audit: Audit) -> list[tuple[str, str]]:
    struck, planned = len(audit.kills), len(audit.plan.kills)
    slips = {text: audit.failures.get(reason, 0) for reason, text in _SLIPS.items()}
    return [
        ("runs", _counts(audit.runs)),
        ("kills", f"{struck} of {planned} by SIGKILL, {audit.kills_between} between an effect and its record"),
        ("steps", f"{audit.steps} completed"),
        ("reused", f"{audit.steps_reused} steps, when {audit.restarts} times another process took a run over"),
        ("retries", f"{sum(audit.retries.values())}: {_counts(audit.retries)}"),
        ("vendor", f"{audit.requests} requests, {sum(audit.faults.values())} of them misanswered on purpose:"),
        ("", _counts(audit.faults)),
        ("model", _counts(slips)),
        ("keys", f"{audit.keys_deduplicated} refunds were sent again; the vendor knew the key of each"),
        ("a person", f"was asked {_times(len(audit.asked))}, and looked into the ledger:"),
    ]


def write_lines(lines: list[tuple[str, str]], out: TextIO) -> None:
    """Write them: in colour on a terminal, plain in a pipe."""
    if not out.isatty():
        out.writelines(text + "\n" for text, _ in lines)
        out.flush()
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=True)
    for text, style in lines:
        console.print(Text(text, style=style))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _times(n: int) -> str:
    return {0: "nothing", 1: "once", 2: "twice"}.get(n, f"{n} times")
