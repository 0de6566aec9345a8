"""The persisted vocabulary is data: a change here is a change of the store's format, and needs a migration."""

from __future__ import annotations

import typing

import msgspec

from yaoki import records
from yaoki.journal import _schema

KINDS = {
    1: ("Claimed", "at epoch worker pid mark deaths budget"),
    2: (
        "Begin",
        (
            "at attempt rung slot key action args tool call call_id effect undeclared scope attempts_max "
            "deadline_at base_ms cap_ms check_after_ms timeout_ms reserved pgid given"
        ),
    ),
    3: (
        "Settle",
        (
            "at attempt rung outcome value value_lost executed failure decision output cause timeout used uncounted"
            " unavailable"
        ),
    ),
    4: ("Hold", "at since until reason action args call deadline_at joins schema rung"),
    5: ("Adopt", "at source value failure slot key action args call gap"),
    6: ("Checkpoint", "at turn form state prefix"),
    7: (
        "Question",
        "at id why text call args executed attempt attempts_max type schema options expires_at default note retries",
    ),
    8: ("Answer", "at question verdict value by"),
    9: ("TopUp", "at add by"),
    10: ("Signal", "at name value by"),
    11: ("Undo", "at outcome slot action call cause failure"),
    12: ("Value", "at value"),
    13: ("Gap", "at text"),
    14: ("Fired", "at"),
    15: ("Spend", "at calls tokens cost_usd"),
    16: ("Refused", "at failure call call_id"),
    17: ("Parked", "at state waits_for wake_at text diff"),
    18: ("Ended", "at state value failure step turns stopped_by"),
    19: ("Redrive", "at source step pass posts by failure input"),
    20: ("Cancel", "at by compensate"),
}

VALUES = {
    "Effect": "read_only idempotent keyed checked at_most_once",
    "FailureKind": "transient rate_limited overloaded permanent budget capability semantic programming fatal unknown",
    "Executed": "no maybe yes",
    "Scope": "request model key vendor process",
    "State": "pending running sleeping waiting completed capped dead cancelled",
    "Cause": "runner timeout loop",
}


def test_the_integers_of_the_record_kinds_are_these():
    assert {kind: cls.__name__ for kind, cls in records.KINDS.items()} == {k: name for k, (name, _) in KINDS.items()}


def test_every_record_is_written_with_these_field_names():
    written = {
        kind: [field.encode_name for field in msgspec.structs.fields(cls)] for kind, cls in records.KINDS.items()
    }
    assert written == {kind: fields.split() for kind, (_, fields) in KINDS.items()}


def test_what_records_contain_is_written_with_these_field_names():
    parts = (records.Failure, records.Decision, records.Spent)
    written = {cls.__name__: " ".join(field.encode_name for field in msgspec.structs.fields(cls)) for cls in parts}
    assert written == {
        "Failure": "kind reason message executed scope retry_after_s evidence fingerprint hint",
        "Decision": "do why next_at wait_ms rung",
        "Spent": "turns retries retry_wait_s calls tokens cost_usd wall_s",
    }


def test_every_enumerated_value_is_written_as_this_word():
    enums = (
        records.Effect, records.FailureKind, records.Executed, records.Scope, records.State, records.Cause,
    )  # fmt: skip
    assert {cls.__name__: " ".join(cls) for cls in enums} == VALUES


def test_every_kind_of_record_has_a_number():
    assert set(typing.get_args(records.Record)) == set(records.KINDS.values())


def test_the_store_marks_its_file_with_this_number_and_schema():
    assert (_schema.APPLICATION_ID, _schema.VERSION) == (1497452363, 4)
