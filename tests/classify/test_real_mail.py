"""smtplib against a server on loopback that refuses, puts off and hangs up, as RFC 5321 has it."""

from __future__ import annotations

import smtplib
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from yaoki.classify import Executed, Failure, FailureKind, classify

K, NO, MAYBE = FailureKind, Executed.NO, Executed.MAYBE


@contextmanager
def served(replies: dict[str, str]) -> Iterator[int]:
    """Serve mail: each command is answered with its reply, or 250; an empty reply hangs up."""

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write((replies.get("CONNECT", "220 ready") + "\r\n").encode())
            for line in self.rfile:
                command = line[:4].strip().decode().upper()
                reply = replies.get(command, {"DATA": "354 go on", "QUIT": "221 bye"}.get(command, "250 ok"))
                if not reply:
                    return
                self.wfile.write((reply + "\r\n").encode())
                if reply.startswith("354"):
                    while self.rfile.readline().strip() != b".":
                        pass
                    if not (after := replies.get(".", "250 taken")):
                        return
                    self.wfile.write((after + "\r\n").encode())

    with socketserver.TCPServer(("127.0.0.1", 0), Session) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def failed(replies: dict[str, str], *, user: str = "") -> Failure:
    with served(replies) as port, pytest.raises(smtplib.SMTPException) as caught:
        send(port, user)
    return classify(caught.value)


def send(port: int, user: str) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        if user:
            client.login(user, "x")
        client.sendmail("a@test", ["b@test", "c@test"], "hello")


@pytest.mark.parametrize(
    ("replies", "kind", "executed", "reason"),
    [
        ({"CONNECT": "421 too busy"}, K.TRANSIENT, NO, "smtp.421"),
        ({"MAIL": "550 no"}, K.PERMANENT, NO, "smtp.550"),
        ({"RCPT": "450 later"}, K.TRANSIENT, NO, "smtp.450"),
        ({"RCPT": "550 no such user"}, K.PERMANENT, NO, "smtp.550"),
        ({"DATA": "552 too large"}, K.CAPABILITY, NO, "smtp.552"),
        ({".": "451 greylisted"}, K.TRANSIENT, NO, "smtp.451"),
        ({".": ""}, K.TRANSIENT, MAYBE, "smtp.disconnected"),
    ],
    ids=["connect", "sender", "later", "recipient", "size", "greylist", "hangup"],
)
def test_a_mail_server_s_reply_says_whether_it_took_the_mail(
    replies: dict[str, str], kind: FailureKind, executed: Executed, reason: str
) -> None:
    failure = failed(replies)
    assert (failure.kind, failure.executed, failure.reason) == (kind, executed, reason)


def test_a_password_that_is_refused_is_the_key_s() -> None:
    failure = failed({"EHLO": "250-here\r\n250 AUTH PLAIN", "AUTH": "535 5.7.8 bad credentials"}, user="me")
    assert (failure.kind, failure.executed, failure.scope) == (K.PERMANENT, NO, "key")
