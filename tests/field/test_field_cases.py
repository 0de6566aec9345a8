"""
Cases from other projects' bug trackers: what went wrong there, and the test that says what happens here.

One test may answer several. Cases about the error itself are held in `tests/classify/test_field_cases.py`, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

HELD = {
    # effects done twice
    "langchain-ai/langgraph#7417": "cli/test_kill.py::test_a_stopped_worker_keeps_its_run_until_it_is_killed",
    "google/adk-python#5450": "guarantees/test_g04.py::test_a_sibling_in_doubt_holds_nobody_up",
    "recoupable/app#1918": "cli/test_run.py::test_an_attempt_that_kills_its_process_runs_exactly_as_often_as_allowed",
    "github/copilot-cli#4668": "runtime/test_receipts.py::test_a_sync_attempt_with_a_helper_thread_is_left_at_its_time",
    "QwenLM/qwen-code#5381": "guarantees/test_g02.py::",
    "langchain-ai/langgraph#8702": "runtime/test_effects.py::test_a_keyed_call_in_doubt_is_sent_again_with_the_same_ke",
    # what is on disk
    "langchain-ai/langgraph#8039": "guarantees/test_g04.py::test_what_was_settled_before_a_sigkill_is_not_executed_aga",
    "langchain-ai/langgraph#8796": "journal/test_fleet.py::test_a_late_writer_is_fenced_once_its_run_was_taken",
    "langchain-ai/langgraph#4168": "runtime/test_saved.py::test_a_state_edited_in_place_is_saved_as_it_is",
    "langchain-ai/langgraph#8136": "journal/test_crowd.py::test_writers_take_turns_and_each_has_all_it_wrote",
    "langchain-ai/langgraph#6491": "runtime/test_values.py::test_a_value_comes_back_as_its_annotation_live_and_on_repl",
    "langchain-ai/langgraph#6970": "runtime/test_turns.py::test_a_state_of_another_type_waits_for_code",
    "indexnetwork/index#1088": "cli/test_bulk.py::test_prune_says_first_and_then_deletes_what_ended_long_ago",
    "openai/openai-agents-python#4615": "journal/test_faults.py::test_whichever_operation_fails_nothing_acknowledged_i",
    "google/adk-js#733": "runtime/test_map.py::test_a_hundred_branches_of_two_steps_survive_a_death_in_the_middle",
    "crewAIInc/crewAI#4501": "runtime/test_replay.py::",
    # people
    "langchain-ai/langgraph#8837": "runtime/test_ask.py::test_the_first_answer_wins",
    "langchain-ai/langgraph#5952": "guarantees/test_g04.py::test_a_sibling_in_doubt_holds_nobody_up",
    "langchain-ai/langgraph#4796": "runtime/test_approve.py::test_a_retry_needs_no_second_approval",
    "langchain-ai/deepagents#2946": "runtime/test_approve.py::test_a_refusal_without_a_reason_and_an_abort_hold_too",
    "google/adk-python#7148": "runtime/test_approve.py::test_a_refusal_is_step_failed_with_its_reason",
    "google/adk-python#5349": "crash/test_simulated.py::test_killed_at_point_1_then_2_then_3_a_run_ends",
    "microsoft/agent-framework#3255": "runtime/test_approve.py::test_a_model_is_told_of_the_refusal_and_its_other_call",
    "microsoft/agent-framework#5818": "cli/test_people.py::test_an_approval_is_listed_shown_and_given_by_what_is_shown",
    "agno-agi/agno#4416": "runtime/test_ask.py::",
    "pydantic/pydantic-ai#6370": "runtime/test_approve.py::test_a_model_is_told_of_the_refusal_and_its_other_calls_go",
    # circles, turns, repairs
    "langchain-ai/langgraph#4231": "agent/test_converse.py::test_turns_used_up_end_it_capped_with_what_was_said",
    "anthropics/claude-code#67812": "agent/test_converse.py::test_circles_are_told_refused_and_over",
    "anthropics/claude-code#30150": "agent/test_stall.py::test_every_circle_is_stopped_within_three_rounds",
    "OpenHands/OpenHands#5355": "agent/test_stall.py::test_a_thousand_healthy_traces_are_left_alone",
    "mastra-ai/mastra#9387": "guarantees/test_g05.py::test_turns_used_up_end_a_run_capped_with_what_it_returned",
    "crewAIInc/crewAI#4126": "runtime/test_repair.py::test_a_semantic_failure_that_the_tool_raises_is_repaired_within",
    "openai/openai-agents-python#2204": "agent/test_converse.py::test_mistakes_are_answered_to_the_model",
    "openai/openai-agents-python#844": "runtime/test_turns.py::test_exhaustion_caps_the_run_with_what_the_loop_returns",
    "pydantic/pydantic-ai#931": "runtime/test_budgets.py::test_a_capped_runs_partial_value_is_its_last_saved_state",
    # several at once, cancelled
    "openai/openai-agents-python#2584": "runtime/test_call_tools.py::test_bad_arguments_are_a_semantic_result",
    "huggingface/smolagents#2554": "runtime/test_branch_raises.py::",
    "pydantic/pydantic-ai#4502": "runtime/test_branch_raises.py::",
    "pydantic/pydantic-ai#7977": "agent/test_transcript.py::test_a_call_whose_result_was_lost_is_said_to_be_interrupte",
    "strands-agents/harness-sdk#859": "agent/test_transcript.py::test_whatever_is_given_what_comes_back_is_whole",
    "agno-agi/agno#9373": "agent/test_transcript.py::test_whatever_is_given_what_comes_back_is_whole",
    "aaif-goose/goose#7914": "agent/test_transcript.py::test_whatever_is_given_what_comes_back_is_whole",
    # budgets
    "pydantic/pydantic-ai-harness#696": "guarantees/test_g05.py::test_fifty_parallel_steps_on_a_budget_of_ten_calls_ma",
    "BerriAI/litellm#26672": "runtime/test_usage.py::test_siblings_reserve_before_any_of_them_begins",
    "sapientinc/PRAXIST#81": "guarantees/test_g05_groups.py::test_ten_processes_killed_now_and_then_never_spend_more",
    # retries: who, when, how often
    "pydantic/pydantic-ai#3298": "runtime/test_call_tools.py::test_bad_arguments_are_a_semantic_result",
    "pydantic/pydantic-ai-harness#775": "runtime/test_retry.py::test_what_can_heal_is_repeated_whether_or_not",
    "langchain-ai/langchain-litellm#252": "models/test_models.py::test_one_that_is_down_for_good_is_given_up",
    "agentarea/agentarea#320": "models/test_models.py::test_what_cannot_heal_is_asked_once",
    "synergycodes/workflowbuilder#117": "models/test_models.py::test_what_heals_is_asked_again_by_us_alone",
    "GCWing/OpenBitFun#2690": "models/test_models.py::test_what_cannot_heal_is_asked_once",
    "anthropics/claude-code#52864": "runtime/test_breakers.py::test_after_a_hint_every_run_on_that_scope_waits",
    "BerriAI/litellm#40130": "runtime/test_breakers.py::test_after_a_hint_every_run_on_that_scope_waits",
    "pydantic/pydantic-ai#4953": "models/test_models.py::test_who_has_seen_some_of_it_is_told_that_it_was_no_answer",
    # errors that are seen
    "langchain-ai/langgraph#6486": "runtime/test_call_tools.py::test_bad_arguments_are_a_semantic_result",
    "langchain-ai/langchain#38893": "runtime/test_teaching.py::test_a_bug_in_a_tool_is_named_with_its_line",
    "567-labs/instructor#2273": "runtime/test_retry.py::",
    # time
    "anthropics/claude-agent-sdk-python#319": "runtime/test_receipts.py::test_an_attempt_is_cut_at_its_timeout_and_is",
    "modelcontextprotocol/python-sdk#1577": "classify/test_real_mcp.py::test_what_a_tool_server_answers",
    "modelcontextprotocol/python-sdk#1789": "runtime/test_receipts.py::test_an_attempt_is_cut_at_its_timeout_and_is_in",
}


@pytest.mark.parametrize("case", HELD)
def test_a_case_is_answered_by_a_test(case):
    file, _, name = HELD[case].partition("::")
    path = TESTS / file
    found = re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    assert any(one.startswith(name) for one in found), f"{file} has no {name}"


def test_there_are_sixty_of_them():
    assert len(HELD) == 60
