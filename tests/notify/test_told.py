"""From a real run through a real sender to a real receiver."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.notify import agents
from tests.notify.station import listening
from yaoki import AsyncRunner, DeclarationError, Effect, Retry, Run, Runner, loop, tool
from yaoki.notify import Notify, command, sink_of
from yaoki.records import State
from yaoki.runtime._telling import Telling

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # apprise imports it

HERE = Path(__file__).parent


def yaoki(path: Path, *words: str, check: int | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "yaoki", *words],
        cwd=path,
        env={**os.environ, "YAOKI_STORE": f"sqlite:///{path / 's.db'}", **env},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    if check is not None:
        assert done.returncode == check, done.stderr
    return done


def test_apprise_delivers_a_question_with_what_to_type(tmp_path):
    with listening() as (host, came), Runner(f"sqlite:///{tmp_path / 's.db'}", notify=f"json://{host}/") as runner:
        assert runner.run(agents.work.bind("reset"), run_id="r").status is State.WAITING
    (one,) = came
    assert one["title"] == 'r waits for you: did act(how="reset") happen?'
    assert "yaoki answer r q1 happened" in one["message"]
    assert "id: r.q1." in one["message"]


def test_an_async_runner_tells_too(tmp_path):
    came = []

    async def run() -> None:
        async with AsyncRunner(f"sqlite:///{tmp_path / 's.db'}", notify=came.append) as runner:
            await runner.run(agents.awork.bind("denied"), run_id="r")

    asyncio.run(run())
    (one,) = came
    assert (one.kind, one.run_id, one.loop) == ("dead", "r", "awork")
    assert "yaoki redrive r --store sqlite:////" in one.text


def test_a_run_that_dies_with_its_worker_is_told(tmp_path):
    with listening() as (host, came):
        yaoki(
            tmp_path,
            "run",
            f"{HERE / 'agents.py'}:work",
            "--input",
            '"die"',
            "--run-id",
            "r",
            "--notify",
            f"http://{host}/",
        )
        (one,) = came
    assert one["id"].startswith("r.")
    assert one["headers"]["Idempotency-Key"] == one["id"]
    assert one["kind"] in ("dead", "waiting")


def test_a_worker_tells_whom_the_environment_names(tmp_path):
    with listening() as (host, came):
        yaoki(tmp_path, "submit", f"{HERE / 'agents.py'}:work", "--input", '"reset"', "--run-id", "r", check=0)
        yaoki(tmp_path, "worker", str(HERE / "agents.py"), "--until-idle", check=0, YAOKI_NOTIFY=f"http://{host}/")
        assert [one["run_id"] for one in came] == ["r"]


def test_doctor_and_runs_say_that_an_address_fails(tmp_path):
    with listening(lambda: 500) as (host, _):
        yaoki(
            tmp_path,
            "run",
            f"{HERE / 'agents.py'}:work",
            "--input",
            '"reset"',
            "--notify",
            f"http://{host}/t?token=s3cret",
        )
        said = [yaoki(tmp_path, "doctor").stdout, yaoki(tmp_path, "runs", check=0).stdout]
    for text in said:
        assert "http://127.0.0.1 (" in text
        assert "HTTP Error 500" in text
        assert "s3cret" not in text


def test_a_run_never_waits_for_an_address_that_hangs(tmp_path):
    let_go = threading.Event()

    def hang(notice) -> None:
        let_go.wait(30)

    with Runner(f"sqlite:///{tmp_path / 's.db'}", notify=hang, drain_s=0) as runner:
        for number in range(3):
            receipt = runner.run(agents.work.bind("fine"), run_id=f"r{number}")
            assert receipt.status is State.COMPLETED
            assert runner.run(agents.work.bind("reset"), run_id=f"w{number}").status is State.WAITING
    let_go.set()


def test_a_program_gets_the_notice_on_its_stdin(tmp_path):
    out = tmp_path / "out.json"
    with Runner(f"sqlite:///{tmp_path / 's.db'}", notify=f"cmd:tee {out}") as runner:
        runner.run(agents.work.bind("reset"), run_id="r")
    assert json.loads(out.read_text())["kind"] == "waiting"


def test_a_program_that_fails_is_a_failure_with_its_last_words():
    from yaoki.notify import Notice

    with pytest.raises(OSError, match="sh ended with status 3: no room"):
        command("sh", "-c", "echo no room >&2; exit 3").send(Notice(id="a", kind="dead", title="t", text="x"))


def test_apprise_says_why_it_could_not_deliver():
    from yaoki.notify import Notice

    with listening(lambda: 503) as (host, _), pytest.raises(OSError, match="503"):
        sink_of(f"json://{host}/").send(Notice(id="a", kind="dead", title="t", text="x"))


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("nonsense", "is no address apprise knows"),
        ("nothing://here", "is no address apprise knows"),
        ("https://", "names no host"),
        ("cmd:", "names no program"),
    ],
)
def test_an_address_that_cannot_work_is_refused_before_anything_runs(tmp_path, to, said):
    with pytest.raises(DeclarationError, match=said):
        Runner(f"sqlite:///{tmp_path / 's.db'}", notify=to)
    done = yaoki(tmp_path, "run", f"{HERE / 'agents.py'}:work", "--input", '"fine"', "--notify", to, check=2)
    assert said in done.stderr
    assert not (tmp_path / "s.db").exists()


def test_without_apprise_its_addresses_are_refused_and_others_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(DeclarationError, match="pip install 'yaoki\\[notify\\]'"):
        sink_of("slack://a/b/c")
    assert sink_of("https://hooks.test/x").shown.startswith("https://hooks.test (")


@pytest.mark.parametrize(
    "wrong", [{"to": []}, {"to": "json://x"}, {"to": [print], "per_minute_max": 0}, {"to": [print], "rate_max": 0}]
)
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(DeclarationError, match="Notify: "):
        Notify(**wrong)


def test_a_tool_whose_first_attempts_often_fail_is_told_once_an_hour(tmp_path):
    from yaoki.testing import no_waits

    turn = [0]

    @tool(effect=Effect.READ_ONLY, retry=Retry(attempts_max=2))
    def flaky(n: int) -> int:
        turn[0] += 1
        if turn[0] % 2:
            raise ConnectionResetError(104, "reset")
        return n

    @loop
    def many(run: Run) -> int:
        return sum(flaky(n) for n in range(45))

    came = []
    with no_waits(), Runner(f"sqlite:///{tmp_path / 's.db'}", notify=came.append) as runner:
        assert runner.run(many.bind(), run_id="r").status is State.COMPLETED
    assert [one.kind for one in came] == ["rate"]
    assert came[0].title == "flaky: 20 of its last 20 first attempts failed (100 %), whatever healed later"
    assert "yaoki stats --tool flaky --store" in came[0].text


def test_a_breaker_that_a_run_opens_is_told_beside_the_run(tmp_path):
    @tool(effect=Effect.READ_ONLY, scope="vendor/model", retry=Retry(attempts_max=5, base_s=0.001, cap_s=0.001))
    def ask(n: int) -> int:
        raise ConnectionResetError(104, "reset")

    @loop
    def work(run: Run) -> int:
        return ask(1)

    came = []
    with Runner(f"sqlite:///{tmp_path / 's.db'}", notify=came.append) as runner:
        assert runner.run(work.bind(), run_id="r").status is State.DEAD
    assert sorted(one.kind for one in came) == ["breaker", "dead"]
    (one,) = (one for one in came if one.kind == "breaker")
    assert one.title == "vendor is open: 5 failures in a row, the last: os.ECONNRESET"


def test_what_happens_before_the_first_look_is_told(tmp_path, monkeypatch):
    ended = threading.Event()
    tell = Telling._tell

    def late(self, sink, worker) -> None:
        ended.wait(30)
        tell(self, sink, worker)

    monkeypatch.setattr(Telling, "_tell", late)
    came = []
    with Runner(f"sqlite:///{tmp_path / 's.db'}", notify=came.append) as runner:
        assert runner.run(agents.work.bind("reset"), run_id="r").status is State.WAITING
        assert runner.run(agents.denied.bind(), run_id="d").status is State.DEAD
        ended.set()
    assert [one.run_id for one in came] == ["r", "d"]
