"""Secrets never leave; what is left still says what was wrong."""

from __future__ import annotations

import base64

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaoki.classify import classify, fingerprint, redact

PART = "Ab3dEf6hIj9kLm2nOp5q"  # keys are put together here, so that no scanner takes them for real ones


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + PART * 2,
        "sk-ant-api03-" + PART,
        "sk-proj-" + PART,
        "sk-or-v1-" + PART,
        "sk_live_" + PART,
        "rk_test_" + PART,
        "whsec_" + PART,
        "gsk_" + PART,
        "xai-" + PART,
        "hf_" + PART,
        "AIza" + PART + PART[:15],
        "ya29." + PART,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "ghp_" + PART,
        "github_pat_" + PART,
        "xoxb-" + PART,
        "sk-ant-oat01-" + PART,
        "sk-lf-" + PART,
        "tgp_v1_" + PART,
        "fw_" + PART,
        "pplx-" + PART,
        "csk-" + PART,
        "r8_" + PART,
        "nvapi-" + PART,
        "lsv2_pt_" + PART,
        "tvly-" + PART,
        "jina_" + PART,
        "pcsk_" + PART,
        "e2b_" + PART,
        "fc-" + PART,
        "pa-" + PART,
        "vck_" + PART,
        "sbp_" + PART,
        "lin_api_" + PART,
        "ntn_" + PART,
        "pypi-" + PART,
        "key-" + PART,
        "ABSK" + PART + "==",
        "bedrock-api-key-" + PART,
        "AQ." + PART,
        "xapp-1-" + PART,
        "1234567890:AA" + PART * 2,
        "glpat-" + PART,
        "SG." + PART + "." + PART,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + PART,
        "-----BEGIN RSA PRIVATE KEY-----\n" + PART + "\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_key_of_a_known_shape_is_taken_out_wherever_it_stands(secret: str) -> None:
    text = redact(f"401 for key {secret}, try another ({secret})")
    assert PART not in text
    assert secret not in text
    assert text.startswith("401 for key [redacted]")


SECRET = "hunter2-Zq9!x"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {PART}",
        f"authorization: Basic {base64.b64encode(b'user:' + PART.encode()).decode()}",
        f"{{'Authorization': 'Bearer {PART}'}}",
        f'{{"x-api-key": "{PART}"}}',
        f'{{\\"api_key\\": \\"{PART}\\"}}',
        f"GET https://x.test/v1?key=1&api_key={PART}&q=2",
        f"https://x.test/cb?access_token={PART}",
        f"https://x.test/blob?X-Amz-Signature={PART}",
        f"postgresql://app:{PART}@db.internal:5432/app",
        f"redis://:{PART}@cache:6379/0",
        f"password={PART}",
        f"PGPASSWORD={PART} psql",
        f"aws_secret_access_key = {PART}",
        f"client_secret: {PART}",
        f"Incorrect API key provided: {PART}. You can find yours",
        f"Set-Cookie: session={PART}; Path=/",
        f"Cookie: a=1; sid={PART}",
        f"bearer {PART}",
    ],
)
def test_what_is_assigned_to_a_secret_s_name_is_taken_out(text: str) -> None:
    redacted = redact(text)
    assert PART not in redacted
    assert "[redacted]" in redacted


@pytest.mark.parametrize(
    "text",
    [
        "[Errno 111] Connection refused",
        "This model's maximum context length is 128000 tokens",
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29937",
        'duplicate key value violates unique constraint "pk_orders"',
        "API key not valid. Please pass a valid API key.",
        "token is invalid",
        "a key-value pair of the primary-key-of-the-table was not found",
        "pa-rameter and fc-something-that-is-long-enough are words",
        "https://example.test/path?page=2",
        "basic authentication failed",
    ],
)
def test_words_that_are_no_secret_stay(text: str) -> None:
    assert redact(text) == text


def test_a_failure_s_message_is_redacted_and_bounded() -> None:
    failure = classify(RuntimeError(f"password={PART} " + "x" * 5000))
    assert PART not in failure.message
    assert len(failure.message) == 2000


def test_a_key_across_the_end_of_the_message_is_not_shown_in_part() -> None:
    failure = classify(RuntimeError("y" * 1990 + " sk-" + PART * 5))
    assert PART[:4] not in failure.message


def test_the_url_of_a_real_error_loses_its_password() -> None:
    request = httpx.Request("GET", f"https://user:{PART}@x.test/")
    with pytest.raises(httpx.HTTPStatusError) as caught:
        httpx.Response(500, request=request).raise_for_status()
    assert PART not in classify(caught.value).message


@given(st.text(max_size=300))
def test_redacting_never_fails_and_is_done_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("request req_011CSHo failed after 3 s", "request req_92XkPq failed after 17 s"),
        ("no order 7f3a9c22-1111-4222-8333-444455556666", "no order 00000000-aaaa-4bbb-8ccc-ddddeeeeffff"),
        ("<object at 0x7f3a2b1c>", "<object at 0x11112222>"),
        ("at 2024-05-01T10:00:00Z: timeout", "at 2025-11-30T23:59:59Z: timeout"),
        ("expires Wed, 21 Oct 2015 07:28:00 GMT", "expires Thu, 1 Jan 2026 00:00:00 GMT"),
        ("connect 127.0.0.1:8080  refused", "connect 10.0.0.17:93 refused"),
    ],
)
def test_a_fingerprint_ignores_ids_numbers_and_times(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


def test_a_fingerprint_tells_different_failures_apart() -> None:
    texts = ["timeout", "reset by peer", "missing field name", "missing field total", ""]
    assert len({fingerprint(text) for text in texts}) == len(texts)


@given(st.text())
def test_a_fingerprint_is_sixteen_digits_of_anything(text: str) -> None:
    assert len(fingerprint(text)) == 16


def test_long_words_take_no_long_time() -> None:
    for word in (
        "a" * 20_000,
        "a-" * 10_000,
        "sk" * 10_000,
        "1" * 20_000,
        "eyJ" * 7000,
        "password " * 2000,
        "://a@" * 4000,
    ):
        redact(word[:4000])
        fingerprint(word)
        classify(RuntimeError(word))
