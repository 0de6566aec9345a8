"""
Telling people, beside the runs: a thread for each target takes from the outbox and sends.

A run's driver never waits for it: what is to be told is in the store by the run's own transaction, or (a question of
a run that goes on, a tool's failure rate) in a bounded queue in memory.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from yaoki.errors import JournalError
from yaoki.notify import Notice, Notify, Sink, sink_of
from yaoki.notify._plan import ATTEMPTS_MAX, batch, retry_after_s
from yaoki.notify._sinks import TIMEOUT_S
from yaoki.records import Question, Settle, State
from yaoki.runtime._notices import News, digest_of, news_of, notice_of
from yaoki.runtime._rates import Rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaoki.clock import Clock
    from yaoki.events import Event
    from yaoki.journal import Journal, Target

__all__ = ["Teller", "Telling", "settings_of"]

LOOK_S = 1.0
"""How often the outbox is looked at."""
_MINUTE_MS = 60_000
_ROUND_MAX = 2_000
"""Things looked at in one round."""
_QUEUE_MAX = 1_000
_RATE_QUIET_MS = 3_600_000
_ASK_QUIET_MS = 30 * 86_400_000


def settings_of(notify: Notify | str | Callable[[Notice], object] | Sequence[Any] | None) -> Notify | None:
    """Return what `notify=` says; None where nobody is to be told."""
    if notify is None or isinstance(notify, Notify):
        return notify
    to: Sequence[Any] = (notify,) if isinstance(notify, str) or callable(notify) else notify
    return Notify(to=to) if to else None


class Seen:
    """What the runs' own threads have seen and the tellers have not noted yet."""

    def __init__(self, rates: Rates | None) -> None:
        self.asking: deque[str] = deque(maxlen=_QUEUE_MAX)
        self.rates: deque[tuple[str, str]] = deque(maxlen=_QUEUE_MAX)
        self._watched = rates

    def __call__(self, event: Event) -> None:
        """Observe a record."""
        record = event.record
        if isinstance(record, Question):
            self.asking.append(event.run_id)
        elif isinstance(record, Settle) and self._watched is not None:
            found = self._watched.note(event.key, record)
            if found is not None:
                self.rates.append(found)

    def note(self, journal: Journal) -> None:
        """Put what was seen into the outbox."""
        while self.asking:
            row = journal.get(self.asking.popleft())
            if row is not None and row.state is State.RUNNING:  # one that waits is in the outbox by that
                subject = f"{row.id}.{journal.asked(row.id)}"
                journal.note("asks", run=row.id, epoch=row.epoch, subject=subject, quiet_ms=_ASK_QUIET_MS)
        while self.rates:
            tool, text = self.rates.popleft()
            journal.note("rate", subject=tool, note=text, quiet_ms=_RATE_QUIET_MS)


class Teller:
    """Tells one target. `round` does what is due and says for how long nothing is."""

    def __init__(
        self,
        journal: Journal,
        sink: Sink,
        worker: int,
        *,
        clock: Clock,
        per_minute_max: int = 6,
        seen: Seen | None = None,
        timeout_s: float = TIMEOUT_S + 5,
    ) -> None:
        self._journal = journal
        self._sink = sink
        self._worker = worker
        self._clock = clock
        self._per_minute_max = per_minute_max
        self._seen = seen
        self._timeout_s = timeout_s
        self._sending: threading.Thread | None = None
        self._retry_at_s = 0.0

    def round(self) -> float:
        """
        Send the next message if one is due; return how many seconds nothing is (0: there may be more).

        A death at any point leaves the range under way in the store: whoever tells the target next sends it again,
        with the same id.

        Raises:
            JournalError: The store cannot be read or written any more.
        """
        journal = self._journal
        target = journal.add_target(self._sink.name, self._sink.shown)
        if not journal.take_target(target, self._worker):
            return LOOK_S
        if self._seen is not None:
            self._seen.note(journal)
        left_s = self._retry_at_s - self._clock.monotonic_s()
        if target.failures and left_s > 0:
            return min(left_s, LOOK_S)
        found = journal.notable(target.upto, _ROUND_MAX, target.sending or 1 << 62)
        news = [one for each in found if (one := news_of(journal, target, each)) is not None]
        if not news:
            if found:
                journal.arrived(target, found[-1].id, {})
            return 0.0 if len(found) == _ROUND_MAX else LOOK_S
        if target.sending:
            return self._send(target, news, target.sending)
        now_ms = self._clock.now_ms()
        fresh = now_ms - target.minute_ms >= _MINUTE_MS
        sent = 0 if fresh else target.sent
        count = batch(len(news), self._per_minute_max - sent)
        if not count:
            return LOOK_S
        upto = found[-1].id if count == len(news) else news[count - 1].one.id
        journal.sending(target, upto, minute_ms=now_ms if fresh else target.minute_ms, sent=sent + 1)
        return self._send(target, news[:count], upto)

    def _send(self, target: Target, news: Sequence[News], upto: int) -> float:
        one = len(news) == 1
        notice = notice_of(self._journal, news[0], self._clock.now_ms()) if one else digest_of(self._journal, news)
        wrong = self._deliver(notice)
        if not wrong:
            self._journal.arrived(target, upto, {each.one.run: each.asks for each in news if each.asks})
            return 0.0
        failures = target.failures + 1
        self._journal.not_sent(target, wrong)
        self._retry_at_s = self._clock.monotonic_s() + retry_after_s(failures, self._clock.rng())
        if failures >= ATTEMPTS_MAX:
            self._journal.give_up(target, upto, len(news))
            _log().error("notify %s: gave up on %d notices (%s); see yaoki doctor", target.shown, len(news), wrong)
        return LOOK_S

    def _deliver(self, notice: Notice) -> str:
        """Send in a thread of its own, bounded; return what went wrong, or nothing."""
        if self._sending is not None and self._sending.is_alive():
            return "the attempt before still hangs"
        box: list[BaseException | None] = []

        def send() -> None:
            try:
                self._sink.send(notice)
            except BaseException as error:  # noqa: BLE001 - noted in the store
                box.append(error)
            else:
                box.append(None)

        self._sending = threading.Thread(target=send, name="yaoki-notify-send", daemon=True)
        self._sending.start()
        self._sending.join(self._timeout_s)
        if not box:
            return f"no answer within {self._timeout_s:g} s"
        error = box[0]
        return "" if error is None else f"{type(error).__name__}: {error}"[:500]


class Telling:
    """The tellers of one runner, a thread each; an observer of its runs."""

    def __init__(self, settings: Notify, *, store: str | None, clock: Clock) -> None:
        """
        Look at the addresses; nothing is started.

        Raises:
            DeclarationError: An address that cannot work, or apprise is missing.
        """
        self._settings = settings
        self._sinks = [sink_of(one) for one in settings.to]
        self._store = store
        self._clock = clock
        self.seen = Seen(None if settings.rate_max is None else Rates(settings.rate_max))
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, journal: Journal) -> None:
        """
        Begin to tell, as the worker of a journal; what happens from here on is news.

        Raises:
            JournalError: The store cannot be written.
        """
        self._stopped.clear()
        for sink in self._sinks:  # before the first run, which may have ended when the threads come to it
            journal.add_target(sink.name, sink.shown)
        worker = journal.worker
        self._threads = [
            threading.Thread(target=self._tell, args=(sink, worker), name="yaoki-notify", daemon=True)
            for sink in self._sinks
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """Send what is due and end, within that time; what could not be sent is the next process's to send."""
        self._stopped.set()
        until_s = self._clock.monotonic_s() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - self._clock.monotonic_s()))
        self._threads = []

    def _tell(self, sink: Sink, worker: int) -> None:
        from yaoki.journal import Journal

        try:
            journal = Journal.open(self._store, clock=self._clock, create=False, worker=False)
        except JournalError:
            _log().exception("notify %s: the store cannot be opened; nobody is told by this process", sink.shown)
            return
        teller = Teller(
            journal,
            sink,
            worker,
            clock=self._clock,
            per_minute_max=self._settings.per_minute_max,
            seen=self.seen,
        )
        try:
            while True:
                last = self._stopped.is_set()
                wait_s = teller.round()
                if wait_s and last:
                    return
                if wait_s:
                    self._stopped.wait(wait_s)
        except JournalError:
            _log().exception("notify %s: the store failed; nobody is told by this process any more", sink.shown)
        finally:
            journal.close()


def _log() -> Any:
    import logging

    return logging.getLogger("yaoki")
