"""`yaoki explain`: an error as it is at hand, or many at once, and which rule said so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import Place
from yaoki.cli._pasted import fields_of

DATA = Path(__file__).parents[1] / "classify" / "data"
LIMITED = '{"error":{"message":"Rate limit reached. Please try again in 20s.","code":"rate_limit_exceeded"}}'

VERBOSE = f"""\
* Connected
> POST /v1 HTTP/2
> authorization: Bearer sk-secretsecret
>
< HTTP/2 429
< retry-after: 7
<
{LIMITED}
* Connection #0 left intact"""


@pytest.fixture
def place(tmp_path):
    here = Place(tmp_path)
    yield here
    here.close()


def pipe(monkeypatch, text: str) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("words", "reason", "wait_s"),
    [
        ([LIMITED, "--status", "429"], "http.429.rate_limit_exceeded", 20.0),
        ([f"Error code: 429 - {LIMITED}"], "http.429.rate_limit_exceeded", 20.0),
        ([f"openai.RateLimitError: Error code: 429 - {LIMITED}"], "http.429.rate_limit_exceeded", 20.0),
        (["--status", "503", "-H", "Retry-After: 30"], "http.503", 30.0),
        (["--class", "httpx.ConnectTimeout"], "timeout.connect", None),
        (["httpx.ReadTimeout: timed out"], "timeout.read", None),
        (["ConnectionResetError: [Errno 104] Connection reset by peer"], "os.ECONNRESET", None),
        (["KeyError: 'choices'"], "python.KeyError", None),
        (["429 Too Many Requests"], "http.429.rate_limit", None),
        (["MCP error -32601: Method not found"], "jsonrpc.-32601", None),
        (["something nobody has seen"], "unknown.str", None),
    ],
)
def test_what_is_typed_is_explained(place, capfd, words, reason, wait_s):
    said = place.call(capfd, "explain", *words, "--json")
    assert said.code == 0, said.err
    assert (said.json["reason"], said.json["retry_after_s"]) == (reason, wait_s)
    assert said.json["rule"]


def test_a_traceback_is_read_to_its_last_error(place, capfd, monkeypatch):
    pipe(
        monkeypatch,
        "Traceback (most recent call last):\n  File 'a.py', line 1, in <module>\n    f()\n"
        "OSError: [Errno 28] No space\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n  File 'a.py', line 3, in <module>\n    g()\n"
        "anthropic.OverloadedError: Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error'}}\n",
    )
    said = place.call(capfd, "explain", "--json")
    assert said.json["reason"] == "http.529.overloaded_error"
    assert said.json["resend"] == "yes"


@pytest.mark.parametrize(
    "transcript",
    [
        f"HTTP/2 429 \r\nretry-after: 7\r\ncontent-type: application/json\r\n\r\n{LIMITED}",
        VERBOSE,
        f"HTTP/1.1 307 Moved\nlocation: /\n\nHTTP/1.1 429 Too Many Requests\nRetry-After: 7\n\n{LIMITED}",
    ],
)
def test_a_curl_transcript_is_read(place, capfd, monkeypatch, transcript):
    pipe(monkeypatch, transcript)
    said = place.call(capfd, "explain", "-", "--json")
    assert (said.json["reason"], said.json["retry_after_s"]) == ("http.429.rate_limit_exceeded", 7.0)
    assert "secretsecret" not in said.out


def test_a_person_reads_what_it_is_and_which_rule_says_so(place, capfd):
    said = place.call(capfd, "explain", "insufficient_quota: key sk-proj-abcdefghijklmnop", "--status", "429")
    assert "sk-proj" not in said.out
    said = place.call(capfd, "explain", '{"error":{"code":"insufficient_quota"}}', "--status", "429")
    lines = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert lines["kind"].split() == ["budget", "http.429.insufficient_quota"]
    assert lines["rule"].startswith("vendor.openai")
    assert lines["resend"].startswith("after_action")
    assert {"executed", "scope", "wait", "yaoki", "hint", "message"} <= lines.keys()


def test_control_flow_is_no_failure(place, capfd):
    assert "control flow: CancelledError" in place.call(capfd, "explain", "asyncio.CancelledError").out
    assert place.call(capfd, "explain", "KeyboardInterrupt", "--json").json["kind"] == "control"


FIELDS = {"id", "kind", "executed", "scope", "resend", "retry_after_s", "rule"}


@pytest.mark.parametrize("name", ["wire_errors.jsonl", "exceptions.jsonl"])
def test_a_labelled_file_is_answered_line_by_line_and_scored_beside_it(place, capfd, name):
    said = place.call(capfd, "explain", "--batch", str(DATA / name))
    assert said.code == 0
    rows = [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    answers = [json.loads(line) for line in said.out.splitlines()]
    assert [one["id"] for one in answers] == [row["id"] for row in rows]
    assert all(one.keys() == FIELDS and one["rule"] for one in answers)
    assert {one["resend"] for one in answers} <= {"yes", "no", "if_idempotent", "after_action"}
    for row, one in zip(rows, answers, strict=True):
        assert one["kind"] in {row["kind"], *row["accept"]}, one
        if "resend" in row:
            again = {"yes", "if_idempotent"}
            assert (one["resend"] in again) == (row["resend"] in again), one
    assert f"{len(rows)} of {len(rows)} (100.0%)" in said.err
    assert "label \\ answer" in said.err
    assert ("sent again in vain 0" in said.err) == ("resend" in rows[0])


def test_lines_without_labels_are_not_scored_and_null_is_no_obstacle(place, capfd):
    rows = [
        {"id": "a", "exception_class": None, "http_status": None, "headers": None, "body": None},
        {"exception_class": "openai.RateLimitError", "http_status": 429, "headers": {"Retry-After": "9"}, "body": None},
        {"id": 3, "exception_class": "asyncio.CancelledError", "http_status": None, "headers": None, "body": ""},
        {"id": 4, "exception_class": "(200 response)", "http_status": "200", "body": {"error": {"code": 429}}},
        {"id": 5, "exception_class": 7, "http_status": True, "headers": ["x"], "body": 3.5},
        {"id": 6, "exception_class": "botocore ThrottlingException", "body": "Too many requests"},
    ]
    place.write("rows.jsonl", "\n".join(["", *map(json.dumps, rows), ""]))
    said = place.call(capfd, "explain", "--batch", "rows.jsonl", "--json")
    answers = [json.loads(line) for line in said.out.splitlines()]
    assert [one["id"] for one in answers] == ["a", 3, 3, 4, 5, 6]
    assert [one["kind"] for one in answers] == [
        "unknown", "rate_limited", "control", "rate_limited", "unknown", "rate_limited",
    ]  # fmt: skip
    assert answers[1]["retry_after_s"] == 9.0
    assert said.err == ""


def test_a_row_that_would_be_sent_again_in_vain_is_named(place, capfd):
    place.write("rows.jsonl", json.dumps({"id": "liar", "http_status": 503, "kind": "permanent", "resend": "no"}))
    said = place.call(capfd, "explain", "--batch", "rows.jsonl")
    assert "in vain: liar" in said.err
    assert "0 of 1 (0.0%)" in said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--batch", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
        (["--batch", "bad.jsonl"], "bad.jsonl:2: not JSON"),
        (["--batch", "list.jsonl"], "list.jsonl:1: expected an object"),
        (["--batch", "bad.jsonl", "--status", "400"], "from the file alone"),
        (["x", "--header", "nonsense"], "is no header"),
    ],
)
def test_bad_input_is_one_line(place, capfd, words, says):
    place.write("bad.jsonl", '{"id": 1}\n{"id": \n')
    place.write("list.jsonl", "[1]\n")
    said = place.call(capfd, "explain", *words)
    assert said.code == 2
    assert says in said.last


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("plain words: nothing", {"body": "plain words: nothing"}),
        ("Note: a sentence", {"body": "Note: a sentence"}),
        ("ValueError: x", {"exception_class": "ValueError", "body": "x"}),
        ("a.b.Custom: x", {"exception_class": "a.b.Custom", "body": "x"}),
        ("429 tokens were used", {"body": "429 tokens were used"}),
        ("404 Not Found", {"body": "404 Not Found", "http_status": 404}),
        ("", {"body": ""}),
    ],
)
def test_only_what_is_a_class_or_a_status_is_taken_for_one(text, fields):
    assert fields_of(text) == fields


def test_what_is_piped_beside_options_is_read_too(place):
    import subprocess
    import sys

    command = [sys.executable, "-m", "yaoki", "explain", "--status", "529", "--json"]
    said = subprocess.run(
        command, input='{"error":{"type":"overloaded_error"}}', capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(said.stdout)["reason"] == "http.529.overloaded_error"
