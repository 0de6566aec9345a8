"""A model that answers nonsense, tools that fail: nearly every run ends well all the same; see bench/agents.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from yaoki import ToolCall
from yaoki.codec import codec_for

BENCH = Path(__file__).parents[2] / "bench" / "agents.py"


@pytest.mark.parametrize("runs", [60, pytest.param(200, marks=pytest.mark.long)])
def test_nearly_every_run_ends_well_where_hardly_any_does_without(monkeypatch, runs):
    spec = importlib.util.spec_from_file_location("bench_agents", BENCH)
    assert spec is not None
    assert spec.loader is not None
    agents = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, agents)
    spec.loader.exec_module(agents)
    well, bare = agents.rates(runs)
    assert well >= 0.99
    assert bare <= 0.3


def test_arguments_that_are_no_object_do_not_lose_the_reply():
    call = ToolCall("c", "look", ["A-1"])
    codec = codec_for(ToolCall)
    assert codec.decode(codec.encode(call)) == call
