"""
MongoDB by pymongo's classes, the server's error labels and its codes.

Labels and codes: MongoDB's "Retryable Writes" and "Server Discovery and Monitoring" specifications, and
`error_codes.yml`. A bulk write that failed may have been written in part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from yaoki.classify._table import by_class, table
from yaoki.records import Executed, Failure, FailureKind, Scope

if TYPE_CHECKING:
    from yaoki.classify._evidence import Evidence

__all__ = ["judge"]

_K, _NO, _MAYBE = FailureKind, Executed.NO, Executed.MAYBE
_PACKAGES: Final = frozenset({"pymongo", "gridfs", "bson"})

_CLASSES: Final = table(
    "mongo.class",
    "class",
    (_K.TRANSIENT, _NO, Scope.VENDOR, "mongo.{}", "ServerSelectionTimeoutError NotPrimaryError"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "mongo.{}",
     ("AutoReconnect ConnectionFailure NetworkTimeout CursorNotFound ExecutionTimeout WTimeoutError"
     " WriteConcernError _PoolClosedError")),
    (_K.OVERLOADED, _NO, Scope.PROCESS, "mongo.pool", "WaitQueueTimeoutError"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "mongo.{}",
     "DuplicateKeyError CollectionInvalid FileExists NoFile WriteError EncryptionError EncryptedCollectionError"),
    (_K.PERMANENT, _MAYBE, Scope.REQUEST, "mongo.{}",
     "OperationFailure BulkWriteError ClientBulkWriteException CorruptGridFile _OperationCancelled ProtocolError"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "mongo.{}", "DocumentTooLarge"),
    (_K.SEMANTIC, _NO, Scope.REQUEST, "mongo.{}",
     "InvalidDocument InvalidStringData InvalidBSON InvalidId BSONError"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "mongo.{}", "ConfigurationError InvalidOperation InvalidName InvalidURI"),
    hints={"BulkWriteError": "Part of it may have been written: `details` says which."},
)  # fmt: skip

_CODES: Final = table(
    "mongo.code",
    "mongo.code",
    # "Retryable error" of the specification, less those below: the primary changed or is going away.
    (_K.TRANSIENT, _NO, Scope.VENDOR, "mongo.{}", "189 91 10107 13435 13436 10058 211 112 246 251 263 24"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "mongo.{}", "6 7 89 134 262 9001 11600 11602 50 43"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "mongo.{}", "462"),
    (_K.PERMANENT, _NO, Scope.KEY, "mongo.{}", "11 13 18 8000"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "mongo.{}", "26 48 66 67 85 86 121 11000 11001 12582"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "mongo.{}", "2 9 14 40 59 72 168 40324"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "mongo.{}", "10334 17419 292"),
    (_K.FATAL, _NO, Scope.VENDOR, "mongo.{}", "14031"),
)

_LABELS: Final = table(
    "mongo.label",
    "label",
    (_K.TRANSIENT, _NO, Scope.REQUEST, "mongo.{}", "TransientTransactionError NoWritesPerformed"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "mongo.{}", "RetryableWriteError UnknownTransactionCommitResult"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "mongo.{}", "SystemOverloadedError"),
)
_LABEL_MAX: Final = 16


def judge(evidence: Evidence) -> Failure | None:
    """Judge by the labels, then the code, then the class."""
    labels = evidence.get("_error_labels")
    if isinstance(labels, (set, frozenset, list)):
        for label in list(cast("set[object]", labels))[:_LABEL_MAX]:
            if isinstance(label, str) and (found := _LABELS.get(label)):
                return found
    code = evidence.get("code")
    if code is None and isinstance(details := evidence.get("details"), dict):
        code = cast("dict[object, object]", details).get("code")
    if isinstance(code, int) and (found := _CODES.get(str(int(code)))):
        return found
    return by_class(evidence, _PACKAGES, _CLASSES)
