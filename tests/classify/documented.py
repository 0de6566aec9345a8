"""
What the vendors' own pages, SDKs and servers say their errors are: one line each, with where it is written.

A line is status, what the server says, and the kinds that are right; the first page a kind is written on is the
source of the group. Beside the labelled rows from the field, these hold the rules to what is documented.
"""

from __future__ import annotations

import json
from typing import NamedTuple

__all__ = ["DOCUMENTED", "Line"]


class Line(NamedTuple):
    vendor: str
    source: str
    status: int | None
    body: str
    kinds: str
    """The kinds that are right, words apart by spaces."""


def openai(message: str, type_: str | None = None, code: str | None = None) -> str:
    """Return the body OpenAI and those who speak like it send."""
    return json.dumps({"error": {"message": message, "type": type_, "param": None, "code": code}})


def anthropic(type_: str, message: str, code: str | None = None) -> str:
    details = {"details": {"error_code": code}} if code else {}
    return json.dumps({"type": "error", "error": {"type": type_, "message": message, **details}, "request_id": "req_01"})


def google(status: int, name: str, message: str, *details: dict[str, object]) -> str:
    error = {"code": status, "message": message, "status": name, **({"details": list(details)} if details else {})}
    return json.dumps({"error": error})


def aws(name: str, message: str) -> str:
    return json.dumps({"__type": f"com.amazon.coral.service#{name}", "message": message})


Row = tuple[int | None, str, str]


def group(vendor: str, source: str, *rows: Row) -> tuple[Line, ...]:
    return tuple(Line(vendor, source, *row) for row in rows)


_QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure"}

DOCUMENTED: tuple[Line, ...] = (
    *group(
        "anthropic", "https://docs.anthropic.com/en/api/errors",
        (400, anthropic("invalid_request_error", "max_tokens: Field required"), "permanent programming"),
        (400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000"
                        " > 200000, decrease input length or `max_tokens` and try again"), "capability"),
        (400, anthropic("invalid_request_error", "max_tokens: 100000 > 8192, which is the maximum allowed number of"
                        " output tokens for claude-3-5-sonnet"), "capability permanent programming"),
        (400, anthropic("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"),
         "permanent programming"),
        (400, anthropic("invalid_request_error", "messages.3.content.1.image.source.base64.data: At least one of the"
                        " image dimensions exceed max allowed size: 8000 pixels"), "capability"),
        (400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain"
                        " access on 2026-01-01 at 00:00 UTC."), "budget"),
        (400, anthropic("invalid_request_error", "This organization has been disabled."), "permanent"),
        (400, anthropic("invalid_request_error", "Output blocked by content filtering policy"), "permanent"),
        (400, anthropic("invalid_request_error", "tools.0.custom.input_schema: JSON schema is invalid. It must match"
                        " JSON Schema draft 2020-12"), "permanent programming"),
        (401, anthropic("authentication_error", "invalid x-api-key"), "permanent"),
        (401, anthropic("authentication_error", "OAuth token has expired. Please obtain a new token or refresh your"
                        " existing token."), "permanent"),
        (402, anthropic("billing_error", "There is a problem with your billing or payment information."), "budget"),
        (403, anthropic("permission_error", "Your API key does not have permission to use the specified resource"),
         "permanent"),
        (404, anthropic("not_found_error", "model: claude-9"), "permanent"),
        (409, anthropic("conflict_error", "The resource was changed by another request"), "permanent transient"),
        (413, anthropic("request_too_large", "Request exceeds the maximum size"), "capability"),
        (413, '{"error": {"type": "request_too_large", "message": "Request size exceeds model context window"}}',
         "capability"),
        (429, anthropic("rate_limit_error", "Number of concurrent connections has exceeded your rate limit. Please try"
                        " again later or contact sales at https://www.anthropic.com/contact-sales"), "rate_limited"),
        (429, anthropic("rate_limit_error", "This request would exceed your organization's rate limit of 40,000 input"
                        " tokens per minute"), "rate_limited"),
        (429, anthropic("rate_limit_error", "Extra usage is required for long context requests."),
         "budget permanent capability"),
        (429, anthropic("rate_limit_error", "This request would exceed your account's rate limit. Please try again"
                        " later."), "rate_limited"),
        (429, anthropic("rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit"
                        " (https://docs.anthropic.com/en/api/rate-limits); see the response headers for current"
                        " usage. Please reduce the prompt length or the maximum tokens requested, or try again"
                        " later. You may also contact sales at https://www.anthropic.com/contact-sales"),
         "rate_limited"),
        (500, anthropic("api_error", "Internal server error"), "transient"),
        (504, anthropic("timeout_error", "Request timed out"), "transient"),
        (529, anthropic("overloaded_error", "Overloaded"), "overloaded"),
        (200, anthropic("overloaded_error", "Overloaded"), "overloaded"),
        (200, anthropic("api_error", "Internal server error"), "transient"),
        (200, anthropic("rate_limit_error", "This request would exceed your account's rate limit."), "rate_limited"),
        (200, "event: error\ndata: " + anthropic("overloaded_error", "Overloaded"), "overloaded"),
        (None, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    ),
    *group(
        "anthropic", "anthropic 2.14: _error_classes.py and types/**/*_error_details.py",
        (400, anthropic("invalid_request_error", "The storage is active, so this delete didn't erase it.",
                        "external_storage_in_use"), "permanent"),
        (409, anthropic("conflict_error", "The bucket is already in use. Name a different bucket.", "storage_in_use"),
         "permanent"),
        (409, anthropic("conflict_error", "The external key changed while the request was validating it. Send the"
                        " request again.", "external_key_changed"), "transient"),
        (409, anthropic("conflict_error", "The content scan is still running. Retry once the scan finishes.",
                        "scan_pending"), "transient"),
        (409, anthropic("conflict_error", "Another request changed this storage setting.",
                        "storage_changed_concurrently"), "transient permanent"),
        (409, anthropic("conflict_error", "The marketplace already holds this name.", "plugin_name_taken"),
         "permanent programming"),
        (400, anthropic("invalid_request_error", "The response has already been continued.",
                        "thread_already_continued"), "permanent programming"),
        (400, anthropic("invalid_request_error", "The request body did not finish arriving in time.",
                        "request_body_timeout"), "transient"),
        (400, anthropic("invalid_request_error", "The domain is not allowed.", "email_domain_not_allowed"),
         "permanent"),
        (400, anthropic("invalid_request_error", "The key's network access controls blocked the request.",
                        "cmek_key_network_blocked"), "permanent"),
        (400, anthropic("invalid_request_error", "The organization has reached its limit of active API keys.",
                        "org_api_key_limit_exceeded"), "permanent budget"),
        (400, anthropic("invalid_request_error", "The request exceeds a limit on the number of tools.",
                        "available_tools_limit_exceeded"), "capability permanent"),
        (402, anthropic("billing_error", "The linked organization has reached a spend limit.",
                        "linked_organization_spend_limit_reached"), "budget"),
        (403, anthropic("permission_error", "Spend limits cannot be changed with this credential.",
                        "spend_limits_admin_api_writes_not_enabled"), "permanent"),
        (404, anthropic("not_found_error", "The file's expires_at has passed.", "file_expired"), "permanent"),
        (429, anthropic("rate_limit_error", "The contract's spend limit is reached.",
                        "contract_spend_limit_reached"), "budget"),
        (503, anthropic("api_error", "The approvals could not be read right now.", "authorization_check_unavailable"),
         "overloaded transient"),
        (503, anthropic("api_error", "Some changes may have been saved. Send the same request again.",
                        "change_outcome_unknown"), "transient"),
        (503, anthropic("api_error", "The workspace's encryption settings could not be read.",
                        "cmek_context_unavailable"), "overloaded transient"),
        (503, anthropic("api_error", "The workspace was created. Don't send the create again.",
                        "workspace_created_incomplete"), "permanent"),
        (503, anthropic("api_error", "The version was stored but is not yet usable.", "registration_pending"),
         "permanent"),
    ),
    *group(
        "openai", "https://platform.openai.com/docs/guides/error-codes",
        (401, openai("Incorrect API key provided: sk-abc***xyz. You can find your API key at"
                     " https://platform.openai.com/account/api-keys.", "invalid_request_error", "invalid_api_key"),
         "permanent"),
        (401, openai("You must be a member of an organization to use the API", "invalid_request_error"), "permanent"),
        (401, openai("Your IP address is not authorized to make API requests", "invalid_request_error",
                     "ip_not_authorized"), "permanent"),
        (403, openai("You do not have access to the organization tied to the API key.", "invalid_request_error"),
         "permanent"),
        (404, openai("The model `gpt-9` does not exist or you do not have access to it.", "invalid_request_error",
                     "model_not_found"), "permanent"),
        (429, openai("You exceeded your current quota, please check your plan and billing details.",
                     "insufficient_quota", "insufficient_quota"), "budget"),
        (429, openai("Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): Limit 3, Used 3,"
                     " Requested 1. Please try again in 20s.", "requests", "rate_limit_exceeded"), "rate_limited"),
        (429, openai("Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used"
                     " 29000, Requested 2000. Please try again in 6m0s.", "tokens", "rate_limit_exceeded"),
         "rate_limited"),
        (429, openai("Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000,"
                     " Requested 60000. The input or output tokens must be reduced in order to run successfully.",
                     "tokens", "rate_limit_exceeded"), "capability"),
        (429, openai("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"),
         "budget"),
        (400, openai("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"),
         "budget"),
        (429, openai("The engine is currently overloaded, please try again later", "server_error"), "overloaded"),
        (429, openai("Your account is not active, please check your billing details on our website.",
                     "billing_not_active", "billing_not_active"), "budget permanent"),
        (400, openai("This model's maximum context length is 8192 tokens. However, your messages resulted in 9000"
                     " tokens. Please reduce the length of the messages.", "invalid_request_error",
                     "context_length_exceeded"), "capability"),
        (400, openai("Your input exceeds the context window of this model.", "invalid_request_error",
                     "context_length_exceeded"), "capability"),
        (400, openai("Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760",
                     "invalid_request_error", "string_above_max_length"), "capability"),
        (400, openai("max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
                     "invalid_request_error", "invalid_value"), "capability programming permanent"),
        (400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use"
                     " 'max_completion_tokens' instead.", "invalid_request_error", "unsupported_parameter"),
         "permanent programming capability"),
        (400, openai("Unsupported value: 'temperature' does not support 0.2 with this model.",
                     "invalid_request_error", "unsupported_value"), "permanent programming capability"),
        (400, openai("Invalid value: 'foo'. Supported values are: 'system', 'user'.", "invalid_request_error",
                     "invalid_value"), "permanent programming"),
        (400, openai("Missing required parameter: 'messages'.", "invalid_request_error", "missing_required_parameter"),
         "permanent programming"),
        (400, openai("Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"'",
                     "invalid_request_error", "invalid_function_parameters"), "permanent programming"),
        (400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
                     "invalid_request_error", "invalid_prompt"), "permanent"),
        (400, openai("Your request was rejected as a result of our safety system.", "invalid_request_error",
                     "content_policy_violation"), "permanent"),
        (400, openai("You uploaded an unsupported image. Please make sure your image has of one the following"
                     " formats: ['png', 'jpeg', 'gif', 'webp'].", "invalid_request_error", "invalid_image_format"),
         "permanent capability programming"),
        (400, openai("Error while downloading https://example.com/a.png.", "invalid_request_error",
                     "invalid_image_url"), "permanent transient"),
        (400, openai("Previous response with id 'resp_1' not found.", "invalid_request_error",
                     "previous_response_not_found"), "permanent"),
        (400, openai("No tool output found for function call call_1.", "invalid_request_error"),
         "permanent programming"),
        (500, openai("The server had an error while processing your request. Sorry about that!", "server_error"),
         "transient"),
        (503, openai("That model is currently overloaded with other requests. You can retry your request.",
                     "server_error"), "overloaded"),
        (503, openai("Slow Down", "server_error", "slow_down"), "overloaded rate_limited"),
        (200, openai("The server had an error while processing your request", "server_error", "server_error"),
         "transient"),
        (None, openai("Rate limit reached for gpt-4o. Please try again in 1.5s.", "tokens", "rate_limit_exceeded"),
         "rate_limited"),
        (None, '{"type":"response.failed","response":{"error":{"code":"server_error","message":"The model failed"}}}',
         "transient"),
        (None, '{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Rate limit'
               ' reached. Please try again in 11.054s."}}}', "rate_limited"),
        (403, openai("Project `proj_x` does not have access to model `gpt-4o`", "invalid_request_error",
                     "model_not_found"), "permanent"),
        (400, openai("The vector store is not ready: it is still being processed", "invalid_request_error"),
         "permanent transient"),
        (429, openai("You've exceeded the 60 request/min rate limit, please slow down and try again.",
                     "rate_limit_exceeded"), "rate_limited"),
        (429, openai("Too many requests. Your enqueued token limit has been reached for gpt-4o",
                     "invalid_request_error", "token_limit_exceeded"), "rate_limited capability budget"),
    ),
    *group(
        "azure", "https://learn.microsoft.com/azure/ai-services/openai/how-to/quota and the API's own answers",
        (401, '{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint.'
              ' Make sure to provide a valid key for an active subscription."}}', "permanent"),
        (404, '{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist.'
              ' If you created the deployment within the last 5 minutes, please wait a moment and try again."}}',
         "permanent"),
        (429, '{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI'
              ' API version 2024-02-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please'
              ' retry after 9 seconds."}}', "rate_limited"),
        (429, '{"error":{"code":"RateLimitReached","message":"Your requests to gpt-4 have exceeded token rate limit'
              ' of your current OpenAI S0 pricing tier. Please retry after 53 seconds."}}', "rate_limited"),
        (403, '{"error":{"code":"403","message":"Out of call volume quota for OpenAI S0 pricing tier. Please retry'
              ' after 21 days. To increase your call volume switch to a different tier."}}', "budget"),
        (400, '{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI\'s content'
              ' management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":'
              '{"code":"ResponsibleAIPolicyViolation"}}}', "permanent"),
        (408, '{"error":{"code":"Timeout","message":"The operation was timeout."}}', "transient"),
        (400, '{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the'
              ' specified model, text-embedding-ada-002."}}', "permanent programming capability"),
        (429, '{"error":{"code":"NoCapacity","message":"The system is currently experiencing high demand and cannot'
              ' process your request. Your request exceeds the maximum usage size allowed during peak load."}}',
         "overloaded rate_limited capability"),
        (503, '{"error":{"code":"InternalServerError","message":"Backend returned unexpected response."}}',
         "transient"),
        (409, '{"error":{"code":"RequestConflict","message":"Another operation is being performed on the parent'
              ' resource. Please try again later."}}', "transient"),
    ),
    *group(
        "google", "https://ai.google.dev/gemini-api/docs/troubleshooting",
        (400, google(400, "INVALID_ARGUMENT", "Request contains an invalid argument."), "permanent programming"),
        (400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "permanent"),
        (400, google(400, "FAILED_PRECONDITION", "Gemini API free tier is not available in your country. Please enable"
                     " billing on your project in Google AI Studio."), "permanent budget"),
        (400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
                     {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}), "permanent"),
        (400, google(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.",
                     {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}), "permanent"),
        (400, google(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens"
                     " allowed (1048576)."), "capability"),
        (400, google(400, "INVALID_ARGUMENT", "Please ensure that function call turn comes immediately after a user"
                     " turn or after a function response turn."), "permanent programming"),
        (400, google(400, "INVALID_ARGUMENT", "Unable to process input image. Please retry or report in"
                     " https://developers.generativeai.google/guide/troubleshooting"), "permanent"),
        (400, google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."), "capability"),
        (403, google(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key."),
         "permanent"),
        (403, google(403, "PERMISSION_DENIED", "Vertex AI API has not been used in project 1 before or it is disabled.",
                     {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}),
         "permanent"),
        (403, google(403, "PERMISSION_DENIED", "Billing is disabled for this project.",
                     {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "BILLING_DISABLED"}),
         "permanent budget"),
        (404, google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta, or is not supported for"
                     " generateContent."), "permanent"),
        (429, google(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later. Please refer to"
                     " https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details."),
         "rate_limited overloaded"),
        (429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.",
                     {**_QUOTA, "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},
                     {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "42s"}), "rate_limited"),
        (429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.",
                     {**_QUOTA, "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}), "budget"),
        (429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform.googleapis.com/generate_content_requests"
                     "_per_minute_per_project_per_base_model with base model: gemini-2.5. Please submit a quota"
                     " increase request."), "rate_limited"),
        (429, google(429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap. Please go to AI"
                     " Studio at https://ai.studio/spend to manage your project spend cap."), "budget"),
        (429, google(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted. Please go to AI Studio to"
                     " manage your project and billing."), "budget"),
        (499, google(499, "CANCELLED", "The operation was cancelled."), "transient permanent"),
        (500, google(500, "INTERNAL", "An internal error has occurred. Please retry or report."), "transient"),
        (500, google(500, "UNKNOWN", "Unknown Error."), "transient"),
        (503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), "overloaded"),
        (503, google(503, "UNAVAILABLE", "The service is currently unavailable."), "overloaded"),
        (503, google(503, "UNAVAILABLE", "This model is currently experiencing high demand. Spikes in demand are"
                     " usually temporary. Please try again later."), "overloaded"),
        (504, google(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."), "transient"),
        (401, google(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), "permanent"),
        (409, google(409, "ABORTED", "The operation was aborted due to a concurrency conflict."), "transient"),
        (409, google(409, "ALREADY_EXISTS", "Requested entity already exists"), "permanent"),
        (501, google(501, "UNIMPLEMENTED", "Operation is not implemented, or supported, or enabled."), "permanent"),
        (400, google(400, "OUT_OF_RANGE", "The specified range is invalid."), "permanent programming"),
        (500, google(500, "DATA_LOSS", "Unrecoverable data loss or corruption."), "permanent transient"),
    ),
    *group(
        "openrouter", "https://openrouter.ai/docs/api-reference/errors",
        (401, '{"error":{"message":"No auth credentials found","code":401}}', "permanent"),
        (401, '{"error":{"message":"User not found.","code":401}}', "permanent"),
        (402, '{"error":{"message":"Insufficient credits. Add more using https://openrouter.ai/settings/credits",'
              '"code":402}}', "budget"),
        (403, '{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged",'
              '"metadata":{"reasons":["violence"],"flagged_input":"...","provider_name":"OpenAI"}}}', "permanent"),
        (403, '{"error":{"code":403,"message":"Key limit exceeded (monthly limit). Manage it using'
              ' https://openrouter.ai/settings/keys"}}', "budget"),
        (404, '{"error":{"message":"No endpoints found matching your data policy (Free model publication). Configure:'
              ' https://openrouter.ai/settings/privacy","code":404}}', "permanent"),
        (404, '{"error":{"message":"No endpoints found that support tool use.","code":404}}', "permanent capability"),
        (408, '{"error":{"code":408,"message":"Your request timed out"}}', "transient"),
        (429, '{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"google/gemini-2.0-flash-exp:'
              'free is temporarily rate-limited upstream. Please retry shortly, or add your own key to accumulate your'
              ' rate limits","provider_name":"Google"}}}', "rate_limited"),
        (429, '{"error":{"message":"Rate limit exceeded: free-models-per-min. ","code":429,"metadata":{"headers":'
              '{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1741305600000"}}}}',
         "rate_limited"),
        (429, '{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model'
              ' requests per day","code":429}}', "budget"),
        (502, '{"error":{"code":502,"message":"Your chosen model is down or we received an invalid response from it"}}',
         "transient overloaded"),
        (503, '{"error":{"code":503,"message":"There is no available model provider that meets your routing'
              ' requirements"}}', "overloaded permanent"),
        (200, '{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\\"error\\":{\\"message\\":'
              '\\"Rate limit reached\\",\\"type\\":\\"tokens\\",\\"code\\":\\"rate_limit_exceeded\\"}}"}}}',
         "rate_limited"),
        (200, '{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"upstream connect error"}}}',
         "transient"),
        (400, '{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\\"error\\":{\\"message\\":'
              '\\"This model\'s maximum context length is 131072 tokens.\\"}}","provider_name":"DeepInfra"}}}',
         "capability"),
        (400, '{"error":{"message":"gpt-nothing is not a valid model ID","code":400}}', "permanent"),
    ),
    *group(
        "groq", "https://console.groq.com/docs/errors",
        (401, openai("Invalid API Key", "invalid_request_error", "invalid_api_key"), "permanent"),
        (413, openai("Request too large for model `llama-3.3-70b-versatile` in organization `org` service tier"
                     " `on_demand` on tokens per minute (TPM): Limit 6000, Requested 12000, please reduce your message"
                     " size and try again.", "tokens", "rate_limit_exceeded"), "capability"),
        (400, openai("Failed to generate JSON. Please adjust your prompt.", "invalid_request_error",
                     "json_validate_failed"), "semantic"),
        (400, openai("Tool call validation failed: attempted to call tool 'x' which was not in request.tools",
                     "invalid_request_error", "tool_use_failed"), "semantic"),
        (400, openai("The model `llama2-70b-4096` has been decommissioned and is no longer supported.",
                     "invalid_request_error", "model_decommissioned"), "permanent"),
        (400, openai("Organization has been restricted. Please reach out to support if you believe this was in error.",
                     "invalid_request_error", "organization_restricted"), "permanent"),
        (498, openai("Flex tier capacity exceeded. Please try again later.", "capacity_exceeded",
                     "capacity_exceeded"), "overloaded"),
        (499, openai("Request cancelled", "request_cancelled"), "transient permanent"),
        (503, openai("llama-3.3-70b-versatile is currently over capacity. Please try again and back off exponentially.",
                     "internal_server_error"), "overloaded"),
        (424, openai("Failed dependency: remote MCP server could not be reached", "invalid_request_error"),
         "transient permanent"),
        (400, openai("spend limit reached: your organization has hit its spend limit.", "invalid_request_error",
                     "blocked_api_access"), "budget permanent"),
        (403, openai("The model `x` is blocked at the project level.", "permissions_error",
                     "model_permission_blocked_project"), "permanent"),
    ),
    *group(
        "deepseek", "https://api-docs.deepseek.com/quick_start/error_codes",
        (400, openai("Failed to deserialize the JSON body into the target type", "invalid_request_error",
                     "invalid_request_error"), "permanent programming"),
        (401, openai("Authentication Fails, Your api key: ****1234 is invalid", "authentication_error",
                     "invalid_request_error"), "permanent"),
        (402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), "budget"),
        (422, openai("Invalid Parameters", "invalid_request_error"), "permanent programming"),
        (429, openai("You are sending requests too quickly.", "rate_limit_reached_error"), "rate_limited"),
        (500, openai("Server Error", "server_error"), "transient"),
        (503, openai("Server Overloaded", "server_error"), "overloaded"),
        (503, openai("Service is too busy. We advise users to temporarily switch to alternative LLM API service"
                     " providers.", "service_unavailable_error"), "overloaded"),
    ),
    *group(
        "mistral", "https://docs.mistral.ai/api and the API's own answers",
        (401, '{"detail":"Unauthorized"}', "permanent"),
        (401, '{"message":"Unauthorized","request_id":"1"}', "permanent"),
        (422, '{"object":"error","message":{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required"'
              '}]},"type":"invalid_request_error","param":null,"code":null}', "permanent programming"),
        (400, '{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with'
              ' 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}', "capability"),
        (400, '{"object":"error","message":"Invalid model: nothing","type":"invalid_model","param":null,"code":"1500"}',
         "permanent"),
        (429, '{"object":"error","message":"Service tier capacity exceeded for this model.","type":'
              '"service_tier_capacity_exceeded","param":null,"code":"3505"}', "rate_limited overloaded"),
        (429, '{"message":"Requests rate limit exceeded"}', "rate_limited"),
        (429, '{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}',
         "rate_limited"),
        (402, '{"detail":"You have reached your monthly spend limit"}', "budget"),
        (503, '{"object":"error","message":"Service unavailable.","type":"internal_server_error","code":"1000"}',
         "overloaded transient"),
        (500, '{"object":"error","message":"Service unavailable.","type":"internal_server_error","code":"1000"}',
         "overloaded transient"),
    ),
    *group(
        "cohere", "https://docs.cohere.com/reference/errors",
        (400, '{"message":"invalid request: message must be at least 1 token long"}', "permanent programming"),
        (400, '{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292."}',
         "capability"),
        (401, '{"message":"invalid api token"}', "permanent"),
        (402, '{"message":"Please add or update your payment method at https://dashboard.cohere.com/billing"}',
         "budget"),
        (404, '{"message":"model \'x\' not found, make sure the correct model ID was used"}', "permanent"),
        (429, '{"message":"You are using a Trial key, which is limited to 1000 API calls / month. You can continue to'
              ' use the Trial key for free or upgrade to a Production key with higher rate limits at'
              ' https://dashboard.cohere.com/api-keys."}', "budget"),
        (429, '{"message":"You are using a Trial key, which is limited to 10 API calls / minute. You can continue to'
              ' use the Trial key for free or upgrade to a Production key with higher rate limits."}', "rate_limited"),
        (429, '{"message":"trial token rate limit exceeded, limit is 100000 tokens per minute"}', "rate_limited"),
        (498, '{"message":"invalid token"}', "permanent"),
        (499, '{"message":"request cancelled"}', "transient permanent"),
        (500, '{"message":"internal server error, this has been reported to our developers"}', "transient"),
        (503, '{"message":"The service is currently unavailable. Please try again later."}', "overloaded"),
    ),
    *group(
        "bedrock", "https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html",
        (400, aws("ValidationException", "Input is too long for requested model."), "capability"),
        (400, aws("ValidationException", "The provided model identifier is invalid."), "permanent programming"),
        (400, aws("ValidationException", "Invocation of model ID x with on-demand throughput isn't supported. Retry your"
                  " request with the ID or ARN of an inference profile that contains this model."), "permanent"),
        (400, aws("ValidationException", "A conversation must start with a user message."), "permanent programming"),
        (400, aws("ValidationException", "Malformed input request: #/texts/0: expected maxLength: 2048, actual: 19882,"
                  " please reformat your input and try again."), "capability permanent programming"),
        (400, aws("ServiceQuotaExceededException", "Your request exceeds the service quota for your account."),
         "budget"),
        (403, aws("AccessDeniedException", "You don't have access to the model with the specified model ID."),
         "permanent"),
        (403, aws("UnrecognizedClientException", "The security token included in the request is invalid."),
         "permanent"),
        (403, aws("ExpiredTokenException", "The security token included in the request is expired"), "permanent"),
        (403, aws("InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than"
                  " 20260101T000500Z"), "permanent"),
        (404, aws("ResourceNotFoundException", "This model version has reached the end of its life."), "permanent"),
        (408, aws("ModelTimeoutException", "Model has timed out in processing the request. Try your request again."),
         "transient"),
        (424, aws("ModelErrorException", "The request failed due to an error while processing the model."),
         "transient permanent"),
        (424, aws("ModelStreamErrorException", "An error occurred while streaming the response. Retry your request."),
         "transient"),
        (429, aws("ThrottlingException", "Too many tokens, please wait before trying again."), "rate_limited"),
        (429, aws("ThrottlingException", "Too many tokens per day, please wait before trying again."), "budget"),
        (429, aws("ThrottlingException", "Your request rate is too high. Reduce the frequency of requests."),
         "rate_limited"),
        (429, aws("ModelNotReadyException", "The model specified in the request is not ready."), "transient"),
        (500, aws("InternalServerException", "The system encountered an unexpected error during processing. Try your"
                  " request again."), "transient"),
        (503, aws("ServiceUnavailableException", "Bedrock is unable to process your request."), "overloaded"),
        (503, aws("ServiceUnavailableException", "Too many connections, please wait before trying again."),
         "overloaded rate_limited"),
        (400, aws("RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
         "permanent"),
        (400, aws("ProvisionedThroughputExceededException", "The level of configured provisioned throughput is"
                  " exceeded."), "rate_limited"),
        (409, aws("ConflictException", "Error occurred because of a conflict while performing an operation."),
         "permanent transient"),
    ),
    *group(
        "xai", "https://docs.x.ai/docs/key-information/debugging",
        (400, '{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***yz. You can'
              ' obtain an API key from https://console.x.ai."}', "permanent"),
        (403, '{"code":"The caller does not have permission to execute the specified operation","error":"Your newly'
              ' created team doesn\'t have any credits or licenses yet. You can purchase those on https://console.x.ai"'
              '}', "budget"),
        (429, '{"code":"Some resource has been exhausted","error":"Your team x has either used all available credits or'
              ' reached its monthly spending limit. To continue making API requests, please purchase more credits or'
              ' raise your spending limit."}', "budget"),
        (429, '{"code":"Some resource has been exhausted","error":"Too many requests for team x and model grok-4. Your'
              ' team\'s rate limit is 480 requests per minute."}', "rate_limited"),
        (404, '{"code":"Some requested entity was not found","error":"The model grok-9 does not exist or your team x'
              ' does not have access to it."}', "permanent"),
        (400, '{"code":"Client specified an invalid argument","error":"This model\'s maximum prompt length is 131072 but'
              ' the request contains 250000 tokens."}', "capability"),
        (503, '{"code":"The service is currently unavailable","error":"Service temporarily unavailable. The model is at'
              ' capacity and currently cannot serve this request. Please try again later."}', "overloaded"),
    ),
    *group(
        "moonshot", "https://platform.moonshot.ai/docs/api/chat (error codes)",
        (429, openai("Your account org-x <ak-x> is suspended due to insufficient balance, please recharge your account"
                     " or check your plan and billing details", "exceeded_current_quota_error"), "budget permanent"),
        (429, openai("Your account x request reached max organization concurrency: 3, please try again after 1 seconds",
                     "rate_limit_reached_error"), "rate_limited"),
        (429, openai("Your account x request reached max organization RPM: 20, please try again after 1 seconds",
                     "rate_limit_reached_error"), "rate_limited"),
        (429, openai("The engine is currently overloaded, please try again later", "engine_overloaded_error"),
         "overloaded"),
        (401, openai("Invalid Authentication", "invalid_authentication_error"), "permanent"),
        (400, openai("Invalid request: Your request exceeded model token limit: 131072", "invalid_request_error"),
         "capability"),
        (400, openai("The request was rejected because it was considered high risk", "content_filter"), "permanent"),
        (500, openai("server error", "unexpected_output"), "transient semantic"),
    ),
    *group(
        "z.ai", "https://docs.z.ai/api-reference/api-code",
        (429, '{"error":{"code":"1302","message":"Rate limit reached for requests"}}', "rate_limited"),
        (429, '{"error":{"code":"1305","message":"The service may be temporarily overloaded, please try again later"}}',
         "overloaded"),
        (429, '{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}',
         "budget"),
        (429, '{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-01-15'
              ' 12:00:00"}}', "budget rate_limited"),
        (400, '{"error":{"code":"1301","message":"System detected potentially unsafe or sensitive content in input or'
              ' generation."}}', "permanent"),
        (429, '{"error":{"code":"1302","message":"您的账户已达到速率限制，请您控制请求频率"}}', "rate_limited"),
        (429, '{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}', "budget"),
    ),
    *group(
        "dashscope", "https://www.alibabacloud.com/help/en/model-studio/error-code",
        (429, '{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded, please try again later."}',
         "rate_limited"),
        (429, '{"code":"Throttling.AllocationQuota","message":"Allocated quota exceeded, please increase your quota'
              ' limit."}', "rate_limited budget"),
        (429, '{"code":"limit_burst_rate","message":"Request rate increased too quickly. To ensure system stability,'
              ' please adjust your client logic to scale requests more smoothly over time."}', "rate_limited"),
        (400, '{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}',
         "budget"),
        (403, '{"code":"AllocationQuota.FreeTierOnly","message":"The free tier of the model has been exhausted. If you'
              ' wish to continue access the model on a paid basis, please disable the use free tier only mode."}',
         "budget"),
        (400, '{"code":"DataInspectionFailed","message":"Input data may contain inappropriate content."}',
         "permanent"),
        (400, '{"code":"InvalidParameter","message":"Range of input length should be [1, 30720]"}', "capability"),
        (500, '{"code":"InternalError.Timeout","message":"An internal timeout error has occured during execution."}',
         "transient"),
        (401, '{"code":"InvalidApiKey","message":"Invalid API-key provided."}', "permanent"),
    ),
    *group(
        "together, fireworks, perplexity, cerebras, hugging face", "each one's page of error codes",
        (402, openai("You've reached your spending limit for this billing cycle", "credit_limit"), "budget"),
        (429, openai("You have reached the rate limit specific to this model. The maximum rate limit for this model is"
                     " 6.0 queries and 180000 tokens per minute.", "model_rate_limit"), "rate_limited"),
        (503, openai("The server is currently overloaded with requests. Please try again later.", "overloaded"),
         "overloaded"),
        (422, openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 12000 `inputs`"
                     " tokens and 512 `max_new_tokens`", "invalid_request_error"), "capability"),
        (524, "<html><head><title>524: A timeout occurred</title></head></html>", "transient"),
        (412, openai("Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay"
                     " past invoices. Please go to https://fireworks.ai/account/billing for more information.",
                     "invalid_request_error", "PRECONDITION_FAILED"), "budget permanent"),
        (401, openai("You have run out of credits. Please purchase more credits at https://www.perplexity.ai/settings",
                     "insufficient_quota", "401"), "budget"),
        (429, openai("Tokens per minute limit exceeded - too many tokens processed.", "too_many_tokens_error",
                     "token_quota_exceeded"), "rate_limited"),
        (429, openai("Requests per day limit exceeded - too many requests sent.", "too_many_requests_error",
                     "request_quota_exceeded"), "budget"),
        (429, openai("We're experiencing high traffic right now! Please try again soon.", "too_many_requests_error",
                     "queue_exceeded"), "overloaded rate_limited"),
        (402, '{"error":"You have exceeded your monthly included credits for Inference Providers. Subscribe to PRO to'
              ' get 20x more monthly included credits."}', "budget"),
        (503, '{"error":"Model meta-llama/Llama-3 is currently loading","estimated_time":20.0}', "transient overloaded"),
        (429, '{"error":"Model is overloaded","error_type":"overloaded"}', "overloaded"),
        (424, '{"error":"Request failed during generation: Server error: CUDA out of memory","error_type":"generation"}',
         "transient permanent overloaded"),
        (422, '{"error":"Incomplete generation","error_type":"incomplete_generation"}', "semantic permanent transient"),
    ),
    *group(
        "vllm, llama.cpp, tgi, ollama, lm studio", "the servers' own sources",
        (400, '{"object":"error","message":"This model\'s maximum context length is 4096 tokens. However, you requested'
              ' 5000 tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError",'
              '"param":null,"code":400}', "capability"),
        (400, '{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192.",'
              '"type":"BadRequestError","param":null,"code":400}}', "capability"),
        (404, '{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,'
              '"code":404}', "permanent"),
        (500, '{"object":"error","message":"EngineCore encountered an issue. See stack trace (above) for the root'
              ' cause.","type":"InternalServerError","code":500}', "transient"),
        (503, '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', "transient overloaded"),
        (400, '{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the'
              ' context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":9000,'
              '"n_ctx":8192}}', "capability"),
        (500, '{"error":{"code":500,"message":"Failed to parse input at pos 12: <tool_call>","type":"server_error"}}',
         "semantic transient"),
        (500, '{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}',
         "capability"),
        (501, '{"error":{"code":501,"message":"This server does not support embeddings.","type":"not_supported_error"'
              '}}', "permanent capability"),
        (404, '{"error":"model \'llama9\' not found, try pulling it first"}', "permanent"),
        (400, '{"error":"registry.ollama.ai/library/gemma:2b does not support tools"}',
         "permanent capability programming"),
        (500, '{"error":"model requires more system memory (8.4 GiB) than is available (6.1 GiB)"}',
         "permanent capability overloaded fatal"),
        (503, '{"error":"server busy, please try again.  maximum pending requests exceeded"}', "overloaded"),
        (500, '{"error":"llama runner process has terminated: exit status 2"}', "transient"),
    ),
    *group(
        "gateways", "litellm's, Cloudflare's, Kong's and nginx's own pages",
        (429, '{"error":{"message":"litellm.RateLimitError: RateLimitError: OpenAIException - You exceeded your current'
              ' quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":'
              '"429"}}', "budget"),
        (400, '{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException -'
              ' {\\"type\\":\\"error\\",\\"error\\":{\\"type\\":\\"invalid_request_error\\",\\"message\\":\\"prompt is too'
              ' long: 210000 tokens > 200000 maximum\\"}}","type":null,"param":null,"code":"400"}}', "capability"),
        (400, '{"error":{"message":"Budget has been exceeded! Current cost: 10.2, Max budget: 10.0","type":'
              '"budget_exceeded","param":null,"code":"400"}}', "budget"),
        (401, '{"error":{"message":"Authentication Error, Invalid proxy server token passed.","type":"auth_error",'
              '"code":"401"}}', "permanent"),
        (429, '{"error":{"message":"No deployments available for selected model, Try again in 60 seconds. Passed'
              ' model=gpt-4","type":"None","code":"429"}}', "rate_limited overloaded"),
        (502, "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>",
         "transient"),
        (503, "<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>", "overloaded transient"),
        (503, "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
         "transient overloaded"),
        (504, "<html><head><title>504 Gateway Time-out</title></head></html>", "transient"),
        (521, "<title>521: Web server is down</title>", "transient"),
        (522, "<title>522: Connection timed out</title>", "transient"),
        (403, "<html><title>Attention Required! | Cloudflare</title>error code: 1020</html>", "permanent"),
        (429, "error code: 1015", "rate_limited"),
        (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", "capability"),
        (429, '{"message":"API rate limit exceeded"}', "rate_limited"),
        (429, '{"message":"Limit Exceeded"}', "rate_limited budget"),
        (429, "", "rate_limited"),
        (503, "no healthy upstream", "overloaded transient"),
    ),
    *group(
        "github", "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api",
        (403, '{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest/'
              'overview/rate-limits-for-the-rest-api"}', "rate_limited"),
        (403, '{"message":"Resource not accessible by integration"}', "permanent"),
        (422, '{"message":"Validation Failed","errors":[{"resource":"Issue","field":"title","code":"missing_field"}]}',
         "permanent programming"),
        (401, '{"message":"Bad credentials"}', "permanent"),
        (404, '{"message":"Not Found"}', "permanent"),
    ),
    *group(
        "stripe", "https://docs.stripe.com/error-codes and https://docs.stripe.com/api/idempotent_requests",
        (402, '{"error":{"code":"card_declined","decline_code":"insufficient_funds","message":"Your card has'
              ' insufficient funds.","type":"card_error"}}', "permanent budget"),
        (400, '{"error":{"message":"Keys for idempotent requests can only be used with the same parameters they were'
              ' first used with.","type":"idempotency_error"}}', "permanent programming"),
        (409, '{"error":{"code":"idempotency_key_in_use","message":"There is currently another in-progress request'
              ' using this Idempotent Key","type":"invalid_request_error"}}', "transient"),
        (429, '{"error":{"code":"lock_timeout","message":"This object cannot be accessed right now because another API'
              ' request or Stripe process is currently accessing it.","type":"invalid_request_error"}}',
         "transient rate_limited"),
        (429, '{"error":{"code":"rate_limit","message":"Too many requests hit the API too quickly.","type":'
              '"invalid_request_error"}}', "rate_limited"),
        (400, '{"error":{"code":"resource_missing","message":"No such customer: cus_1","type":"invalid_request_error"'
              '}}', "permanent"),
    ),
    *group(
        "slack, google workspace, notion", "https://api.slack.com/docs/rate-limits and the others' error pages",
        (429, '{"ok":false,"error":"ratelimited"}', "rate_limited"),
        (200, '{"ok":false,"error":"invalid_auth"}', "permanent"),
        (200, '{"ok":false,"error":"channel_not_found"}', "permanent"),
        (200, '{"ok":false,"error":"ratelimited"}', "rate_limited"),
        (403, '{"error":{"code":403,"message":"User Rate Limit Exceeded","errors":[{"domain":"usageLimits","reason":'
              '"userRateLimitExceeded","message":"User Rate Limit Exceeded"}]}}', "rate_limited"),
        (403, '{"error":{"code":403,"message":"Daily Limit Exceeded","errors":[{"domain":"usageLimits","reason":'
              '"dailyLimitExceeded"}]}}', "budget"),
        (403, '{"error":{"code":403,"message":"The user does not have sufficient permissions","errors":[{"reason":'
              '"insufficientFilePermissions"}]}}', "permanent"),
        (429, '{"object":"error","status":429,"code":"rate_limited","message":"You have been rate limited. Please try'
              ' again in a few minutes."}', "rate_limited"),
        (409, '{"object":"error","status":409,"code":"conflict_error","message":"Conflict occurred while saving. Please'
              ' try again."}', "transient"),
    ),
)  # fmt: skip
