"""Where notices go: addresses of apprise, a webhook, a command, a callable."""

from __future__ import annotations

import shlex
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from yaoki.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaoki.notify._notice import Notice

__all__ = ["TIMEOUT_S", "Sink", "command", "sink_of", "webhook"]

TIMEOUT_S = 15.0
"""How long one attempt to deliver may take."""
_SAID_MAX = 300
_SCHEMES = (
    "slack:// mailto:// ntfy:// tgram:// json:// …, or https:// for a webhook of one's own, or cmd: for a program"
)


class Sink(Protocol):
    """Where notices go. `send` returns once the notice has arrived, and raises if it has not."""

    @property
    def name(self) -> str:
        """What tells it from the others, also after a restart."""
        ...

    @property
    def shown(self) -> str:
        """The name for people, without secrets."""
        ...

    def send(self, notice: Notice) -> None:
        """Deliver, or raise; may be called again with the same notice."""
        ...


def sink_of(to: str | Callable[[Notice], object]) -> Sink:
    """
    Return the sink an address or a callable stands for.

    `https://…` and `http://…` get the notice as a JSON document by POST, its id as `Idempotency-Key`; `cmd:PROGRAM
    ARGS` gets it on stdin; any other address is apprise's (`pip install 'yaoki[notify]'`): Slack, mail, ntfy,
    Telegram and about a hundred more.

    Raises:
        DeclarationError: No such address, or apprise is not installed.
    """
    if callable(to):
        return _Callable(to)
    scheme = to.partition(":")[0].lower()
    if scheme == "cmd":
        return command(*shlex.split(to[4:]))
    if scheme in ("http", "https"):
        return webhook(to)
    return _Apprise(to)


def webhook(url: str) -> Sink:
    """Return a sink that POSTs each notice as JSON; an answer above 299 is a failure."""
    return _Webhook(url)


def command(*argv: str) -> Sink:
    """Return a sink that starts a program with the notice as JSON on its stdin; an exit status but 0 is a failure."""
    if not argv:
        raise DeclarationError("notify: cmd: names no program; for example: cmd:notify-send Yaoki")
    return _Command(argv)


def _hash(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


class _Sink:
    """A name that outlives the process, and gives no secret away: addresses carry tokens."""

    def __init__(self, scheme: str, identity: str) -> None:
        self.name = f"{scheme}:{_hash(identity)}"
        self.shown = f"{scheme} ({_hash(identity)[:6]})"


class _Callable(_Sink):
    def __init__(self, fn: Callable[[Notice], object]) -> None:
        where = f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"
        super().__init__("callable", where)
        self.shown = where
        self._fn = fn

    def send(self, notice: Notice) -> None:
        self._fn(notice)


class _Webhook(_Sink):
    def __init__(self, url: str) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        if not parts.hostname:
            raise DeclarationError(f"notify: {parts.scheme}:// names no host")
        super().__init__(parts.scheme, url)
        self.shown = f"{parts.scheme}://{parts.hostname} ({_hash(url)[:6]})"
        self._url = url

    def send(self, notice: Notice) -> None:
        from urllib.request import Request, urlopen

        headers = {"Content-Type": "application/json", "Idempotency-Key": notice.id, "User-Agent": "yaoki"}
        request = Request(self._url, data=msgspec.json.encode(notice), headers=headers, method="POST")  # noqa: S310 - http or https, by `sink_of`
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            answer.read(1)


class _Command(_Sink):
    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__("cmd", shlex.join(argv))
        self.shown = f"cmd:{argv[0]}"
        self._argv = list(argv)

    def send(self, notice: Notice) -> None:
        import subprocess

        done = subprocess.run(  # noqa: S603 - the program its user named
            self._argv, input=msgspec.json.encode(notice), capture_output=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            why = f": {said[0]}" if said else ""
            raise OSError(f"{self._argv[0]} ended with status {done.returncode}{why}"[:_SAID_MAX])


class _Apprise(_Sink):
    def __init__(self, url: str) -> None:
        scheme = url.partition("://")[0] if "://" in url else ""
        self._apprise: Any = _imported()
        self._to: Any = self._apprise.Apprise()
        if not scheme or not self._to.add(url):
            raise DeclarationError(f"notify: {scheme or url[:20]!r} is no address apprise knows: {_SCHEMES}")
        super().__init__(scheme, url)

    def send(self, notice: Notice) -> None:
        kinds = {"dead": "failure", "waiting": "warning", "rate": "warning", "breaker": "warning", "capped": "warning"}
        import logging

        with self._apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
            sent = self._to.notify(title=notice.title, body=notice.text, notify_type=kinds.get(notice.kind, "info"))
            said = cast("str", log.getvalue()).strip().splitlines()
        if not sent:
            raise OSError((said[-1] if said else "apprise could not deliver it")[:_SAID_MAX])


def _imported() -> Any:  # noqa: ANN401 - a module, which the core must not need
    try:
        import apprise  # type: ignore[import-untyped,import-not-found,unused-ignore] # pyright: ignore[reportMissingImports, reportMissingTypeStubs]
    except ImportError:
        msg = "notify: this address is one of apprise's, which is not installed: pip install 'yaoki[notify]'"
        raise DeclarationError(msg) from None
    return apprise
