"""Where the command speaks: results on stdout, everything else on stderr; plain in a pipe, rich on a terminal."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from yaoki.cli._exits import CommandError, Exit
from yaoki.cli._views_text import clean, plain, wrapped

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rich.text import Text

    from yaoki.cli._views_text import Line, Role

__all__ = ["Out", "styled"]

_STYLES: dict[Role, str] = {
    "head": "bold",
    "good": "green",
    "bad": "bold red",
    "ask": "bold yellow",
    "dim": "dim",
    "command": "cyan",
    "add": "green",
    "remove": "red",
}


class Out:
    """The command's two streams. `as_json` keeps stdout to one JSON document."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.unread = False
        """Whether the reader of stdout has gone away: nothing written there reaches anybody."""

    @property
    def cells(self) -> int:
        """The terminal's width; 0 where stdout is none, and nothing is to be cut."""
        if not sys.stdout.isatty():
            return 0
        import shutil

        return shutil.get_terminal_size().columns

    @property
    def watched(self) -> bool:
        """Whether somebody sees stderr, so that progress is worth writing."""
        return sys.stderr.isatty()

    def lines(self, lines: Sequence[Line]) -> None:
        """Write a view to stdout; a reader that has gone away wants no more, and that is no error."""
        with self._read_or_not():
            _write(sys.stdout, lines)

    def data(self, value: object) -> None:
        """Write one JSON document to stdout, indented where a person sees it."""
        import msgspec

        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        with self._read_or_not():
            sys.stdout.write(msgspec.json.format(body, indent=2 if sys.stdout.isatty() else 0).decode() + "\n")
            sys.stdout.flush()

    def item(self, value: object) -> None:
        """Write one JSON document on one line of stdout: for streams of them."""
        import msgspec

        with self._read_or_not():
            sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
            sys.stdout.flush()

    @contextmanager
    def _read_or_not(self) -> Generator[None, None, None]:
        """
        Let a reader that has gone away be no error.

        Raises:
            CommandError: What was to be said cannot be written, on a full disk for example.
        """
        try:
            yield
        except BrokenPipeError:
            self.unread = True
            _hush(1)
        except OSError as error:
            self.unread = True
            _hush(1)
            raise CommandError("output", f"cannot write to stdout: {error.strerror}", Exit.FAILED) from error

    def progress(self, lines: Sequence[Line]) -> None:
        """Write a view to stderr; a run does not depend on somebody reading it."""
        try:
            _write(sys.stderr, lines)
        except OSError:
            _hush(2)

    def note(self, text: str) -> None:
        """Write one line to stderr, if it can be written: nothing depends on it."""
        try:
            sys.stderr.write(f"yaoki: {clean(text)}\n")
            sys.stderr.flush()
        except OSError:
            _hush(2)

    def error(self, code: str, message: str) -> None:
        """Write the one line of an error to stderr, and as JSON to stdout where JSON was asked for."""
        self.note(message)
        if self.as_json and not self.unread:
            with suppress(CommandError):  # said on stderr
                self.data({"error": {"code": code, "message": message}})


def _write(stream: TextIO, lines: Sequence[Line]) -> None:
    if not stream.isatty():
        stream.write("".join(plain(line) + "\n" for line in lines))
        stream.flush()
        return
    from rich.console import Console

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for text in styled(lines, console.width):
        console.print(text)


def styled(lines: Sequence[Line], cells_max: int) -> list[Text]:
    """Return a view as a terminal of that width shows it."""
    from rich.text import Text

    fitting = (part for line in lines for part in wrapped(line, cells_max))
    return [Text.assemble(*[(clean(text), _STYLES[role] if role else "") for text, role in line]) for line in fitting]


def _hush(fd: int) -> None:
    """Let what is still written to a stream whose reader has gone away go nowhere; no error at exit either."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, fd)
    os.close(devnull)
