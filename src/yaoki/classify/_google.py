"""
Google's codes: the canonical ones of google.rpc.Code by name, and the `reason` of google.rpc.ErrorInfo.

From google/rpc/code.proto, "Troubleshooting" (ai.google.dev/gemini-api/docs/troubleshooting), "API errors"
(cloud.google.com/vertex-ai/generative-ai/docs/model-reference/api-errors) and google/api/error_reason.proto.
RESOURCE_EXHAUSTED is everything from a second's throttle to money: the quota's name, else the sentence, tells.
"""

from __future__ import annotations

from yaoki.classify._table import table
from yaoki.records import Executed, FailureKind, Scope

__all__ = ["CODES"]

_K, _NO, _MAYBE, _YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES

CODES = table(
    "vendor.google",
    "body.code",
    (_K.PERMANENT, _NO, Scope.KEY, "{}",
     ("permission_denied unauthenticated api_key_invalid api_key_expired service_disabled consumer_suspended"
      " consumer_invalid account_state_invalid api_key_service_blocked api_key_http_referrer_blocked"
      " api_key_ip_address_blocked api_key_android_app_blocked api_key_ios_app_blocked access_token_expired"
      " access_token_scope_insufficient access_token_type_unsupported credentials_missing user_project_denied"
      " location_policy_violated org_restriction_violation security_policy_violated")),
    (_K.BUDGET, _NO, Scope.KEY, "{}", "billing_disabled daily_limit_exceeded insufficient_g1_credits_balance"),
    (_K.RATE_LIMITED, _NO, Scope.KEY, "{}",
     "rate_limit_exceeded user_rate_limit_exceeded rate_limit_exceeded_unreg resource_quota_exceeded"),
    (_K.PERMANENT, _NO, Scope.MODEL, "{}", "not_found"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "{}", "already_exists unimplemented failed_precondition"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "{}", "out_of_range"),
    (_K.PERMANENT, _MAYBE, Scope.VENDOR, "{}", "data_loss"),
    (_K.OVERLOADED, _NO, Scope.MODEL, "{}", "unavailable model_capacity_exhausted"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "{}", "deadline_exceeded internal"),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "{}", "aborted"),
    # finishReason of a candidate: the model was asked, and answered with nothing that can be used.
    (_K.SEMANTIC, _YES, Scope.REQUEST, "{}", "malformed_function_call unexpected_tool_call malformed_response"),
    (_K.PERMANENT, _YES, Scope.REQUEST, "{}",
     ("safety recitation blocklist prohibited_content spii image_safety image_prohibited_content image_recitation")),
)  # fmt: skip
