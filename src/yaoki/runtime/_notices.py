"""What the outbox says, made into messages: whether it is news still, in which words, and what to type about it."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from yaoki.classify import redact
from yaoki.errors import YaokiError
from yaoki.notify import Notice
from yaoki.records import State
from yaoki.runtime._history import History
from yaoki.runtime._moves import Move, answers, moves, open_asks
from yaoki.runtime._report import light_receipt, receipt_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaoki.journal import Journal, Notable, RunRow, Target
    from yaoki.runtime._receipt import Receipt

__all__ = ["News", "digest_of", "news_of", "notice_of"]

_TEXT_MAX = 3_500
_TITLE_MAX = 120
_ASKS_SHOWN = 3
_LISTED = 10
_NEEDS = {
    "person": "waits for you",
    "budget": "has used up its budget",
    "signal": "waits for a signal",
    "pause": "waits for a scope that is paused",
}
_STANDING = {"waiting": (State.WAITING, State.SLEEPING), "dead": (State.DEAD,), "capped": (State.CAPPED,)}


class News(NamedTuple):
    """Something in the outbox that is news: the run as it is now (none for what is about no run)."""

    one: Notable
    row: RunRow | None
    asks: int = 0
    """Questions its run has asked so far, where it waits for a person."""

    @property
    def id(self) -> str:
        """The same for the same news, whoever sends it, however often."""
        one, row = self.one, self.row
        if row is None:
            return f"{one.what}.{one.subject}.{one.at_ms}"
        what = f"q{self.asks}" if self.asks else f"{one.what}.{one.epoch}"
        return f"{row.name}.{what}.{row.created_ms}"


def news_of(journal: Journal, target: Target, one: Notable) -> News | None:
    """Return it as news, or None: somebody has acted already, or the target knows."""
    if not one.run:
        well = one.what == "breaker" and not _is_open(journal, one.subject)
        return None if well else News(one, None)
    row = journal.numbered(one.run)
    if row is None:
        return None
    moved = row.epoch != one.epoch or row.state not in _STANDING.get(one.what, ())
    if row.state.final if one.what == "asks" else moved:
        return None
    if one.subject == "code":  # each new worker tries the new code once
        before = journal.notable_before(one)
        same = before is not None and (before.what, before.subject, before.note) == (one.what, one.subject, one.note)
        return None if same else News(one, row)
    if one.what == "asks" or one.subject == "person":
        asks = journal.asked(row.id)
        return News(one, row, asks) if asks > journal.asks_told(target, row.id) else None
    return News(one, row)


def notice_of(journal: Journal, news: News, now_ms: int) -> Notice:
    """Return the message about one thing."""
    one, row = news.one, news.row
    if row is None and one.what == "breaker":
        return _opened(journal, news)
    if row is None:
        commands = [Move(("stats", "--tool", one.subject), "by kind and over time")]
        return _notice(journal, news, "rate", one.note, one.note, commands)
    receipt = _receipt(journal, row)
    if one.what in ("asks", "waiting"):
        return _waiting(journal, news, receipt, now_ms)
    state = "is dead" if one.what == "dead" else "was capped"
    why = redact(receipt.text or receipt.stopped_by)
    commands = [*moves(receipt), Move(("show", row.name), "what it did, and why")]
    kind: Any = one.what
    return _notice(journal, news, kind, f"{row.name} {state}: {why}", why, commands)


def _opened(journal: Journal, news: News) -> Notice:
    scope = news.one.subject
    circuit = journal.scopes().circuits.get(scope)
    failures = f"{circuit.failures} failures in a row" if circuit is not None else "it failed often"
    why = f"{failures}, the last: {redact(circuit.reason if circuit is not None else news.one.note)}"
    text = f"{scope}: {why}. No run begins anything there but one probe at a time; once one succeeds, all go on."
    commands = [
        Move(("breakers",), "when it is probed next, and who waits"),
        Move(("breakers", "--reset", scope), "it is well again: forget it"),
        Move(("pause", scope), "no more probes either"),
    ]
    return _notice(journal, news, "breaker", f"{scope} is open: {why}", text, commands)


def _is_open(journal: Journal, scope: str) -> bool:
    circuit = journal.scopes().circuits.get(scope)
    return circuit is not None and bool(circuit.opened_ms)


def _waiting(journal: Journal, news: News, receipt: Receipt[Any], now_ms: int) -> Notice:
    name = receipt.run_id
    asks = open_asks(receipt, now_ms) if news.asks else []
    show = Move(("show", name), "what is known about it")
    if not asks:
        why = redact(receipt.text or news.one.note)
        needs = _NEEDS.get(news.one.subject, "waits for new code")
        act = shlex.split(receipt.next_action)[1:] if receipt.next_action else []
        commands = [show] if act[:1] in ([], ["show"]) else [Move(tuple(act), "or what else fits"), show]
        return _notice(journal, news, "waiting", f"{name} {needs}: {why}", why, commands)
    texts: list[str] = []
    for ask in asks[:_ASKS_SHOWN]:
        said = redact(ask.text if not ask.call or ask.call in ask.text else f"{ask.call}: {ask.text}")
        texts += [said, *_typed(journal, answers(name, ask)), ""]
    title = f"{name} waits for you: {redact(asks[0].text)}"
    return _notice(journal, news, "waiting", title, "\n".join(texts).strip(), [show])


def _notice(journal: Journal, news: News, kind: Any, title: str, text: str, commands: Sequence[Move]) -> Notice:
    row = news.row
    return Notice(
        id=news.id,
        kind=kind,
        title=_short(title, _TITLE_MAX),
        text=_whole(text, _typed(journal, commands), news.id),
        run_id=row.name if row is not None else "",
        loop=row.loop if row is not None else "",
        at_ms=news.one.at_ms,
    )


def digest_of(journal: Journal, news: Sequence[News]) -> Notice:
    """Return one message about many things: how many of each, the first of them, and the command that lists them."""
    words = {
        "waiting": "waiting",
        "asks": "waiting",
        "dead": "dead",
        "capped": "capped",
        "breaker": "open",
        "rate": "failing often",
    }
    counts = Counter(words[one.one.what] for one in news)
    title = f"{len(news):,} to look at: {' · '.join(f'{count:,} {word}' for word, count in counts.items())}"
    lines: list[str] = []
    for one in news[:_LISTED]:
        row = one.row
        why = _short(redact(row.note if row is not None else one.one.note), 100)
        lines.append(f"{row.name if row is not None else one.one.subject}  {words[one.one.what]}  {why}")
    if len(news) > _LISTED:
        lines.append(f"… and {len(news) - _LISTED:,} more")
    digest_id = f"digest.{news[0].one.id}.{news[-1].one.id}.{news[0].one.at_ms}"
    text = _whole(
        "\n".join(lines), _typed(journal, [Move(("runs",), "all of them, those that need you first")]), digest_id
    )
    return Notice(id=digest_id, kind="digest", title=title, text=text, at_ms=news[-1].one.at_ms)


def _receipt(journal: Journal, row: RunRow) -> Receipt[Any]:
    """Return the whole receipt; of a run whose records cannot be read, what its row says."""
    try:
        return receipt_of(row, History.of(journal.load(row.id)))
    except YaokiError as error:
        receipt = light_receipt(row)
        receipt.text = f"{receipt.text} (its records cannot be read: {error})".strip()
        return receipt


def _typed(journal: Journal, commands: Sequence[Move]) -> list[str]:
    """Return commands as they are typed wherever the reader is: with the store."""
    store = f"sqlite:///{os.path.abspath(journal.path)}"  # noqa: PTH100 - strings throughout, as SQLite takes them
    return [f"yaoki {shlex.join([*move.words, '--store', store])}   {move.means}" for move in commands]


def _whole(text: str, commands: Sequence[str], notice_id: str) -> str:
    tail = "\n".join(["", *commands, f"id: {notice_id}"])
    return _short(text, max(0, _TEXT_MAX - len(tail))) + tail


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
