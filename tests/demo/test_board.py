"""What a person sees: lines in a pipe, a table on a terminal."""

from __future__ import annotations

from io import StringIO

from yaoki.demo._board import PlainBoard, TerminalBoard, board_for
from yaoki.demo._plan import Kill
from yaoki.demo._shop import Event

KILL = Kill(ticket="ticket-03", tool="send_mail", number=3, when="after")
REFUND = Event(event="effect", ticket="ticket-03", tool="refund", args={"order_id": "A-1003", "cents": 1800})
FAULT = Event(event="request", ticket="ticket-03", endpoint="model", fault="529", answer="529")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def happen(board) -> None:
    with board:
        board.say("", "seed 7")
        board.vendor(Event(event="request", ticket="ticket-03", endpoint="orders", answer="200"))
        board.vendor(REFUND)
        board.vendor(FAULT)
        board.killed(KILL, 4711)
        board.ended("ticket-03", "completed")


def test_a_pipe_gets_one_plain_line_for_everything_that_matters():
    out = StringIO()
    board = board_for(out, lambda: 1.5)
    assert isinstance(board, PlainBoard)
    happen(board)
    assert out.getvalue().splitlines() == [
        "  1.5s  demo       seed 7",
        "  1.5s  ticket-03  refunded A-1003 $18.00",
        "  1.5s  ticket-03  model: 529 overloaded",
        "  1.5s  ticket-03  SIGKILL to worker 4711: send_mail done, not yet on record",
        "  1.5s  ticket-03  completed",
    ]


def test_a_terminal_gets_a_table_with_a_row_for_each_ticket_and_the_counts(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "110")
    out = Terminal()
    board = board_for(out, lambda: 1.5)
    assert isinstance(board, TerminalBoard)
    happen(board)
    text = out.getvalue()
    assert "seed 7" in text
    assert "Cancel both of my orders" in text
    assert "ticket-12" in text
    assert "1 of 12 tickets done · 1 faults met · 1 workers killed with SIGKILL" in text


def test_an_equal_effect_that_the_ticket_asks_for_twice_says_that_it_is_meant():
    out = StringIO()
    args = {"order_id": "A-1008", "cents": 750}
    with board_for(out, lambda: 1.5) as board:
        for number in (1, 2):
            board.vendor(Event(event="effect", ticket="ticket-07", tool="refund", number=number, args=args))
    assert out.getvalue().splitlines() == [
        "  1.5s  ticket-07  refunded A-1008 $7.50 (1 of 2: the ticket asks for 2 equal refunds)",
        "  1.5s  ticket-07  refunded A-1008 $7.50 (2 of 2: the ticket asks for 2 equal refunds)",
    ]
