"""What the journal's tests share: a clock that stands still, a store, records, and other processes."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import apsw

from yaoki.journal import Journal
from yaoki.records import Begin, Gap, Record, Settle

START_MS = 1_700_000_000_000


class StillClock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def sleep(self, delay_s: float) -> None:
        self.ms += int(delay_s * 1000)

    def rng(self) -> random.Random:
        return random.Random(1)

    def new_id(self) -> str:
        return "0" * 32


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def open_at(path: Path, **options) -> Journal:
    return Journal.open(url_of(path), clock=options.pop("clock", None) or StillClock(), **options)


def begun(journal: Journal, name: str = "run-1") -> tuple[int, int]:
    """Create a run and claim it; return (id, epoch)."""
    row = journal.create(name, loop="agents.py:loop", input=b"{}")
    return row.id, journal.claim(row.id).row.epoch


def note(text: str = "x") -> tuple[str, Record]:
    return "", Gap(at=START_MS, text=text)


def step(i: int, value: bytes = b'"ok"') -> list[tuple[str, Record]]:
    key = f"1.0//charge#{i}"
    return [(key, Begin(at=START_MS, key="k" * 32, action="a" * 32)), (key, Settle(at=START_MS, value=raw(value)))]


def raw(value: bytes):
    import msgspec

    return msgspec.Raw(value)


def texts(journal: Journal, run: int) -> list[str]:
    """Return the notes of a run, in order."""
    return [entry.record.text for entry in journal.load(run) if isinstance(entry.record, Gap)]


def photo(directory: Path) -> dict[str, str]:
    """Return every file below a directory with the hash of its bytes."""
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


def edit(path: Path, *statements: str) -> None:
    """Change a store that nobody holds, behind the journal's back."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


PREAMBLE = """
import os, sys, time
from pathlib import Path
from tests.journal.store import *
from yaoki.errors import *
from yaoki.records import *
path = Path(sys.argv[1])
"""


def start(script: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python process with the preamble above, its pipes open."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])}
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + script, str(path), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
        text=True,
    )


def wait_said(process: subprocess.Popen[str], word: str) -> None:
    """Return once the process has printed `word` on a line."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line == word, f"{line!r} instead of {word!r}"


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL it and reap it."""
    process.kill()
    process.communicate()
