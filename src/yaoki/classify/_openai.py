"""
The codes of OpenAI, and of those who speak its protocol: gateways, other vendors, servers for open models.

From "Error codes" (platform.openai.com/docs/guides/error-codes), the `code` of a failed response in the API
reference, and the error pages of Azure OpenAI, OpenRouter, Groq, DeepSeek, Mistral, Together, Fireworks,
Cerebras, xAI, Moonshot, DashScope; vLLM's, llama.cpp's and TGI's from their sources.
"""

from __future__ import annotations

from yaoki.classify._table import table
from yaoki.records import Executed, FailureKind, Scope

__all__ = ["CODES"]

_K, _NO, _MAYBE, _YES = FailureKind, Executed.NO, Executed.MAYBE, Executed.YES

CODES = table(
    "vendor.openai",
    "body.code",
    (_K.BUDGET, _NO, Scope.KEY, "{}",
     ("insufficient_quota billing_hard_limit_reached exceeded_current_quota_error usage_limit_reached"
      " usage_not_included insufficient_balance insufficient_credits credit_limit budget_exceeded"
      " arrearage allocation_quota_free_tier_only prepaid_bill_overdue postpaid_bill_overdue"
      " model_not_supported_on_free_tier balance_depleted request_quota_exceeded")),
    (_K.PERMANENT, _NO, Scope.KEY, "{}",
     ("invalid_api_key ip_not_authorized account_deactivated billing_not_active organization_restricted"
      " unsupported_country_region_territory invalid_authentication_error model_permission_blocked_project"
      " model_permission_blocked_org auth_error")),
    (_K.PERMANENT, _NO, Scope.MODEL, "{}",
     "model_not_found deployment_not_found invalid_model model_decommissioned model_not_available_on_flex"),
    (_K.PERMANENT, _NO, Scope.REQUEST, "{}",
     ("content_policy_violation image_content_policy_violation content_filter responsible_ai_policy_violation"
      " data_inspection_failed data_inspection_failed_error invalid_prompt cyber_policy bio_policy"
      " previous_response_not_found invalid_image invalid_image_mode invalid_base64_image empty_image_file"
      " image_file_not_found image_parse_error image_too_small invalid_image_format invalid_encrypted_content"
      " operation_not_supported not_supported_error idempotency_error unsupported_file invalid_file")),
    # A URL the vendor could not fetch: the same request may find it a moment later, but nobody says so.
    (_K.PERMANENT, _NO, Scope.REQUEST, "{}", "invalid_image_url failed_to_download_image"),
    (_K.CAPABILITY, _NO, Scope.REQUEST, "{}",
     ("context_length_exceeded string_above_max_length array_above_max_length image_too_large image_file_too_large"
      " unsupported_image_media_type exceed_context_size_error max_output_tokens invalid_request_prompt"
      " model_no_support_for_function")),
    (_K.PROGRAMMING, _NO, Scope.REQUEST, "{}",
     ("unknown_parameter unsupported_parameter unsupported_value missing_required_parameter invalid_type"
      " invalid_function_parameters missing_field")),
    (_K.SEMANTIC, _YES, Scope.REQUEST, "{}", "tool_use_failed json_validate_failed incomplete_generation"),
    (_K.RATE_LIMITED, _NO, Scope.KEY, "{}",
     ("rate_limit_exceeded rate_limit_reached rate_limit_reached_error rate_limited ratelimited model_rate_limit"
      " too_many_requests_error token_quota_exceeded limit_burst_rate throttling throttling_rate_quota"
      " throttling_burst_rate openrouter_in_flight_budget limit_requests requests_limit throttling_allocation_quota")),
    (_K.OVERLOADED, _NO, Scope.MODEL, "{}",
     ("engine_overloaded_error engine_overloaded slow_down capacity_exceeded queue_exceeded no_capacity"
      " service_unavailable_error service_tier_capacity_exceeded server_is_overloaded unavailable_error"
      " model_overloaded")),
    (_K.TRANSIENT, _MAYBE, Scope.VENDOR, "{}", "vector_store_timeout internal_error_timeout internal_error_algo"),
    (_K.TRANSIENT, _NO, Scope.REQUEST, "{}",
     "request_conflict idempotency_key_in_use lock_timeout conversation_locked websocket_connection_limit_reached"),
)  # fmt: skip
