"""
Checks that decide whether an output is kept: a command, a schema, several of them.

    from yaoki.verify import all_of, command, schema

    verdict = run.verify(reply.text, schema(Answer))                  # in a loop; recorded with its evidence
    @loop(verify=command(["pytest", "-q"], cwd="app", timeout_s=300))  # or for the loop's own value

A check is any function of the output: None and True pass, False does not, nor does raising ValueError or
AssertionError. The model has no say in it.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, cast

import msgspec

from yaoki.codec import codec_for
from yaoki.errors import DeclarationError, EncodingError
from yaoki.runtime import EVIDENCE_MAX, Check, Verdict, check_name, is_async, judged, judged_async

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Check", "Command", "Verdict", "all_of", "command", "schema"]

_KEPT_BYTES = EVIDENCE_MAX // 2
_READ_BYTES = 65_536
_DAY_S = 86_400.0
_CHECKS_MOST = 100


class Command:
    """A check that a command makes; see `command`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        stdin: bool,
        timeout_s: float,
        name: str,
    ) -> None:
        self.argv = [os.fspath(word) for word in argv]
        if isinstance(argv, str) or not self.argv or not self.argv[0]:
            msg = f"command({argv!r}): give the words of the command as a list: ['pytest', '-q']"
            raise DeclarationError(msg)
        if not 0 < timeout_s <= _DAY_S:
            msg = f"command: timeout_s={timeout_s!r} lies above 0, and at most a day"
            raise DeclarationError(msg)
        self.name = name or os.path.basename(self.argv[0])  # noqa: PTH119 - a word, not a path of ours
        self.wait_s = timeout_s
        self.timeout_s = timeout_s + 10
        """The attempt's, which outlasts the command's own."""
        self._cwd = cwd
        self._env = env
        self._stdin = stdin
        self._running: set[int] = set()

    def __call__(self, output: object) -> Verdict:
        """
        Execute it in a process group of its own; its exit code decides, the last of what it prints is the evidence.

        Raises:
            OSError: It cannot be started.
        """
        with subprocess.Popen(  # noqa: S603 - what the check is for
            self.argv,
            cwd=self._cwd,
            env={**os.environ, **self._env} if self._env is not None else None,
            stdin=subprocess.PIPE if self._stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            self._running.add(process.pid)
            try:
                return self._judged(process, output)
            finally:
                _end_group(process.pid)
                self._running.discard(process.pid)

    def end(self) -> None:
        """End what runs: nobody waits for its verdict any more."""
        for group in list(self._running):
            _end_group(group)

    def _judged(self, process: subprocess.Popen[bytes], output: object) -> Verdict:
        printed = _Printed()
        threads = [threading.Thread(target=printed.read, args=(process.stdout,), daemon=True)]
        if self._stdin:
            threads.append(threading.Thread(target=_give, args=(process.stdin, output), daemon=True))
        for thread in threads:
            thread.start()
        try:
            code: int | None = process.wait(self.wait_s)
        except subprocess.TimeoutExpired:
            code = None
        _end_group(process.pid)  # what it left running holds its output open, and may act
        process.wait()
        for thread in threads:
            thread.join(5)
        if code is None:
            text = f"no end within {self.wait_s:g} s"
        else:
            text = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
        return Verdict(passed=code == 0, evidence=f"{text}\n{printed.text()}".strip(), check=self.name)


def command(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bool = False,
    timeout_s: float = 300,
    name: str = "",
) -> Command:
    """
    Return a check that a command makes: exit code 0 passes.

    It is executed anew where its process dies before it has said, so it must not act on the world.

    Args:
        argv: Its words; no shell.
        cwd: Where; by default where the process is.
        env: Added to the environment.
        stdin: Whether it is given the output on its standard input: text as it is, else as JSON.
        timeout_s: It is killed with its group after that; no verdict for it. Above 0, at most a day.
        name: Its name in the evidence; by default its first word.

    Raises:
        DeclarationError: No command, or no bound.
    """
    return Command(argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s, name=name)


def schema(kind: object, *, name: str = "") -> Check:
    """
    Return a check that an output is of a type: a dataclass, a msgspec or pydantic model, or any annotation.

    Text is read as JSON, one code fence around it left out; everything else as it would be journaled.

    Raises:
        DeclarationError: A type that cannot be read from JSON.
    """
    try:
        codec = codec_for(kind)
    except EncodingError as error:
        msg = f"schema({kind!r}): {error}"
        raise DeclarationError(msg) from None

    def check(output: object) -> None:
        if isinstance(output, str) and kind is not str:
            codec.decode(unfenced(output).encode())
        else:
            codec.decode(codec_for(inspect.Parameter.empty).encode(output))

    check.__name__ = name or f"schema({getattr(kind, '__name__', kind)})"
    return check


def unfenced(text: str) -> str:
    """Return what a model has put into one code fence, or the text."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```") and "\n" in bare:
        return bare[bare.index("\n") + 1 : -3].strip()
    return bare


def all_of(*checks: Check) -> Check:
    """
    Return a check that passes if all do; they are asked in order, up to the first that does not.

    Its `timeout_s` is the sum of theirs. Async ones make it async.

    Raises:
        DeclarationError: None, or more than 100.
    """
    if not 0 < len(checks) <= _CHECKS_MOST:
        msg = f"all_of: {len(checks)} checks; give 1 to {_CHECKS_MOST}"
        raise DeclarationError(msg)
    both = _AllAsync(checks) if any(is_async(check) for check in checks) else _All(checks)
    return cast("Check", both)


class _All:
    def __init__(self, checks: Sequence[Check]) -> None:
        self.checks = checks
        self.name = " and ".join(check_name(check) for check in checks)[:200]
        self.timeout_s = min(_DAY_S, sum(float(getattr(check, "timeout_s", 600)) for check in checks))

    def __call__(self, output: object) -> Verdict:
        said: list[Verdict] = []
        for check in self.checks:
            said.append(judged(check, output))
            if not said[-1].passed:
                break
        return _together(said)

    def end(self) -> None:
        for check in self.checks:
            end = getattr(check, "end", None)
            if end is not None:
                end()


class _AllAsync(_All):
    async def __call__(self, output: object) -> Verdict:  # type: ignore[override]  # awaited, as `is_async` sees
        said: list[Verdict] = []
        for check in self.checks:
            said.append(await judged_async(check, output))
            if not said[-1].passed:
                break
        return _together(said)


def _together(said: Sequence[Verdict]) -> Verdict:
    last = said[-1]
    if not last.passed:
        return last
    return Verdict(passed=True, evidence="\n".join(f"{one.check}: {one.evidence or 'passed'}" for one in said))


class _Printed:
    """The first and the last of what a command prints; at most so much is held."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def read(self, pipe: IO[bytes]) -> None:
        while data := os.read(pipe.fileno(), _READ_BYTES):
            room = _KEPT_BYTES - len(self._head)
            self._head += data[:room]
            self._tail += data[room:]
            over = len(self._tail) - _KEPT_BYTES
            if over > 0:
                self._left_out += over
                del self._tail[:over]

    def text(self) -> str:
        middle = f"\n[{self._left_out:,} bytes left out]\n" if self._left_out else ""
        return self._head.decode(errors="replace") + middle + self._tail.decode(errors="replace")


def _give(pipe: IO[bytes], output: object) -> None:
    text = output if isinstance(output, str) else json.dumps(msgspec.to_builtins(output))
    with suppress(OSError), pipe:
        pipe.write(text.encode("utf-8", "replace"))


def _end_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
