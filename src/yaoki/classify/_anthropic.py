"""
Anthropic's codes: `error.type`, and the `error.details.error_code` that names the cause.

From "Errors" (docs.anthropic.com/en/api/errors) and the SDK's own list of error codes, each with the sentence
that says what to do. A code beats the status: 400 can clear by waiting, 409 and 503 can say that they will not.
"""

from __future__ import annotations

from yaoki.classify._table import table
from yaoki.records import Executed, FailureKind, Scope

__all__ = ["CODES"]

_K, _NO, _MAYBE, _YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES

CODES = table(
    "vendor.anthropic",
    "body.code",
    # error.type
    (_K.BUDGET, _NO, Scope.KEY, "{}", "billing_error"),
    (_K.PERMANENT, _NO, Scope.KEY, "{}", "authentication_error permission_error"),
    (_K.PERMANENT, _NO, Scope.MODEL, "{}", "not_found_error"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "{}", "request_too_large"),
    (_K.RATE_LIMITED, _NO, Scope.KEY, "{}", "rate_limit_error"),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "{}", "timeout_error"),
    (_K.OVERLOADED, _NO, Scope.MODEL, "{}", "overloaded_error"),
    # details.error_code: "wait", "retry", "send the request again".
    (_K.TRANSIENT, _NO, Scope.REQUEST, "{}",
     ("thread_continue_in_flight external_key_validation_timed_out request_body_timeout concurrent_membership_change"
      " external_key_changed scan_pending storage_changed_concurrently workspace_changed_concurrently")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "{}", "change_outcome_unknown cmek_key_unreachable"),
    (_K.OVERLOADED, _NO, Scope.VENDOR, "{}",
     "authorization_check_unavailable cmek_context_unavailable compaction_unavailable"),
    (_K.RATE_LIMITED, _NO, Scope.KEY, "{}", "ramp_limit_exceeded"),
    (_K.BUDGET, _NO, Scope.KEY, "{}",
     ("contract_spend_limit_reached enforced_spend_limit_reached linked_organization_spend_limit_reached"
      " linked_organization_billing_unavailable storage_quota_exceeded")),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "{}",
     "image_dimensions_too_large available_tools_limit_exceeded request_body_too_large_after_decoding"),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "{}", "tool_name_conflict"),
    # What reads as if it might pass, and is said not to. The last two did the work before they failed.
    (_K.PERMANENT, _NO, Scope.REQUEST, "{}",
     ("rbac_group_owner_access_unconfirmed external_storage_in_use storage_in_use claude_code_version_too_old"
      " storage_attach_limit_reached compaction_too_many_tool_references skill_read_blocked_undecryptable"
      " storage_attached_during_archive spend_limits_admin_api_writes_not_enabled thread_already_continued")),
    (_K.PERMANENT, _NO, Scope.KEY, "{}",
     ("organization_on_hold cmek_key_disabled cmek_key_network_blocked org_api_key_limit_exceeded"
      " workspace_api_key_limit_exceeded user_profile_billing_not_authorized user_profile_not_billable")),
    (_K.PERMANENT, _YES, Scope.REQUEST, "{}", "workspace_created_incomplete registration_pending"),
    hints={
        "workspace_created_incomplete": "It was created: do not send it again; the message says what to do with it.",
        "registration_pending": "It was stored, and is not usable yet: look it up instead of sending it again.",
        "change_outcome_unknown": "Some changes may be saved; sending the same request again finishes it.",
    },
)  # fmt: skip
