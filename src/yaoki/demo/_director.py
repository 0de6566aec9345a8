"""
The director: starts the vendor, sends a dozen tickets through `yaoki run`, kills, and plays the person.

It only does what anybody could from outside: it runs the command, sends signals, reads the ledger and
types `yaoki answer`. Which process to kill it reads in the journal: the run's newest claim names it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event as Flag
from threading import Lock, Thread
from typing import TYPE_CHECKING

import msgspec

from yaoki.demo._audit import Asked, Evidence, Killed, RunSeen
from yaoki.demo._cases import CASES, Case, case_of_ticket, effects_of
from yaoki.demo._ledger import append_is_open, hold_after_append, hold_before_append
from yaoki.demo._place import TIMES
from yaoki.demo._shop import Event, read_log
from yaoki.demo._vendor_process import VendorProcess
from yaoki.errors import YaokiError
from yaoki.records import Claimed, Entry
from yaoki.runtime import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from yaoki.demo._board import Board
    from yaoki.demo._place import Place
    from yaoki.demo._plan import Kill, Plan

__all__ = ["Director"]

AT_ONCE = 4
"""Tickets in work at the same time."""
TOTAL_S_MAX = 120.0
"""After this a ticket's command is stopped, and the audit finds its run unfinished."""
_ROUNDS_MAX = 5
"""How often a ticket's command is given: once, and once more after each answer."""
_WAITING = 3
"""Exit code of `yaoki run` for a run that waits for somebody."""


class Director:
    """One demo, from the vendor's start to the evidence."""

    def __init__(
        self, place: Place, plan: Plan, board: Board, elapsed_s: Callable[[], float], cases: Sequence[Case] = CASES
    ) -> None:
        self._place = place
        self._plan = plan
        self._board = board
        self._elapsed_s = elapsed_s
        self._cases = cases
        self._ended = {case.ticket: Flag() for case in cases}
        self._kills: list[Killed] = []
        self._asked: list[Asked] = []
        self._commands: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._stopping = False

    def run(self) -> Evidence:
        """Work through every ticket and return what there is to see afterwards."""
        self._place.plan.write_bytes(msgspec.json.encode(self._plan))
        with VendorProcess(self._place, self._heard) as vendor, self._gates():
            pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ticket")
            try:
                for work in [pool.submit(self._work, case, vendor.url) for case in self._cases]:
                    work.result()
            except BaseException:
                self._stop()
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        return Evidence(
            plan=self._plan,
            cases=self._cases,
            vendor=read_log(self._place.vendor_log.read_text(encoding="utf-8")),
            ledger=self._place.ledger_lines(),
            runs=[self._seen(case.ticket) for case in self._cases],
            kills=self._kills,
            asked=self._asked,
            took_s=self._elapsed_s(),
            times=TIMES,
        )

    # ------------------------------------------------------------ one ticket

    def _work(self, case: Case, vendor_url: str) -> None:
        try:
            for _ in range(_ROUNDS_MAX):
                code = self._yaoki(case.ticket, vendor_url, *self._run_words(case.ticket))
                if code != _WAITING or not self._play_the_person(case, vendor_url):
                    break
            self._board.ended(case.ticket, self._seen(case.ticket).status)
        finally:
            self._ended[case.ticket].set()

    def _run_words(self, ticket: str) -> list[str]:
        text = msgspec.json.encode(self._place.ticket_text(ticket)).decode()
        agent = f"{self._place.example / 'agent.py'}:refund_agent"
        return ["run", agent, "--run-id", ticket, "--input", text, "--store", self._place.store]

    def _play_the_person(self, case: Case, vendor_url: str) -> bool:
        """Answer the run's open questions as somebody would who looks at the ledger; False if there is none."""
        with Runner.verbs(self._place.store) as store:
            asks = [ask for ask in store.get(case.ticket).asks if not ask.verdict]
        for ask in asks:
            line = _line_in_doubt(case, ask.call)
            if line is None:
                return False
            happened = line in self._place.ledger_lines()
            looked = f"the ledger {'has' if happened else 'does not have'} that line"
            verdict = ["happened", "null"] if happened else ["not-happened"]
            self._board.say(case.ticket, f"asks a person: did {ask.call} happen? {looked} → {verdict[0]}", "ask")
            self._yaoki(case.ticket, vendor_url, "answer", case.ticket, ask.id, *verdict, "--store", self._place.store)
            self._asked.append(Asked(run=case.ticket, ask=ask.id, call=ask.call, looked=looked, verdict=verdict[0]))
        return bool(asks)

    def _yaoki(self, ticket: str, vendor_url: str, *words: str) -> int:
        """Give a command and return its exit code; its output goes to the ticket's file."""
        environment = self._place.environment(ticket, vendor_url)
        with self._place.output(ticket).open("ab") as output, self._lock:
            if self._stopping:
                return -1
            command = subprocess.Popen(  # noqa: S603 - our own command
                self._place.yaoki(*words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self._place.folder,
            )
            self._commands.add(command)
        try:
            return command.wait(max(TOTAL_S_MAX - self._elapsed_s(), 1.0))
        except subprocess.TimeoutExpired:
            self._board.say(ticket, f"not done after {TOTAL_S_MAX:.0f} s; stopped", "bad")
            _end(command)
            return -1
        finally:
            with self._lock:
                self._commands.discard(command)

    def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            commands = list(self._commands)
        for command in commands:
            _end(command)

    # ------------------------------------------------------------ kills

    def _heard(self, event: Event, vendor: VendorProcess) -> None:
        """Take a line of the vendor's log; a kill that is due is struck at once."""
        self._board.vendor(event)
        kill = event.kill
        if kill is None:
            return
        if kill.tool == "append_ledger":
            ticket, ended = kill.ticket, self._ended[kill.ticket]
            Thread(
                target=hold_before_append,
                args=(
                    self._place.ledger,
                    lambda: vendor.go(ticket),
                    lambda: append_is_open(self._journal(ticket)),
                    lambda: self._strike(kill),
                    ended,
                ),
                daemon=True,
            ).start()
        else:
            self._strike(kill)

    @contextmanager
    def _gates(self) -> Generator[None]:
        """Put a pipe and somebody to watch it where an append is to be interrupted before its record."""
        kills = [kill for kill in self._plan.kills if (kill.tool, kill.when) == ("append_ledger", "after")]
        threads = [self._gate(kill) for kill in kills]
        try:
            yield
        finally:
            for flag in self._ended.values():
                flag.set()
            for thread in threads:
                thread.join()

    def _gate(self, kill: Kill) -> Thread:
        pipe, case = self._place.agent_log(kill.ticket), case_of_ticket(kill.ticket)
        line = next(str(call.args["line"]) for call in effects_of(case) if call.tool == "append_ledger")
        os.mkfifo(pipe)

        def appended() -> bool:
            return line in self._place.ledger_lines()

        arguments = (pipe, appended, lambda: self._strike(kill), self._ended[kill.ticket])
        thread = Thread(target=hold_after_append, args=arguments, daemon=True)
        thread.start()
        return thread

    def _strike(self, kill: Kill) -> None:
        """SIGKILL the process that drives the run, as the journal names it."""
        try:
            claims = [record for _, _, record in self._journal(kill.ticket) if isinstance(record, Claimed)]
            pid = claims[-1].pid
            # A process killed before is still there until its supervisor has looked; it dies once.
            fresh = all(killed.pid != pid for killed in self._kills)
            if fresh:
                os.kill(pid, signal.SIGKILL)
        except (YaokiError, IndexError, ProcessLookupError) as error:
            self._board.say(kill.ticket, f"could not kill its worker: {error!r}", "bad")
            return
        if not fresh:
            self._board.say(kill.ticket, f"worker {pid} was killed already", "bad")
            return
        self._kills.append(Killed(kill=kill, pid=pid, at_s=round(self._elapsed_s(), 2)))
        self._board.killed(kill, pid)

    # ------------------------------------------------------------ the store

    def _journal(self, ticket: str) -> Sequence[Entry]:
        with Runner.verbs(self._place.store) as store:
            return store.journal(ticket)

    def _seen(self, ticket: str) -> RunSeen:
        try:
            with Runner.verbs(self._place.store) as store:
                receipt = store.get(ticket)
                entries = tuple(store.journal(ticket))
        except YaokiError:
            return RunSeen(ticket=ticket, status="absent", final=False)
        return RunSeen(ticket=ticket, status=receipt.status.value, final=receipt.status.final, entries=entries)


def _line_in_doubt(case: Case, call: str) -> str | None:
    """Return the ledger line a question is about, or None if it is about something else."""
    if not call.startswith("append_ledger("):
        return None
    return next((str(c.args["line"]) for c in effects_of(case) if c.tool == "append_ledger"), None)


def _end(command: subprocess.Popen[bytes]) -> None:
    """End a command in order, so that it ends its worker; by force after two seconds."""
    command.terminate()
    try:
        command.wait(2.0)
    except subprocess.TimeoutExpired:
        command.kill()
        command.wait()
