"""What a person sees while it runs: a table that moves on a terminal, plain lines in a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from yaoki.demo._cases import CASES, case_of_ticket, effects_of, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from rich.console import RenderableType
    from rich.live import Live

    from yaoki.demo._plan import Kill
    from yaoki.demo._shop import Event

__all__ = ["Board", "PlainBoard", "TerminalBoard", "board_for"]

Mood: TypeAlias = Literal["", "fault", "kill", "ask", "good", "bad"]

_STYLES: dict[Mood, str] = {
    "": "",
    "fault": "yellow",
    "kill": "bold red",
    "ask": "bold magenta",
    "good": "green",
    "bad": "bold red",
}
_FAULTS = {
    "429-seconds": "429, retry-after in seconds",
    "429-date": "429, retry-after as a date",
    "529": "529 overloaded",
    "503-refused": "503 with retry-after",
    "502": "502",
    "502-after": "502, after doing it",
    "reset": "connection reset",
    "reset-after": "connection reset, after doing it",
    "late": "no answer in time",
    "truncated": "half an answer",
}
_DOES = frozenset({"refunds", "mails"})
"""Endpoints that do something, so that it matters whether a fault strikes before or after."""


class Board(Protocol):
    """Who is told what happens. Called from several threads."""

    def say(self, ticket: str, text: str, mood: Mood = "") -> None:
        """Show what happened to a ticket, or to the demo (`""`)."""
        ...

    def vendor(self, event: Event) -> None:
        """Show what the vendor wrote into its log."""
        ...

    def killed(self, kill: Kill, pid: int) -> None:
        """Show that a worker was killed."""
        ...

    def ended(self, ticket: str, status: str) -> None:
        """Show that a run ended, or waits."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *args: object) -> None: ...


def board_for(stream: TextIO, elapsed_s: Callable[[], float]) -> Board:
    """Return the board for a stream: moving if it is a terminal."""
    return TerminalBoard(stream, elapsed_s) if stream.isatty() else PlainBoard(stream, elapsed_s)


class PlainBoard:
    """One line for everything that happens."""

    def __init__(self, stream: TextIO, elapsed_s: Callable[[], float]) -> None:
        self._stream = stream
        self._elapsed_s = elapsed_s
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def say(self, ticket: str, text: str, mood: Mood = "") -> None:
        """Write a line."""
        del mood
        with self._lock:
            for line in text.splitlines():
                self._stream.write(f"{self._elapsed_s():5.1f}s  {ticket or 'demo':9}  {line}\n")
            self._stream.flush()

    def vendor(self, event: Event) -> None:
        """Write effects and faults; what goes well is not worth a line."""
        text, mood = _of_vendor(event)
        if text:
            self.say(event.ticket, text, mood)

    def killed(self, kill: Kill, pid: int) -> None:
        """Write who was killed, and where."""
        self.say(kill.ticket, _of_kill(kill, pid), "kill")

    def ended(self, ticket: str, status: str) -> None:
        """Write how the run stands."""
        self.say(ticket, status, "good" if status == "completed" else "ask")


@dataclass(slots=True)
class _Row:
    subject: str
    wanted: int
    status: str = ""
    done: int = 0
    faults: int = 0
    kills: int = 0
    last: str = ""
    mood: Mood = ""


class TerminalBoard:
    """A table with a row for each ticket, redrawn as things happen; the last happenings below it."""

    _TAIL = 6

    def __init__(self, stream: TextIO, elapsed_s: Callable[[], float]) -> None:
        self._elapsed_s = elapsed_s
        self._rows = {case.ticket: _Row(subject=case.subject, wanted=len(effects_of(case))) for case in CASES}
        self._tail: list[tuple[float, str, str, Mood]] = []
        self._lock = Lock()
        self._live = _live(stream, self._render)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *args: object) -> None:
        with self._lock:
            self._tail.clear()
        self._live.stop()

    def say(self, ticket: str, text: str, mood: Mood = "") -> None:
        """Show it in the ticket's row, and below; what is about the demo stays above the table."""
        if not ticket:
            self._live.console.print(text, style=_STYLES[mood] or "bold", highlight=False)
            return
        with self._lock:
            if row := self._rows.get(ticket):
                row.last, row.mood = text, mood
            self._tail.append((self._elapsed_s(), ticket, text, mood))
            del self._tail[: -self._TAIL]

    def vendor(self, event: Event) -> None:
        """Count what the vendor did."""
        row = self._rows.get(event.ticket)
        if row and event.event == "effect":
            row.done += 1
        if row and event.fault:
            row.faults += 1
        text, mood = _of_vendor(event)
        if text:
            self.say(event.ticket, text, mood)

    def killed(self, kill: Kill, pid: int) -> None:
        """Count a kill."""
        self._rows[kill.ticket].kills += 1
        self.say(kill.ticket, _of_kill(kill, pid), "kill")

    def ended(self, ticket: str, status: str) -> None:
        """Mark how the run stands."""
        row = self._rows[ticket]
        row.status = status
        if status == "completed":
            row.done = row.wanted
        self.say(ticket, status, "good" if status == "completed" else "ask")

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        for title, width in (("ticket", 9), ("", 30), ("effects", 7), ("faults", 6), ("killed", 6), ("", None)):
            table.add_column(title, width=width, no_wrap=True, overflow="ellipsis", ratio=None if width else 1)
        with self._lock:
            for ticket, row in self._rows.items():
                effects = Text("●" * min(row.done, row.wanted) + "○" * max(row.wanted - row.done, 0))
                effects.stylize("green" if row.done >= row.wanted else "")
                kills = Text("✗" * row.kills, style="bold red")
                faults = Text(str(row.faults or ""), style="yellow")
                table.add_row(ticket, row.subject, effects, faults, kills, Text(row.last, style=_STYLES[row.mood]))
            tail = [
                Text.assemble(
                    (f"{at:5.1f}s  ", "dim"), f"{ticket:9}  ", (text, _STYLES[mood]), no_wrap=True, overflow="ellipsis"
                )
                for at, ticket, text, mood in self._tail
            ]
            killed, faults_met = (sum(getattr(row, f) for row in self._rows.values()) for f in ("kills", "faults"))
            ended = sum(row.status == "completed" for row in self._rows.values())
        summary = f"{self._elapsed_s():5.1f}s  {ended} of {len(self._rows)} tickets done"
        summary += f" · {faults_met} faults met · {killed} workers killed with SIGKILL"
        return Group(table, Text(""), *tail, Text(summary, style="bold"))


def _live(stream: TextIO, render: Callable[[], RenderableType]) -> Live:
    from rich.console import Console
    from rich.live import Live

    return Live(get_renderable=render, console=Console(file=stream), refresh_per_second=8, transient=False)


def _of_vendor(event: Event) -> tuple[str, Mood]:
    if event.event == "effect":
        return _of_effect(event), ""
    if event.event == "replayed":
        return "refunds: this key is known; nothing is refunded twice", "good"
    if event.fault:
        when = ", after doing it" if event.fault in {"late", "truncated"} and event.endpoint in _DOES else ""
        return f"{event.endpoint}: {_FAULTS[event.fault]}{when}", "fault"
    return "", ""


def _of_effect(event: Event) -> str:
    cents = event.args.get("cents")
    if isinstance(cents, int):
        return f"refunded {event.args.get('order_id')} ${cents / 100:.2f}{_which(event)}"
    return f"mailed {event.args.get('to')}"


def _which(event: Event) -> str:
    """Say which of several equal effects it is, where the ticket asks for several: two glasses are two refunds."""
    wanted = effects_of(case_of_ticket(event.ticket))
    wire = same(event.tool, event.args)
    due = [same(call.tool, call.args) for call in wanted].count(wire)
    if due < 2:  # noqa: PLR2004 - one effect needs no number
        return ""
    so_far = [same(call.tool, call.args) for call in wanted[: event.number]].count(wire)
    return f" ({so_far} of {due}: the ticket asks for {due} equal refunds)"


def _of_kill(kill: Kill, pid: int) -> str:
    if kill.tool == "ask_model":
        return f"SIGKILL to worker {pid}: the model was thinking"
    where = "done, not yet on record" if kill.when == "after" else "on record as begun, not done"
    return f"SIGKILL to worker {pid}: {kill.tool} {where}"
