"""
What servers say, by what it means: sentences of vendors, gateways and servers for open models.

Each pattern is made of words only an error uses. Text is in small letters when it is looked at.
"""

from __future__ import annotations

from typing import Final

from yaoki.classify._patterns import has_one, pattern
from yaoki.records import Failure, FailureKind, Scope

__all__ = ["ELSEWHERE", "HEALING", "LASTING", "Saying"]

_K = FailureKind


class Saying:
    """
    One sort of sentence: patterns, and words one of which is in every text they match.

    The words are a cheap first look; `beside` is a second set, of which one must be there too.
    """

    def __init__(
        self, kind: FailureKind, scope: Scope, name: str, *, stems: str, beside: str = "", patterns: tuple[str, ...]
    ) -> None:
        self.kind, self.scope, self.name = kind, scope, name
        self._stems, self._beside = tuple(stems.split()), tuple(beside.split())
        self._pattern = pattern("|".join(patterns))

    def is_in(self, text: str) -> bool:
        """Whether the text, in small letters, says so."""
        return has_one(text, self._stems) and has_one(text, self._beside) and self._pattern.search(text) is not None

    def failure(self, prefix: str, retry_after_s: float | None = None) -> Failure:
        """Return the failure, its reason beginning with the prefix."""
        return Failure(
            kind=self.kind,
            reason=f"{prefix}.{self.name}",
            scope=self.scope,
            retry_after_s=retry_after_s,
            evidence="message",
        )


_THING = "(prompt|input|request|message|image|file|payload|content|context|conversation|body)s?"

LASTING: Final = (
    Saying(
        _K.PERMANENT,
        Scope.KEY,
        "credentials",
        stems="key token credentials authentic unauthorized",
        beside="invalid incorrect missing no expired revoked failed"
        " required fails error unauthorized unable provided reported bad",
        patterns=(
            r"api[ -]key (not valid|is invalid|has expired|expired|was revoked|was reported as|provided)",
            r"(invalid|incorrect|missing|no) (x-)?(api[ _-]?key|api token|auth credentials)",
            r"(security|access|auth\w*|bearer|oauth) token [^.]{0,40}(is |has )?(invalid|expired|revoked)",
            r"(invalid|bad) (credentials|token)|unable to locate credentials",
            r"authentication (failed|required|fails|error)|unauthorized",
        ),
    ),
    Saying(
        _K.CAPABILITY,
        Scope.REQUEST,
        "too_large",
        stems="too exceed context length maximum <= longer memory",
        patterns=(
            rf"{_THING} (is |are )?(too (long|large|big)|exceeds?\b[^.]{{0,60}}(max|limit|size|context))",
            rf"{_THING} [a-z ]{{0,12}}(size|length|dimensions)s? exceeds?\b",
            r"maximum (context|prompt|model) length|context (length|window|size|limit)[^.]{0,40}exceed",
            r"exceeds? (the )?(available|maximum|model'?s|context)[^.]{0,20}(context|limit)",
            r"exceeds [\d.]+ ?[kmg]i?b maximum|tokens? count [^.]{0,40}exceeds",
            r"exceed(s|ed|ing)? (the )?(model'?s )?(context|maximum) (window|length|size|limit)",
            r"exceeds? the maximum number of (input )?tokens|too many (input )?(tokens|images)",
            r"less than the (context|maximum) length",
            r"exceeded (the )?model'?s? token limit|longer than the (model'?s )?(maximum|context)|max_model_len",
            r"reduce the length|must be <= \d+|maximum allowed (number of )?(output )?tokens",
            r"string too long|expected maxlength|range of input length|length should not exceed|cannot exceed \d+",
            r"requires more (system |gpu )?memory|more than the model supports",
        ),
    ),
    Saying(
        _K.BUDGET,
        Scope.KEY,
        "credit",
        stems="credit insufficient billing payment spend afford month week quota balance budget"
        " funds recharge free usage volume standing plan overages key limit: searches",
        patterns=(
            r"credit balance|account balance|insufficient (account )?(balance|credit|fund|quota)",
            r"(more|out of|enough|remaining|any|included|prepayment|available) (usage )?credits",
            r"(purchase|buy|add|using) (more |additional )?credits|can only afford|(run )?out of funds",
            r"credits? ((are|is|was|were|have been|has been) )?(depleted|exhausted|used|exceeded|expired)",
            r"plans? (&|and) billing|payment required|payment method|recharge your account|please recharge",
            r"(api )?usage limits? ?(has been |have been )?(reached|exceeded)|specified api usage limits",
            r"spend(ing)? (limit|cap|budget)|monthly (usage|quota|limit|spend|allowance|included)|/ ?month\b|per month",
            r"budget has been exceeded|exceeded (your|its|the) (monthly |daily )?budget|over budget|max budget",
            r"quota (has been )?exhausted|exhausted (its|their|your) quota|\blimit: 0\b(?!\.)|call volume quota",
            r"account is in good standing|plan does not include|extra usage is required|individual quota reached",
            r"free (tier|allocation|trial|quota)[^.]{0,60}(exhausted|used up|exceeded|ended|expired)",
            r"weekly (usage |request |token )?(limit|quota|cap)|quota limit exceeded",
            r"(account|plan|key|subscription)( has)? run out of|exceed(s|ed) (your|the) (current )?(plan|subscription)",
            r"(limit|quota|allowance)\b[^.]{0,60}\b(current|this|calendar|billing) (month|week|cycle|period)",
            r"key limit exceeded|free allocation of|not available on the free tier|enable overages",
            r"(doesn'?t|does not) have an? free (quota )?tier",
        ),
    ),
    Saying(
        _K.PERMANENT,
        Scope.KEY,
        "refused",
        stems="supported allowed authorized denied disabled suspended"
        " deactivated restricted banned active permission available",
        patterns=(
            r"(country|region|location)[^.]{0,40}not (supported|available)|operation not allowed|not authorized to",
            r"access denied|permission denied|does not have permission",
            r"(organization|account)[^.]{0,30}(disabled|suspended|deactivated|restricted|banned|not active)",
        ),
    ),
    Saying(
        _K.PERMANENT,
        Scope.REQUEST,
        "policy",
        stems="safety policy policies filter flagged inappropriate unsafe blocked moderation",
        patterns=(
            r"safety (system|filter|setting|check|reason)|content (filter|management|moderation|filtering)",
            r"(usage|content|acceptable use) polic(y|ies)|inappropriate content|unsafe or sensitive content",
            r"(was|been|were|is) flagged (as|by|for|and)",
            r"(prompt|input|output|response|content) (was |has been )?blocked",
        ),
    ),
    Saying(
        _K.PERMANENT,
        Scope.MODEL,
        "model",
        stems="model",
        beside="found exist decommissioned deprecated invalid unknown unsupported such valid",
        patterns=(
            r"model\b[^.]{0,80} (not found|does not exist|doesn't exist|has been decommissioned|was deprecated)",
            r"(invalid|unknown|unsupported|no such) model\b|not a valid model|model identifier is invalid",
        ),
    ),
    Saying(
        _K.PERMANENT,
        Scope.REQUEST,
        "unprocessable",
        stems="could unable",
        beside="process decode read",
        patterns=(r"(could not|unable to) (process|decode|read) (the |input )?(image|file|document)",),
    ),
    Saying(
        _K.SEMANTIC,
        Scope.REQUEST,
        "tool_call",
        stems="tool function input",
        beside="malformed failed exist match",
        patterns=(
            r"malformed_function_call|failed to call a function|requested tool does not exist",
            r"tool call[^.]{0,40}did not match schema|failed to parse input at pos|tool call validation failed",
        ),
    ),
    Saying(
        _K.PROGRAMMING,
        Scope.REQUEST,
        "history",
        stems="tool roles conversation turn",
        beside="without must json unexpected output immediately alternate",
        patterns=(
            r"tool_use[^.]{0,60}without[^.]{0,20}tool_result|'tool_calls' must be followed by",
            r"tool call arguments as json|unexpected `?tool_use_id|no tool output found for function call",
            r"roles must alternate|conversation must start with a user|function call turn comes immediately",
        ),
    ),
    Saying(
        _K.PROGRAMMING,
        Scope.REQUEST,
        "parameter",
        stems="parameter argument",
        beside="unknown unsupported unrecognized missing unexpected invalid",
        patterns=(
            r"(unknown|unsupported|unrecognized|missing required) (request )?(parameter|argument)",
            r"unexpected keyword argument|invalid value for parameter",
        ),
    ),
)
"""What stays wrong however often it is sent."""

ELSEWHERE: Final = (
    ("credit", pattern("余额不足|欠费|额度已用|额度不足|限额将在|使用上限|调用上限|请充值")),
    ("too_large", pattern("超过最大长度|上下文长度|超出最大长度")),
    ("credentials", pattern("令牌(已过期|无效)|身份验证失败|鉴权失败")),
    ("rate_limit", pattern("速率限制|请求过于频繁|并发数?过高|频率限制")),
    ("overloaded", pattern("过载|访问量过大|负载较高")),
)
"""The same in the words of z.ai, Moonshot, DashScope and MiniMax."""

HEALING: Final = (
    Saying(
        _K.RATE_LIMITED,
        Scope.KEY,
        "rate_limit",
        stems="limit requests exhausted throttl quickly frequency abuse",
        patterns=(
            r"rate[ -]?limit(s|ed)?\b|too many requests|abuse (detection|rate)|resource (has been )?exhausted",
            r"request was throttled|throttl(ed|ing)|(requests|rate increased) too quickly|frequency of requests",
        ),
    ),
    Saying(
        _K.OVERLOADED,
        Scope.MODEL,
        "overloaded",
        stems="overload capacity busy unavailable demand traffic upstream",
        patterns=(
            r"(server|model|service|engine|system)[^.]{0,30} (is )?(currently )?(overloaded|at capacity|busy)",
            r"(server|model|service|engine|system|temporarily|currently|upstream) overloaded|^overloaded\b",
            r"\boverloaded[ _]errors?\b",
            r"(no|over|out of|at) capacity|capacity exceeded|service (is )?(temporarily |currently )?unavailable",
            r"experiencing high (demand|traffic|load)|no healthy upstream|too busy",
        ),
    ),
    Saying(
        _K.TRANSIENT,
        Scope.VENDOR,
        "server_error",
        stems="server internal retry stream connection incomplete timed temporar could load network gateway timeout"
        " try again hang fetch premature econn eai_ etimedout epipe unreach und_err",
        patterns=(
            r"server had an error|internal (server )?error|please retry your request|unexpected (server )?error",
            r"stream (disconnected|ended|closed|error|was interrupted) ?(before|un|:)?",
            r"connection (was )?(reset|closed|aborted|lost|refused|error)|closed the connection unexpectedly",
            r"closed connection without|incomplete (chunked )?read|network (error|connection lost)|socket hang up",
            r"fetch failed|premature close|idle timeout|(can|please) retry your request",
            r"\b(econnreset|econnaborted|econnrefused|epipe|etimedout|esockettimedout|eai_again|[eh]\w*unreach|und_err_\w+)\b",
            r"request timed out|read timed out|temporar(y|ily) (failure|unavailable)|gateway time-?out|bad gateway",
            r"could not be (completed|reached)[^.]{0,40}(transient|retry)|is currently loading|^loading model",
            r"upstream connect error|timeout occurred",
        ),
    ),
)
"""What may pass by itself."""
