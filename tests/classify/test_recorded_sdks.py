"""
The large SDKs' errors as `record_sdks` wrote them down from the real ones: what every run of the tests can hold.

`test_real_sdks` provokes them anew where the SDKs are installed (`yaoki[sdks]`).
"""

from __future__ import annotations

import json

import pytest

from tests.classify.rebuilt import Row, built, rows
from tests.classify.record_sdks import DATA, RECORDED, exported, rebuilt
from tests.classify.test_real_sdks import EXTRA, HERE
from yaoki.classify import Executed, FailureKind, classify, is_control_flow

ERRORS = rows("sdk_errors.jsonl")
CLASSES: list[list[str]] = [json.loads(line) for line in (DATA / "sdk_classes.jsonl").read_text().splitlines()]

BASES = {
    # Bases, and what carries an answer, which decides.
    "cohere.core.api_error.ApiError",
    "cohere.manually_maintained.cohere_aws.error.CohereError",
    "google.genai._gaos.errors.genaierror.GenAiError",
    "google.genai._interactions_errors.GeminiNextGenAPIClientError",
    "mistralai.client.errors.httpvalidationerror.HTTPValidationError",
    "mistralai.client.errors.mistralerror.MistralError",
    "mistralai.client.errors.observabilityerror.ObservabilityError",
    "mistralai.client.errors.sdkerror.SDKError",
    "mistralai.extra.exceptions.MCPException",
    "mistralai.extra.exceptions.MistralClientException",
    # Inside an SDK's own retries; what leaves is what they hold.
    "google.genai._gaos.utils.retries.PermanentError",
    "google.genai._gaos.utils.retries.TemporaryError",
    "mistralai.client.utils.retries.PermanentError",
    "mistralai.client.utils.retries.TemporaryError",
    # Of features no model call passes through.
    "mistralai.extra.exceptions.RealtimeSpeechException",
    "mistralai.extra.exceptions.RealtimeSpeechWSError",
    "mistralai.extra.exceptions.RealtimeTranscriptionException",
    "mistralai.extra.exceptions.RealtimeTranscriptionWSError",
    "mistralai.extra.exceptions.WorkflowPayloadCompressionException",
    "mistralai.extra.exceptions.WorkflowPayloadEncryptionException",
    "mistralai.extra.exceptions.WorkflowPayloadOffloadingException",
    "mistralai.extra.observability.otel.TracingErrors",
    "mistralai.extra.workflows.encoding.storage.blob_storage.BlobNotFoundError",
}


def is_inside_litellm(name: str) -> bool:
    """Whether a class is one LiteLLM translates, by the status it carries, before a caller sees it."""
    return name.startswith("litellm.") and not name.startswith("litellm.exceptions.")


UNDECIDED = BASES | {
    # Said to a proxy's user with a message in place of an answer.
    "litellm.exceptions.ModifyResponseException",
    *(mro[0] for mro in CLASSES if is_inside_litellm(mro[0])),
}


def named(row: Row) -> str:
    return f"{row['client']}-{row['id']}"


@pytest.mark.parametrize("row", ERRORS, ids=named)
def test_a_large_sdk_s_error_is_judged_as_the_answer_it_was_made_of(row: Row) -> None:
    failure = classify(rebuilt(row["error"]))
    if accept := row.get("accept"):
        assert failure.kind in accept, failure
    if row.get("refused") and failure.kind is not FailureKind.SEMANTIC:
        assert failure.executed is Executed.NO, failure
    if executed := row.get("executed"):
        assert failure.executed == executed, failure
    if (wait_s := row.get("retry_after_s")) is not None:
        assert failure.retry_after_s == wait_s, failure


def test_every_large_sdk_was_recorded_with_what_breaks() -> None:
    broken = {"page", "close", "hang", "refused", "later-0", "later-1", "later-2"}
    assert {row["client"] for row in ERRORS} == set(RECORDED)
    for client in RECORDED:
        assert broken < {row["id"] for row in ERRORS if row["client"] == client}


@pytest.mark.parametrize("mro", CLASSES, ids=lambda mro: mro[0])
def test_every_class_a_large_sdk_exports_has_a_deliberate_answer(mro: list[str]) -> None:
    error = built(tuple(mro))("")
    assert is_control_flow(error) or classify(error).kind is not FailureKind.UNKNOWN or mro[0] in UNDECIDED


def test_no_class_is_called_undecided_that_is_not_there() -> None:
    assert {mro[0] for mro in CLASSES} >= BASES


def test_a_class_the_sdks_export_today_was_recorded() -> None:
    """Bites where the SDKs are installed: a release with new classes wants `record_sdks` run again."""
    now = {f"{cls.__module__}.{cls.__qualname__}" for cls in exported()} if set(EXTRA) == HERE else set()
    assert now <= {mro[0] for mro in CLASSES}
