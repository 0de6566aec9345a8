"""
Redis and Valkey by redis-py's classes, and by the word an error reply begins with.

Words: redis.io, "Redis serialization protocol specification" (simple errors) and the server's own sources. An
error reply means that the command was refused. A script may have written before it failed, and so may a
connection have carried the command before it broke: `maybe`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaoki.classify._patterns import pattern
from yaoki.classify._system import failure_of_errno, failure_of_resolving
from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_PACKAGES: Final = frozenset({"redis", "valkey"})

_CLASSES: Final = table(
    "redis.class",
    "class",
    (_K.TRANSIENT, _NO, Scope.VENDOR, "redis.{}",
     ("BusyLoadingError ReadOnlyError ClusterDownError MasterDownError TryAgainError MovedError AskError"
     " MasterNotFoundError SlaveNotFoundError SlotNotCoveredError ExternalAuthProviderError RequestTokenErr"
     " TokenRenewalErr")),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "redis.{}", "WatchError"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "redis.{}", "ConnectionError ClusterError RedisClusterException"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "timeout.read", "TimeoutError"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "redis.{}", "OutOfMemoryError"),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "redis.pool", "MaxConnectionsError"),
    (_K.PERMANENT, _NO, Scope.KEY, "redis.{}",
     ("AuthenticationError AuthorizationError NoPermissionError AuthenticationWrongNumberOfArgsError"
     " InvalidTokenSchemaErr")),
    (_K.PERMANENT, _NO, Scope.REQUEST, "redis.{}", "ModuleError LockNotOwnedError LockError NoSuchFieldsetError"),
    (_K.PERMANENT, _MAYBE, Scope.VENDOR, "redis.{}", "InvalidResponse"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "redis.{}", "NoScriptError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "redis.{}",
     ("DataError PubSubError ClusterCrossSlotError CrossSlotTransactionError InvalidPipelineStack ExecAbortError"
     " ChildDeadlockedError IncorrectPolicyType ResponseError")),
    hints={
        "NoScriptError": "Load the script again, then call it.",
        "ReadOnlyError": "The server is a replica now: connect again.",
        "LockNotOwnedError": "The lock ran out before it was released; what it guarded may have been done twice.",
    },
)  # fmt: skip

_WORDS: Final = table(
    "redis.reply",
    "reply",
    (_K.TRANSIENT, _NO, Scope.VENDOR, "redis.{}",
     ("LOADING READONLY CLUSTERDOWN MASTERDOWN TRYAGAIN MOVED ASK BUSY INPROG NOREPLICAS NOGOODSLAVE NOMASTERLINK"
     " NOTREADY FAILOVER")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "redis.{}", "UNBLOCKED IOERR"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "redis.{}", "OOM"),
    (_K.PERMANENT, _NO, Scope.KEY, "redis.{}", "NOAUTH WRONGPASS NOPERM DENIED"),
    (_K.PERMANENT, _NO, Scope.VENDOR, "redis.{}", "MISCONF"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "redis.{}",
     "BUSYKEY BUSYGROUP NOGROUP NOPROTO NOTBUSY UNKILLABLE NOQUORUM DUP"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "redis.{}", "NOSCRIPT"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "redis.{}", "WRONGTYPE CROSSSLOT EXECABORT NOREPLICA INVALIDOBJ"),
    hints={"MISCONF": "The server cannot write its snapshot to disk and refuses writes: an operator has to look."},
)  # fmt: skip

_WORD: Final = pattern(r"(?:Command # \d{1,6} \(.{0,400}\) of pipeline caused error: )?([A-Z]{3,15})(?: |$)")
_CONNECTING: Final = pattern(r"^Error (-?\d{1,4}) connecting to |^Timeout connecting to|^Error connecting to ")
_WAITED: Final = pattern(
    r"^No connection available|^Too many connections|^max number of clients|^Unable to acquire lock"
    r"|^Connection (not ready|has data)"
)
_SCRIPT: Final = pattern(r"\bscript:|^ERR Error running script|, on @user_script")

_SAID: Final = table(
    "redis.message",
    "message",
    (_K.OVERLOADED, _NO, Scope.VENDOR, "redis.clients", "max"),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "redis.pool", "No Too"),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "redis.lock", "Unable"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "timeout.connect", "Timeout"),
    (_K.TRANSIENT, _NO, Scope.VENDOR, "net.connect", "Error"),
    # A pooled connection that was found dead or desynchronised before anything was sent on it.
    (_K.TRANSIENT, _NO, Scope.VENDOR, "redis.stale", "Connection"),
    (_K.PROGRAMMING, _MAYBE, Scope.REQUEST, "redis.script", "script"),
)


def judge(evidence: Evidence) -> Failure | None:
    """Judge by what is said of connecting, then the reply's word, then the class."""
    text = evidence.message[:1000]
    if said := _WAITED.match(text):
        return _SAID[said[0].partition(" ")[0]]
    if said := _CONNECTING.match(text):
        return _never_connected(evidence, said[1]) or _SAID[said[0].partition(" ")[0]]
    found = by_class(evidence, _PACKAGES, _CLASSES) or by_class(evidence, None, _STRAY)
    if found is not None and found.reason == "redis.ResponseError":
        said = _WORD.match(text)
        found = _SAID["script"] if _SCRIPT.search(text) else _WORDS.get(said[1], found) if said else found
    if found is not None and text.startswith("Command # "):  # of a pipeline, whose other commands were carried out
        return Failure(
            kind=found.kind, reason=found.reason, scope=found.scope, evidence=found.evidence, hint=found.hint
        )
    return found


_STRAY: Final = {name: _CLASSES[name] for name in ("BusyLoadingError", "ClusterDownError")}


def _never_connected(evidence: Evidence, number: str | None) -> Failure | None:
    """Judge a connection that was never made by the system's number: of a name when negative, else errno."""
    if number is None:
        beneath = evidence.cause or evidence.context
        code = beneath.get("errno") if beneath is not None else None
        number = str(code) if isinstance(code, int) else None
    if number is None:
        return None
    found = failure_of_resolving(int(number)) if number.startswith("-") else failure_of_errno(int(number))
    return found and Failure(
        kind=found.kind,
        reason=found.reason,
        executed=_NO,
        scope=Scope.VENDOR,
        evidence="errno redis.message",
        hint=found.hint,
    )
