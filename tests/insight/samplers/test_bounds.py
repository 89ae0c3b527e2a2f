"""Samplers that are asked for too much: they end, with a typed error, and tell of the part that they found."""

from __future__ import annotations

import json
import pickle

import pytest

from tests.insight.given_dataflow import dataflow_of
from toolyard import Tool, ToolRegistry
from toolyard.cli.insight import sample as sample_command
from toolyard.cli.options import YardOptions
from toolyard.insight.base import Edge, Feed, Sample
from toolyard.insight.samplers.base import derive_seed
from toolyard.model.errors import ConfigError, SamplingError
from toolyard.plugins import get_tool_sampler


class Flow:
    reads = ()
    writes = ("dataflow",)

    def __init__(self, edges):
        self._edges = edges

    def enrich(self, snapshot):
        return snapshot.tools, {"dataflow": dataflow_of(snapshot.tools, self._edges)}


def registry_of(count, edges):
    parameters = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    return ToolRegistry([Tool(f"t{n}", "n", f"thing {n}", parameters) for n in range(count)], enrichments=[Flow(edges)])


def path(count):
    return registry_of(count, [(n, n + 1, 0.5) for n in range(count - 1)])


@pytest.mark.parametrize("k", [7, 1_000_000, 10**30])
@pytest.mark.parametrize("kind", ["tc/chain", "tc/dag", "tc/missing", "tc/random", "tc/coverage"])
def test_asking_for_too_many_tools_fails_at_once_with_a_partial_result(kind, k):
    with pytest.raises(SamplingError) as caught:
        get_tool_sampler(kind, registry=path(6), k=k, seed=1).sample()
    assert caught.value.requested == k
    assert len(caught.value.tools) == 6


def test_examining_many_edges_counts_as_steps():
    edges = [(a, b, 0.5) for a in range(120) for b in range(120) if a != b and (a < 60) == (b < 60)]
    registry = registry_of(120, edges)
    with pytest.raises(SamplingError) as caught:
        get_tool_sampler("tc/chain", registry=registry, k=100, seed=1, max_tries=2000).sample()
    assert 0 < len(caught.value.tools) <= 60
    assert len(get_tool_sampler("tc/chain", registry=registry, k=60, seed=1).sample()) == 60
    with pytest.raises(SamplingError, match="max_tries=50 steps") as caught:
        get_tool_sampler("tc/dag", registry=registry, k=60, seed=1, max_tries=50).sample()
    assert 0 < len(caught.value.tools) < 60


@pytest.mark.parametrize("kind", ["tc/sparse", "tc/missing"])
def test_allow_short_holds_for_samplers_that_draw_with_others(kind):
    drawn = get_tool_sampler(kind, registry=path(6), k=50, seed=1, allow_short=True).sample()
    assert 0 < len(drawn) <= 6
    assert len(drawn.roles) == len(drawn)


def test_a_seed_may_be_any_whole_number():
    sampler = get_tool_sampler("tc/random", registry=path(6), k=3)
    assert sampler.sample(seed=10**5000) == sampler.sample(seed=10**5000)
    assert sampler.sample(seed=-(10**5000)).seed == -(10**5000)
    assert derive_seed(10**40) != derive_seed(10**40 + 1)


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        ("tc/random", {"namespace": []}, "the list of namespaces is empty"),
        ("tc/mix", {"samplers": [{"type": "tc/random", "registry": 3}]}, "leave out 'registry'"),
        ("tc/coverage", {"usage": {"n::t0": 10**30}}, "usage"),
        ("tc/coverage", {"usage": {"n::t0": -1}}, "usage"),
    ],
)
def test_invalid_options_are_refused_with_a_message(kind, options, told):
    with pytest.raises(ConfigError, match=told):
        get_tool_sampler(kind, registry=path(6), k=2, **options).sample()


def test_to_dict_returns_a_copy_of_plain_lists():
    edge = Edge("a::b", "c::d", 0.5, (Feed("x", "y", 0.5, signals={"name": 1.0}),))
    drawn = Sample([], topology="set", seed=1, edges=[edge], details={"pairs": ((1, 2),), "inner": {"a": [1]}})
    told = drawn.to_dict()
    assert told["edges"][0]["feeds"] == [
        {"output": "x", "parameter": "y", "score": 0.5, "how": "direct", "signals": {"name": 1.0}}
    ]
    assert json.loads(json.dumps(told)) == told
    told["details"]["inner"]["a"].append(2)
    assert drawn.details["inner"] == {"a": [1]}
    again = pickle.loads(pickle.dumps(drawn))
    assert (again.edges, again.seed, again.details) == (drawn.edges, 1, drawn.details)


@pytest.mark.parametrize(
    ("given", "told"), [({"option": ("k=3",)}, "say -k"), ({"option": ("registry=1",)}, "config"), ({"count": 0}, "1")]
)
def test_the_sample_command_refuses_unknown_options(tmp_path, given, told):
    with pytest.raises(ConfigError, match=told):
        sample_command("tc/random", k=2, options=YardOptions(config=tmp_path / "none.yaml"), **given)
