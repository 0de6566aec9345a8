"""The vendor alone: what it promises, and that each misbehaviour really happens on the wire."""

from __future__ import annotations

import http.client
import subprocess
import sys
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.error import HTTPError

import msgspec
import pytest

from tests.demo.vendors import faulty, opening, running
from yaoki.demo._plan import Kill, Plan
from yaoki.demo._shop import Event

ANA = "ana@lima.example"


class Refused(NamedTuple):
    code: int
    headers: Message
    body: bytes

    @property
    def error(self) -> dict:
        return msgspec.json.decode(self.body)


def refused(call, *args, **kwargs) -> Refused:
    with pytest.raises(HTTPError) as caught:
        call(*args, **kwargs)
    with caught.value as error:
        return Refused(error.code, error.headers, error.read())


def test_a_refund_sent_twice_with_one_key_is_one_refund():
    with running() as vendor:
        assert vendor.refund("A-1001", 4200, "k1") == vendor.refund("A-1001", 4200, "k1")
        assert len(vendor.effects("refund")) == 1
        assert [event.key for event in vendor.events if event.event == "replayed"] == ["k1"]


def test_two_keys_are_two_refunds():
    with running() as vendor:
        vendor.refund("A-1008", 750, "k1")
        vendor.refund("A-1008", 750, "k2")
        assert [event.number for event in vendor.effects("refund")] == [1, 2]


def test_a_key_used_with_other_parameters_is_refused():
    with running() as vendor:
        vendor.refund("A-1001", 4200, "k1")
        assert refused(vendor.refund, "A-1001", 4100, "k1").code == 409


def test_a_refund_without_a_key_is_refused_and_not_done():
    with running() as vendor:
        assert refused(vendor.refund, "A-1001", 4200, "").code == 400
        assert vendor.effects("refund") == []


def test_a_mail_sent_twice_is_sent_twice_and_the_mail_log_shows_it():
    with running() as vendor:
        vendor.mail(ANA, "hello")
        vendor.mail(ANA, "hello")
        assert len(vendor.effects("send_mail")) == 2
        assert vendor.call("GET", f"/v1/mails?to={ANA}")["mails"] == [{"to": ANA, "body": "hello"}] * 2


def test_an_address_with_a_plus_sign_finds_its_mail():
    with running() as vendor:
        vendor.mail("kira+shop@oneil.example", "hi")
        assert len(vendor.call("GET", "/v1/mails?to=kira%2Bshop%40oneil.example")["mails"]) == 1


def test_an_unknown_order_is_404_in_the_shape_of_the_api():
    with running() as vendor:
        error = refused(vendor.call, "GET", "/v1/orders/A-9999")
        assert error.code == 404
        assert error.error == {"type": "error", "error": {"type": "not_found_error", "message": "no order A-9999"}}


def test_a_model_request_without_a_key_is_401():
    with running() as vendor:
        body = {"model": "m", "max_tokens": 9, "messages": opening("ticket-01")}
        error = refused(vendor.call, "POST", "/v1/messages", body)
        assert (error.code, error.error["error"]["type"]) == (401, "authentication_error")


def test_a_request_that_is_no_json_is_400():
    with running() as vendor:
        assert refused(vendor.call, "POST", "/v1/mails", "not an object").code == 400


def test_retry_after_comes_in_seconds():
    with running(faulty("429-seconds", "model")) as vendor:
        error = refused(vendor.ask, opening("ticket-01"))
        assert (error.code, error.headers["retry-after"]) == (429, "1")
        assert error.error["error"]["type"] == "rate_limit_error"


def test_retry_after_comes_as_a_date_one_second_past_the_servers_own():
    with running(faulty("429-date", "model")) as vendor:
        error = refused(vendor.ask, opening("ticket-01"))
        later, now = (parsedate_to_datetime(error.headers[name]) for name in ("retry-after", "date"))
        assert (error.code, (later - now).total_seconds()) == (429, 1.0)


def test_overloaded_is_529_with_its_error_body():
    with running(faulty("529", "model")) as vendor:
        error = refused(vendor.ask, opening("ticket-01"))
        assert error.code == 529
        assert error.error == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(("kind", "status", "done"), [("503-refused", 503, 0), ("502", 502, 0), ("502-after", 502, 1)])
def test_a_5xx_has_or_has_not_done_the_work(kind, status, done):
    with running(faulty(kind, "refunds")) as vendor:
        error = refused(vendor.refund, "A-1001", 4200, "k1")
        assert error.code == status
        assert ("retry-after" in error.headers) == (kind == "503-refused")
        assert len(vendor.effects("refund")) == done


@pytest.mark.parametrize(("kind", "done"), [("reset", 0), ("reset-after", 1)])
def test_a_reset_is_a_reset_on_the_wire(kind, done):
    with running(faulty(kind, "mails")) as vendor:
        with pytest.raises(ConnectionResetError):
            vendor.mail(ANA, "hello")
        assert len(vendor.effects("send_mail")) == done


def test_a_late_answer_has_done_the_work_before_the_caller_gives_up():
    with running(faulty("late", "mails")) as vendor:
        with pytest.raises(TimeoutError):
            vendor.mail(ANA, "hello", timeout_s=0.05)
        assert len(vendor.effects("send_mail")) == 1


def test_a_truncated_answer_promises_more_than_it_sends():
    with running(faulty("truncated", "refunds")) as vendor:
        with pytest.raises(http.client.IncompleteRead) as caught:
            vendor.refund("A-1001", 4200, "k1")
        assert caught.value.expected
        assert len(vendor.effects("refund")) == 1


def test_a_fault_meets_one_request_and_the_next_is_answered():
    with running(faulty("529", "orders")) as vendor:
        assert refused(vendor.call, "GET", "/v1/orders/A-1001").code == 529
        assert vendor.call("GET", "/v1/orders/A-1001")["cents"] == 4200
        assert [event.answer for event in vendor.events] == ["529", "200"]


@pytest.mark.parametrize(("when", "done"), [("after", 1), ("before", 0)])
def test_a_call_to_be_killed_is_held_until_the_caller_is_gone(when, done):
    plan = Plan(kills=(Kill(ticket="ticket-01", tool="send_mail", number=1, when=when),))
    with running(plan) as vendor:
        with pytest.raises(TimeoutError):
            vendor.mail(ANA, "hello", timeout_s=0.05)
        invited = [event.kill for event in vendor.events if event.event == "kill"]
        assert invited == list(plan.kills)
        assert len(vendor.effects("send_mail")) == done
        vendor.mail(ANA, "hello")  # each kill is invited once
        assert len(vendor.effects("send_mail")) == done + 1


def test_a_held_call_goes_on_when_it_is_told_to():
    plan = Plan(kills=(Kill(ticket="ticket-01", tool="send_mail", number=1, when="after"),))
    with running(plan) as vendor:
        vendor.server.go("ticket-01")
        assert vendor.mail(ANA, "hello") == {"status": "sent"}


def test_the_process_says_where_it_listens_and_ends_with_its_standard_input(tmp_path):
    log = tmp_path / "vendor.log"
    command = [sys.executable, "-m", "yaoki.demo.vendor", "--log", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        ready = msgspec.json.decode(process.stdout.readline(), type=Event)
        connection = http.client.HTTPConnection("127.0.0.1", ready.port, timeout=5)
        connection.request("GET", "/v1/orders/A-1001")
        assert connection.getresponse().read().startswith(b'{"id":"A-1001"')
        connection.close()
        process.stdin.close()
        assert process.wait(5) == 0
    assert [msgspec.json.decode(line)["event"] for line in log.read_text().splitlines()] == ["ready", "request"]


def test_a_vendor_started_by_hand_says_why_it_stops(tmp_path):
    process = subprocess.run(
        [sys.executable, "-m", "yaoki.demo.vendor", "--log", str(tmp_path / "vendor.log")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert process.returncode == 0
    assert "standard input has ended, so it stops" in process.stderr
