"""
Imports a file, and says what is in it: the child process of `yaoki check`, `doctor FILE` and `explain TOOL`.

`python -m yaoki.cli._examine check|measure|explain FD TARGET` writes an `Examined` to that descriptor, and ends without
waiting for whatever the file left running. So no user code runs in the command's own process, and nothing
that a file prints, starts or breaks reaches it.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

from msgspec import json

from yaoki.cli._exits import CommandError
from yaoki.cli._findings import Examined, Found
from yaoki.cli._ladders import ladder_for
from yaoki.cli._target import find_loop_name, find_tool_name, load_file, split_target
from yaoki.errors import YaokiError
from yaoki.runtime import Loop, Run, Tool
from yaoki.runtime._preflight import Finding, place_of, tool_findings
from yaoki.runtime._reach import reached_by, tools_in

if TYPE_CHECKING:
    from types import ModuleType

    from yaoki.runtime._reach import Reached

__all__ = ["main"]

_MEASURED_S = 0.4


def main(argv: list[str]) -> int:
    """Examine one target, write what was found, and return how it went."""
    mode, fd, target = argv[0], int(argv[1]), argv[2]
    os.set_inheritable(fd, False)  # noqa: FBT003 - os's own signature
    examined = Examined(file=target)
    rate = _rate() if mode == "measure" else 0.0
    try:
        path, name = split_target(target)
        examined.file = str(path)
        module = load_file(path)
        if mode == "explain":
            _climb(examined, module, name, str(path))
        else:
            _look(examined, module, name, str(path))
    except CommandError as error:
        examined = Examined(file=examined.file, error=error.message, code=error.code)
    else:
        examined.threads = [one.name for one in threading.enumerate() if one is not threading.main_thread()]
        if examined.threads:
            text = "still run after it was imported; a busy one slows every step. Start them in a tool or a main block"
            subject = f"threads {', '.join(examined.threads)}"
            examined.findings.append(
                Found(level="note", code="import.threads", subject=subject, text=text, file=str(path), line=1)
            )
        if mode == "measure":
            examined.rate, examined.rate_beside = rate, _rate()
    os.write(fd, json.encode(examined))
    return 0


def _look(examined: Examined, module: ModuleType, name: str, file: str) -> None:
    named = {key: cast("Loop[..., Any]", one) for key, one in vars(module).items() if isinstance(one, Loop)}
    chosen = {one.name: one for one in named.values()}
    if name:
        every = {**named, **chosen}
        one = every[find_loop_name(name, sorted(every), file)]
        chosen = {one.name: one}
    reached: dict[str, Reached] = {}
    for one in chosen.values():
        for found in reached_by(one.fn):
            reached.setdefault(found.tool.name, found)
        examined.findings += _of_loop(one)
    if not name:
        for found in (found for value in vars(module).values() for found in tools_in(value)):
            if reached.setdefault(found.tool.name, found) is found:
                examined.findings += [_as_found(one) for one in tool_findings(found)]
    examined.loops, examined.tools = sorted(chosen), sorted(reached)
    examined.findings = _each_once(examined.findings)


def _climb(examined: Examined, module: ModuleType, name: str, file: str) -> None:
    """Look at the ladder of the tool asked for, or of each tool that the loop asked for uses."""
    loops = {one.name: cast("Loop[..., Any]", one) for one in vars(module).values() if isinstance(one, Loop)}
    uses = {one.name: {found.tool.name: found.tool for found in reached_by(one.fn)} for one in loops.values()}
    tools = {found.tool.name: found.tool for value in vars(module).values() for found in tools_in(value)}
    for used in uses.values():
        tools = {**used, **tools}
    examined.loops, examined.tools = sorted(loops), sorted(tools)
    if name in uses:
        chosen, users = list(uses[name].values()), {name: loops[name]}
        if not chosen:
            raise CommandError("tool.not_found", f"loop {name} of {file} names no tool; nothing to explain")
    else:
        chosen, users = [tools[find_tool_name(name, sorted(tools), sorted(loops), file)]], loops
    examined.ladders = [
        ladder_for(tool, [loop for loop in users.values() if tool.name in uses[loop.name]]) for tool in chosen
    ]


def _of_loop(loop: Loop[..., Any]) -> list[Found]:
    try:
        return [_as_found(one) for one in loop.findings()]
    except YaokiError as error:
        file, line = place_of(loop.fn)
        return [Found(level="error", code=error.code, subject=loop.name, text=str(error), file=file, line=line)]


def _as_found(one: Finding) -> Found:
    return Found(level=one.level, code=one.code, subject=one.subject, text=one.text, file=one.file, line=one.line)


def _each_once(findings: list[Found]) -> list[Found]:
    """Return the findings in the order of the source; a tool that two loops use is named once."""
    unique = {(one.file, one.line, one.subject, one.code, one.text): one for one in findings}
    return sorted(unique.values(), key=lambda one: (one.file, one.line))


def _rate() -> float:
    """Return how many steps a second an empty loop makes now, on a store of its own."""
    import tempfile

    from yaoki.clock import SystemClock
    from yaoki.records import Effect
    from yaoki.runtime import Runner

    clock = SystemClock()
    step = Tool(_nothing, effect=Effect.READ_ONLY, name="step")

    def steps(run: Run) -> int:
        del run
        made, end_s = 0, clock.monotonic_s() + _MEASURED_S
        while clock.monotonic_s() < end_s:
            step(made)
            made += 1
        return made

    with tempfile.TemporaryDirectory() as folder, Runner(f"sqlite:///{folder}/yaoki.db") as runner:
        began_s = clock.monotonic_s()
        made = runner.run(Loop[Any, int](steps, name="steps").bind()).unwrap()
        return made / (clock.monotonic_s() - began_s)


def _nothing(n: int) -> int:
    return n


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # what the file left running is not waited for
