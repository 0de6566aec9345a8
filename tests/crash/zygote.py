"""
A warm process that forks one child for each life: a SIGKILL is as real in it as in a fresh one, and starting
costs a few milliseconds instead of the imports.

Reads one JSON line per life, `{"module", "arguments", "out", "err"}`; answers `{"pid"}`, then `{"code"}`, negative
for a signal. It opens no store and starts no thread, so its children inherit nothing of either.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable


def live(main: Callable[..., None], arguments: list[str], out: str, err: str) -> int:
    for path, fd in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code = 0
    try:
        main(*arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the suite was started by nohup
    for line in sys.stdin:
        asked = json.loads(line)
        main = importlib.import_module(asked["module"]).main
        pid = os.fork()
        if not pid:
            os._exit(live(main, asked["arguments"], asked["out"], asked["err"]))
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    serve()
