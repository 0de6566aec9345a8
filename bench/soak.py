"""
A store under load for as long as you like: runs submitted without end, ten workers killed at random, then an audit.

    python bench/soak.py [--minutes N] [--workers N] [--kills-per-minute N] [--json]

Every effect is a line in a file, written by whoever did it. Afterwards the lines are held against the journal: none is
missing, none is there twice, every run has ended. Memory of the workers and size of the file are watched.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from yaoki import INJECTED, Budget, Effect, Happened, NotHappened, Retry, Run, Runner, loop, tool
from yaoki.records import State

WORLD = Path(os.environ.get("SOAK_WORLD", os.devnull))
TURNS, FAILING, BEHIND_MOST = 3, 0.1, 100
QUICK = Retry(attempts_max=200, base_s=0.01, cap_s=0.05, same_error_limit=1_000)


def note(line: str) -> None:
    fd = os.open(WORLD, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


def noted(line: str) -> bool:
    return WORLD.exists() and f"{line}\n" in WORLD.read_text()


@tool(effect=Effect.READ_ONLY, retry=QUICK, breaker=None)
def look(n: int) -> int:
    if random.random() < FAILING:  # noqa: S311 - a vendor's mood
        raise ConnectionResetError(104, "reset")
    time.sleep(0.002)
    return n


def was_sent(run_id: str, n: int) -> Happened[str] | NotHappened:
    return Happened("sent") if noted(f"mail {run_id} {n}") else NotHappened()


@tool(check=was_sent, check_after_s=0, retry=QUICK, breaker=None)
def mail(run_id: str, n: int) -> str:
    note(f"mail {run_id} {n}")
    return "sent"


@tool(effect=Effect.KEYED, retry=QUICK, breaker=None)
def charge(run_id: str, n: int, *, idempotency_key: str = INJECTED) -> str:
    if not noted(f"charge {run_id} {n} {idempotency_key}"):
        note(f"charge {run_id} {n} {idempotency_key}")
    return idempotency_key


@loop(crashes_max=1_000, budget=Budget(retries=None, turns=10), name="soak")
def soak(run: Run, steps: int) -> int:
    total = 0
    for state in run.turns([0]):
        for n in range(steps):
            total += look(n)
        mail(run.id, len(state))
        charge(run.id, len(state))
        state.append(total)
        if len(state) > TURNS:
            return total
    return total


def work(url: str) -> None:
    random.seed(os.getpid())
    with Runner(url) as runner:
        signal.signal(signal.SIGTERM, lambda *_: runner.drain())
        runner.work(soak)


def start(url: str) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work(url)
            code = 0
        finally:
            os._exit(code)
    return pid


def rss_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    except OSError:
        return 0.0


def soaked(folder: Path, minutes: float, workers: int, kills_per_minute: float) -> dict[str, Any]:
    url, rng = f"sqlite:///{folder / 'soak.db'}", random.Random(7)  # noqa: S311 - who is killed when
    with Runner(url) as runner:
        pids = [start(url) for _ in range(workers)]
        end_s = time.monotonic() + minutes * 60
        submitted = kills = 0
        memory: list[float] = []
        sizes: list[tuple[int, int]] = []
        next_kill_s = time.monotonic()
        while time.monotonic() < end_s:
            if submitted % 50 or len(runner.list(State.PENDING)) < BEHIND_MOST:
                runner.submit(soak.bind(rng.randrange(1, 8)), run_id=f"s{submitted}")
                submitted += 1
            if time.monotonic() >= next_kill_s:
                next_kill_s += 60 / kills_per_minute
                victim = rng.randrange(workers)
                os.kill(pids[victim], signal.SIGKILL)
                os.waitpid(pids[victim], 0)
                pids[victim] = start(url)
                kills += 1
                memory.append(max(rss_mb(pid) for pid in pids))
                sizes.append((submitted, sum(one.stat().st_size for one in folder.glob("soak.db*"))))
            time.sleep(0.02)
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        for pid in pids:
            os.waitpid(pid, 0)
        runner.work(soak, until="idle")
        ends = Counter(one.status.value for one in runner.list())
    lines = Counter(WORLD.read_text().splitlines())
    wanted = submitted * TURNS * 2
    half = len(memory) // 2
    return {
        "minutes": minutes,
        "runs": submitted,
        "kills": kills,
        "ends": dict(ends),
        "effects": sum(lines.values()),
        "lost": wanted - len(lines),
        "duplicated": sum(times - 1 for times in lines.values()),
        "worker_mb_first_half": round(max(memory[:half], default=0), 1),
        "worker_mb_second_half": round(max(memory[half:], default=0), 1),
        "bytes_a_run_first_half": round(sizes[half][1] / max(1, sizes[half][0])) if sizes else 0,
        "bytes_a_run_at_the_end": round(sizes[-1][1] / max(1, sizes[-1][0])) if sizes else 0,
    }


def main() -> int:
    global WORLD  # noqa: PLW0603 - the tools write there, in every process
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--kills-per-minute", type=float, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="yaoki-soak-") as folder:
        WORLD = Path(folder) / "world.txt"
        found = soaked(Path(folder), options.minutes, options.workers, options.kills_per_minute)
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:<24} {value}")
    return int(bool(found["lost"] or found["duplicated"] or set(found["ends"]) - {"completed"}))


if __name__ == "__main__":
    sys.exit(main())
