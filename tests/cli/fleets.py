"""Workers as a person starts them: loops written as fleet.py, runs submitted, what their journals show."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.command import Place, alive, until
from yaoki import Runner
from yaoki.records import Claimed

if TYPE_CHECKING:
    from yaoki import Receipt
    from yaoki.journal import WorkerRow

__all__ = ["UNSHARE", "Yard", "unshares"]

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Before a command: it has process numbers of its own, as in a container, and is number 1."""
FLEET = Path(__file__).with_name("fleet.txt").read_text(encoding="utf-8")


def unshares() -> bool:
    """Whether this machine lets us have process numbers of our own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


class Yard(Place):
    """A place with fleet.py, whose store is read directly."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.write("fleet.py", FLEET)
        self.url = f"sqlite:///{folder / 'yaoki.db'}"

    def submit(self, loop: str, run_id: str, **given: Any) -> None:
        """Submit a run, as another program would: its row, not its code."""
        import msgspec

        with Runner(self.url, submits_only=True) as runner:
            runner.store.create(run_id, loop=loop, input=msgspec.json.encode(given), file="fleet.py")

    def get(self, run_id: str) -> Receipt[Any]:
        with Runner.verbs(self.url) as verbs:
            return verbs.get(run_id)

    def claims(self, run_id: str) -> list[Claimed]:
        with Runner.verbs(self.url) as verbs:
            return [record for _, _, record in verbs.journal(run_id) if isinstance(record, Claimed)]

    def workers(self) -> list[WorkerRow]:
        """Return the living workers that drive something."""
        with Runner.verbs(self.url) as verbs:
            return [worker for worker in verbs.store.workers() if worker.alive and worker.runs]

    def number_of(self, name: str) -> int:
        """Return a pid that a tool has written."""
        return int(until(lambda: (self.folder / name).exists() and (self.folder / name).read_text(), name))

    def close(self) -> None:
        super().close()
        left = self.folder / "left.pid"
        if left.exists() and alive(int(left.read_text())):
            os.kill(int(left.read_text()), signal.SIGKILL)
