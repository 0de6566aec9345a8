"""Secrets out, before a message is shown or stored; and what is left when ids, numbers and times are dropped."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from yaoki.classify._patterns import has_one, pattern

__all__ = ["MESSAGE_MAX", "fingerprint", "redact"]

MESSAGE_MAX: Final = 2000
_GONE = "[redacted]"

_SHAPES: Final = pattern(
    r"""
    -----BEGIN[ A-Z]{0,40}PRIVATE\ KEY-----[\s\S]{0,8000}?(?:-----END[ A-Z]{0,40}PRIVATE\ KEY-----|\Z)
  | \beyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?                                # JWT
  | \bsk[-_][\w*.-]{6,}                                                   # OpenAI, Anthropic, Stripe, OpenRouter
  | \b(?:pk|rk)_(?:live|test)_\w{6,}
  | \b(?:gsk|xai|hf|r8|pplx|nvapi|fw|tgp|csk|npm|dop|shpat|whsec|glpat|gh[porsu]|github_pat|lsv2)[-_][\w-]{16,}
  | \b(?:tvly|jina|pcsk|e2b|vck|sbp|sb_secret|lin_api|ntn|pypi|sntrys|hfr|voy|api_org)[-_][\w-]{16,}
  | \b(?:fc|pa|key|sess|secret|bedrock-api-key)-(?=[\w-]*\d)[\w-]{20,}
  | \bxox[abeoprs]-[\w-]{6,}
  | \bxapp-\d-[\w-]{10,}
  | \bABSK[\w+/=]{20,}                                                 # Bedrock
  | \bAQ\.[\w-]{20,}                                                   # Gemini
  | \bdapi[0-9a-f]{32}(?:-\d)?                                         # Databricks
  | \bSK[0-9a-f]{32}\b                                                 # Twilio
  | \b\d{8,10}:AA[\w-]{30,}                                            # Telegram
  | \bAIza[\w-]{20,}
  | \bya29\.[\w.-]{10,}
  | \b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}
  | \bSG\.[\w-]{10,}\.[\w-]{10,}
    """,
    re.VERBOSE | re.ASCII,
)
_HEADED: Final = (
    "tvly jina pcsk e2b vck sbp sb lin ntn pypi sntrys hfr voy api fc pa key sess secret bedrock gsk xai hf r8 pplx"
    " nvapi fw tgp csk npm dop shpat whsec glpat ghp gho ghu ghs ghr github lsv2 sk pk rk xapp xoxa xoxb xoxe xoxo xoxp"
    " xoxr xoxs"
)
_HEADS: Final = frozenset(_HEADED.split())
_HEAD: Final = pattern(r"(?<![A-Za-z0-9])([A-Za-z0-9]+)[-_]", re.ASCII)
_STEMS: Final = "ABSK AQ. dapi SK :AA BEGIN eyJ AIza ya29. AKIA ASIA AROA AIDA SG."
_SHAPE_STEMS: Final = tuple(_STEMS.split())
"""Every shape holds one of these, or a head before its first `-` or `_`: looking for them first is far cheaper."""

_SCHEMES: Final = pattern(
    r"\b((?i:bearer|basic|digest|negotiate|token))(\s{1,3})(?=[\w+/=.~-]*[\d=_A-Z])[\w+/=.~-]{8,}", re.ASCII
)
_NAMED: Final = pattern(
    r"""
    (?P<name>(?:api[\s_-]?key|secret|passw(?:or)?d|passphrase|pwd|private[_-]key|access[_-]?key(?:[_-]id)?
      |(?:access|refresh|id|auth|session|security|csrf|bearer)[_-]?token|authorization|credential|signature|cookie|\bsig)\b
      |(?<![\w-])(?:x-amz-)?token)
    (?P<sep>["'\\]{0,4}\s{0,3}(?:=>|[=:])\s{0,3})
    (?P<value>"[^"\n]{1,2000}"?|'[^'\n]{1,2000}'?|\\+"[^"\n]{1,2000}|(?:(?:bearer|basic)\s+)?[^\s,;&"'()<>}\]]{1,2000})
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_PROVIDED: Final = pattern(
    r"\b((?:api key|password|token|secret)(?: provided)?(?: is)?:? )([\w*./+=-]*[\d*][\w*./+=-]{5,})",
    re.IGNORECASE | re.ASCII,
)
_COOKIES: Final = pattern(r"\b((?:set-)?cookie[\"']?\s{0,3}[:=]\s{0,3})([^\n\r\"'}]{1,4000})", re.IGNORECASE | re.ASCII)
_URL: Final = pattern(r"(\b[a-z][a-z0-9+.-]{1,20}://)([^\s/@\"'<>]{1,500})@", re.IGNORECASE | re.ASCII)


_NAME_STEMS: Final = (
    *(
        "bearer",
        "basic",
        "digest",
        "negotiate",
        "token",
        "key",
        "secret",
        "passw",
        "passphrase",
        "pwd",
        "authorization",
    ),
    *("credential", "signature", "sig", "cookie"),
)


_SCHEME_STEMS: Final = frozenset(["bearer", "basic", "digest", "negotiate", "token"])
_PROVIDED_STEMS: Final = frozenset(["key", "passw", "token", "secret"])


def redact(text: str) -> str:
    """
    Return the text with secrets replaced by `[redacted]`.

    Keys by the shapes vendors publish, JWTs, private keys, Authorization values, cookies, passwords in
    URLs, and whatever is assigned to a name such as `api_key` or `password`. Names stay, so that the
    message still says what was wrong. Linear in the length of the text.
    """
    return _redacted(text) if len(text) <= _REMEMBERED_MAX else _redacted.__wrapped__(text)


_REMEMBERED_MAX: Final = 1000


@lru_cache(maxsize=512)
def _redacted(text: str) -> str:
    """Redact; a server in trouble says the same many times."""
    text = _URL.sub(rf"\1{_GONE}@", text) if "@" in text else text
    if not _HEADS.isdisjoint(_HEAD.findall(text)) or has_one(text, _SHAPE_STEMS):
        text = _SHAPES.sub(_GONE, text)
    low = text.lower()
    held = {stem for stem in _NAME_STEMS if stem in low}
    if not held:
        return text
    if "cookie" in held:
        text = _COOKIES.sub(rf"\1{_GONE}", text)
    if any(f"{scheme} " in low for scheme in held & _SCHEME_STEMS):
        text = _SCHEMES.sub(rf"\1\2{_GONE}", text)
    if any(_is_assigned(low, stem) for stem in held):
        text = _NAMED.sub(_named, text)
    if held.isdisjoint(_PROVIDED_STEMS) or not has_one(low, _PROVIDED_WORDS):
        return text
    return _PROVIDED.sub(rf"\1{_GONE}", text)


def _is_assigned(low: str, stem: str) -> bool:
    """Whether a `:` or `=` follows soon after the stem, somewhere: the pattern itself is dear."""
    at = low.find(stem)
    while at >= 0:
        near = low[at + len(stem) : at + len(stem) + _NEAR_MAX]
        if (":" in near or "=" in near) and not (near[0] == "s" and stem in _NO_PLURAL):
            return True
        at = low.find(stem, at + 1)
    return False


_NEAR_MAX: Final = 16
_NO_PLURAL: Final = frozenset(["key", "token", "secret"])
"""Of many tokens a message speaks, and of one it shows."""
_PROVIDED_WORDS: Final = ("api key ", "api key:", "password ", "password:", "token ", "token:", "secret ", "secret:")


def _named(found: re.Match[str]) -> str:
    value = found["value"]
    if _GONE in value or value.lower() in _PLAIN:
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['name']}{found['sep']}{quote}{_GONE}{quote if len(value) > 1 and value[-1] == quote else ''}"


_PLAIN: Final = frozenset({"none", "null", "true", "false", "invalid", "missing", "expired", "required"})

_DATES = pattern(
    r"\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s"
    r"|\b\d{1,2}[ -](?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b",
    re.ASCII,
)
_TOKENS = pattern(r"[^\W_][\w.:+-]*", re.ASCII)
_ID = pattern(r".*\d|[0-9a-f]{8,}$|(?:req|msg|run|call|toolu|chatcmpl|org|user|proj)[-_]\w", re.ASCII)


def fingerprint(text: str) -> str:
    """Return 16 hexadecimal digits, equal for texts that differ only in ids, numbers, times and punctuation."""
    return _hashed(text[:MESSAGE_MAX].lower())


@lru_cache(maxsize=1024)
def _hashed(low: str) -> str:
    from hashlib import blake2b  # it loads OpenSSL, which a process without failures does not need

    if has_one(low, _DATE_NAMES):
        low = _DATES.sub(" ", low)
    words = _TOKENS.findall(low)
    # Most words are letters alone, and too short for an id; asking the pattern about each costs more than the rest.
    kept = [word for word in words if (len(word) < _ID_LEAST and word.isalpha()) or not _is_id(word)]
    return blake2b(" ".join(kept).encode("utf-8", "replace"), digest_size=8).hexdigest()


@lru_cache(maxsize=2048)
def _is_id(word: str) -> bool:
    return _ID.match(word) is not None


_DATE_NAMES: Final = (
    *("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    *("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
)
_ID_LEAST: Final = 8
