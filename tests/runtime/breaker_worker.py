"""A process that asks a server over HTTP until it answers, at a scope shared with others: one run, then the end."""

from __future__ import annotations

import os
import sys
import urllib.request

from yaoki import Breaker, Budget, Effect, Retry, Run, Runner, loop, tool

PORT = os.environ.get("BREAKER_PORT", "")


@tool(
    effect=Effect.READ_ONLY,
    scope="vendor/model/key",
    breaker=Breaker(failures=3, open_s=1),
    retry=Retry(attempts_max=200, base_s=0.01, cap_s=0.05),
    timeout_s=60,
)
def ask(n: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/{os.getpid()}/{n}") as answer:
        return answer.read().decode()


@loop(budget=Budget(retries=None))
def work(run: Run, n: int) -> str:
    return ask(n)


if __name__ == "__main__":
    with Runner(sys.argv[1]) as runner:
        assert runner.run(work.bind(int(sys.argv[2])), run_id=f"r{sys.argv[2]}").unwrap() == "well"
