from __future__ import annotations

import os
import time

import pytest

from tests.journal.store import begun, kill, note, open_at, start, texts, wait_said
from yaoki.errors import JournalError, RunBusy


def in_child(use) -> int:
    """Fork, run `use` there, and return the exit status: 0 if it returned true."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if use() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def claim_once_free(journal):
    """
    Claim run 1 as soon as nobody holds it, within 10 s.

    A program started by vfork holds its parent's files until its exec has closed them, a moment after the
    parent goes on: on a busy machine that moment may outlast the parent. What it inherits for good stays held.
    """
    until_s = time.monotonic() + 10
    while True:
        try:
            return journal.claim(1)
        except RunBusy:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.005)


def refuses(use) -> bool:
    try:
        use()
    except JournalError as error:
        return "forked from worker process" in str(error)
    return False


def test_in_a_forked_child_the_journal_says_so_and_does_nothing(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)
    uses = (
        lambda: journal.append(run, epoch, 0, [note()]),
        lambda: journal.append(run, epoch, 0, [note(), note()]),
        lambda: journal.get("run-1"),
        lambda: journal.load(run),
        journal.sync,
        lambda: journal.sync_async(1),
        lambda: journal.claim(run),
    )
    for use in uses:
        assert in_child(lambda use=use: refuses(use)) == 0
    assert in_child(lambda: journal.mark() is None and journal.close() is None) == 0
    journal.append(run, epoch, 0, [note("the parent goes on")])
    journal.sync()
    assert texts(journal, run) == ["the parent goes on"]
    journal.close()


def test_a_child_may_open_a_journal_of_its_own(tmp_path):
    journal = open_at(tmp_path / "s.db")
    run, epoch = begun(journal)

    def use() -> bool:
        own = open_at(tmp_path / "s.db")
        other, other_epoch = begun(own, "child")
        own.append(other, other_epoch, 0, [note("child")])
        own.close()
        return own.worker != journal.worker

    assert in_child(use) == 0
    journal.append(run, epoch, 0, [note("parent")])
    assert [texts(journal, row.id) for row in journal.list()] == [["parent"], ["child"]]
    journal.close()


def test_a_fork_while_the_syncer_works_does_not_hang_the_child(tmp_path):
    journal = open_at(tmp_path / "s.db", sync_every_ms=1)
    run, epoch = begun(journal)
    for i in range(20):
        journal.append(run, epoch, i, [note()])
        journal.mark()
        assert in_child(lambda: journal.mark() is None and refuses(journal.sync)) == 0
    journal.close()


def test_a_forked_child_that_lives_on_does_not_keep_its_dead_parent_alive(tmp_path):
    path = tmp_path / "s.db"
    parent = start(
        "j = open_at(path); begun(j); r, w = os.pipe(); child = os.fork()\n"
        "if child == 0:\n"
        "    os.write(w, b'x'); time.sleep(60); os._exit(0)\n"
        "os.read(r, 1); print('up', flush=True); print(child, flush=True); sys.stdin.read()",
        path,
    )
    wait_said(parent, "up")
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.wait()
        journal = open_at(path)
        assert journal.claim(1).died
        journal.close()
        os.kill(child, 0)
    finally:
        os.kill(child, 9)
        kill(parent)


@pytest.mark.parametrize("how", ["subprocess", "spawn"])
def test_a_started_program_inherits_nothing(tmp_path, how):
    path = tmp_path / "s.db"
    command = {
        "subprocess": "p = subprocess.Popen(['sleep', '60'], close_fds=False)",
        "spawn": "p = type('P', (), {'pid': os.posix_spawnp('sleep', ['sleep', '60'], os.environ)})",
    }[how]
    parent = start(
        f"import subprocess; j = open_at(path); begun(j); {command}\n"
        "print('up', flush=True); print(p.pid, flush=True); sys.stdin.read()",
        path,
    )
    wait_said(parent, "up")
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.wait()
        journal = open_at(path)
        assert claim_once_free(journal).died
        journal.close()
    finally:
        os.kill(child, 9)
        kill(parent)
