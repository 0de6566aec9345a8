"""Where a demo works: its folder, the example's files, and the environment its processes are given."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHECK_AFTER_S", "RETRY_BASE_S", "TIMEOUT_S", "TIMES", "Place", "example_folder"]

TIMEOUT_S = 1.0
RETRY_BASE_S = 0.05
CHECK_AFTER_S = 0.3
TIMES = {"timeout_s": TIMEOUT_S, "retry_base_s": RETRY_BASE_S, "check_after_s": CHECK_AFTER_S}
"""The demo's own short times, given to the example by its environment."""


def example_folder() -> Path:
    """
    Return the folder of the refunds example: beside the source tree, else as packed into the wheel.

    Raises:
        FileNotFoundError: It is in neither place; the installation is not whole.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parents[2] / "examples" / "refunds", here / "refunds"):
        if (folder / "agent.py").is_file():
            return folder
    raise FileNotFoundError(f"the example is missing: no agent.py in {here / 'refunds'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A demo's folder and store."""

    folder: Path
    store: str
    """URL."""
    example: Path

    @property
    def plan(self) -> Path:
        """The plan, as the vendor reads it."""
        return self.folder / "plan.json"

    @property
    def vendor_log(self) -> Path:
        """The vendor's own log."""
        return self.folder / "vendor.log"

    @property
    def ledger(self) -> Path:
        """The ledger the agents append to."""
        return self.folder / "ledger.txt"

    def agent_log(self, ticket: str) -> Path:
        """Return where a ticket's agent says what it booked: a named pipe where the demo wants to hold it there."""
        return self.folder / f"{ticket}.log"

    def output(self, ticket: str) -> Path:
        """Return the file with what a ticket's commands wrote to stdout and stderr."""
        return self.folder / f"{ticket}.out"

    def ticket_text(self, ticket: str) -> str:
        """Return a ticket's text."""
        return (self.example / "tickets" / f"{ticket}.txt").read_text(encoding="utf-8")

    def ledger_lines(self) -> list[str]:
        """Return the ledger's lines; none if there is no ledger yet."""
        try:
            return self.ledger.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def environment(self, ticket: str, vendor_url: str) -> dict[str, str]:
        """Return the environment of a ticket's processes: this one's, and what the example reads."""
        # They start in the demo's folder, so what is relative here must not be there.
        path = [str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        return {
            **os.environ,
            "ANTHROPIC_BASE_URL": vendor_url,
            "ANTHROPIC_API_KEY": "demo",
            "SHOP_URL": vendor_url,
            "REFUNDS_LEDGER": str(self.ledger),
            "REFUNDS_LOG": str(self.agent_log(ticket)),
            "REFUNDS_TIMEOUT_S": str(TIMEOUT_S),
            "REFUNDS_RETRY_BASE_S": str(RETRY_BASE_S),
            "REFUNDS_CHECK_AFTER_S": str(CHECK_AFTER_S),
            # A proxy would answer for 127.0.0.1 in its own words.
            "no_proxy": "127.0.0.1",
            "NO_PROXY": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONUNBUFFERED": "1",
        }

    @staticmethod
    def yaoki(*words: str) -> list[str]:
        """Return the command `yaoki` with this interpreter."""
        return [sys.executable, "-m", "yaoki", *words]
