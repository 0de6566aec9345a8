"""Many processes at one store see one breaker: real processes, a real server, real deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

from yaoki import Runner
from yaoki.clock import SystemClock
from yaoki.records import Begin, Circuit, Settle

CLOCK = SystemClock()
WORKERS = 10


class Vendor:
    """A server that is down until it is told otherwise; it may hold an answer back."""

    def __init__(self) -> None:
        self.well = False
        self.asked: list[tuple[float, int]] = []
        """When, and by which process."""
        self.came = threading.Condition()
        self.holds: Callable[[], bool] = bool
        """Whether the answer to who asks now is held back."""
        self.held: list[int] = []
        """The processes whose answer is."""
        self.let_go = threading.Event()
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                vendor.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self.came:
            process = int(handler.path.split("/")[1])
            self.asked.append((CLOCK.monotonic_s(), process))
            holds = self.holds()
            if holds:
                self.held.append(process)
            self.came.notify_all()
        if holds:
            self.let_go.wait(60)
        try:
            handler.send_response(200 if self.well else 500)
            handler.end_headers()
            handler.wfile.write(b"well" if self.well else b"down")
        except OSError:
            pass  # it was killed meanwhile

    def until_asked(self, number: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.asked) >= number, 60), self.asked


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    one = Vendor()
    yield one
    one.let_go.set()
    one.server.shutdown()
    one.server.server_close()


@pytest.fixture
def start(vendor, tmp_path):
    """Start a worker process on the store; whatever is left at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []
    url = f"sqlite:///{tmp_path / 's.db'}"

    def start(n: int) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "BREAKER_PORT": str(vendor.port)}
        command = [sys.executable, "-m", "tests.runtime.breaker_worker", url, str(n)]
        started.append(subprocess.Popen(command, env=environment))
        return started[-1]

    start.url = url
    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(10)


def opened_by(url: str) -> tuple[list[Begin], list[Settle]]:
    """Return all begins and all settles of the store, each in order."""
    with Runner(url, verbs_only=True) as verbs:
        records = [entry.record for run in verbs.list() for entry in verbs.journal(run.run_id)]
    begins = sorted((one for one in records if isinstance(one, Begin)), key=lambda one: one.at)
    settles = sorted((one for one in records if isinstance(one, Settle)), key=lambda one: one.at)
    return begins, settles


def test_ten_processes_send_one_probe_a_window(vendor, start):
    processes = [start(n) for n in range(WORKERS)]
    # Before the third failure is in the store each of them may ask once, and the first two that failed once more.
    first = WORKERS + 2
    vendor.until_asked(first + 3)
    vendor.well = True
    assert [process.wait(60) for process in processes] == [0] * WORKERS
    begins, settles = opened_by(start.url)
    assert len(begins) == len(vendor.asked) == len(settles)
    healed_ms = next(one.at for one in settles if one.outcome == "ok")
    down = [one.at for one in begins if one.at < healed_ms]
    head = next(i for i, (a, b) in enumerate(pairwise(down), 1) if b - a >= 1_000)
    assert head <= first
    assert len(down) - head >= 3
    assert all(b - a >= 1_000 for a, b in pairwise(down[head - 1 :])), down


def probes(runner: Runner) -> list[Circuit]:
    """Return the scopes at which a probe is under way."""
    return [one for one in runner.store.scopes().circuits.values() if one.probe_worker]


def test_a_probe_whose_process_is_killed_gives_its_place_to_another(vendor, start):
    with Runner(start.url) as store:
        vendor.holds = lambda: bool(probes(store))
        processes = [start(n) for n in range(3)]
        with vendor.came:
            assert vendor.came.wait_for(lambda: vendor.held, 60), vendor.asked
        (probed,) = probes(store)
        vendor.holds = bool
    prober = vendor.held[0]
    assert probed.probe_until_ms - CLOCK.now_ms() > 30_000, "its place would be held for a minute yet"
    vendor.well = True
    os.kill(prober, signal.SIGKILL)
    left = [process for process in processes if process.pid != prober]
    assert len(left) == 2
    assert [process.wait(30) for process in left] == [0, 0]
