"""What every sampler has in common: options, seeds, errors, threads, and the registry as it is at the moment."""

import json
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.insight.samplers.registries import FixedArtifacts, names, qualified, registry, tool, tools
from toolyard import (
    ConfigError,
    SamplingError,
    ToolRegistry,
    ToolSampler,
    Toolyard,
    get_tool_sampler,
    register_tool_sampler,
)
from toolyard.insight.base import Sample
from toolyard.insight.samplers.base import RandomStream, SamplerOptions, derive_seed, fresh_seed
from toolyard.plugins import SAMPLERS

ALL = {
    "tc/random": {},
    "tc/chain": {},
    "tc/fan_out": {},
    "tc/fan_in": {},
    "tc/dag": {},
    "tc/neighbor": {},
    "tc/sparse": {"sampler": {"type": "tc/chain", "k": 2}},
    "tc/conflict": {},
    "tc/irrelevant": {},
    "tc/missing": {},
    "tc/coverage": {"sampler": "tc/dag"},
    "tc/mix": {"samplers": ["tc/chain", {"sampler": {"type": "tc/random"}, "weight": 2}, "tc/neighbor"]},
}


def town():
    """Sixty tools in three namespaces, with edges and vectors that are always the same."""
    given = [tool(f"tool_{at}", "abc"[at % 3], f"Does thing {at}", [f"p{at % 7}"], [f"q{at}"]) for at in range(60)]
    edges = [
        (a, b, 0.2 + (a * 7 + b) % 80 / 100) for a in range(60) for b in range(60) if a != b and (a * 31 + b) % 9 == 0
    ]
    vectors = np.sin(np.outer(np.arange(1, 61), np.arange(1, 17)) % 11)
    return registry(given, edges, vectors, {})


@pytest.fixture(scope="module")
def yard():
    return town()


def drawn(made, count=5):
    """What all samplers draw, as plain data."""
    found = {}
    for kind, options in ALL.items():
        sampler = get_tool_sampler(kind, registry=made, k=4, **options)
        found[kind] = [one.to_dict() for one in sampler.series(count, seed=7)]
        found[kind].append(sampler.sample(seed=7).to_dict())
    return found


def test_all_samplers_are_registered():
    assert set(ALL) <= set(SAMPLERS.names())
    assert all(SAMPLERS.get(kind).sampler_name == kind for kind in ALL)


@pytest.mark.parametrize("kind", ALL)
def test_a_sample_is_a_list_of_k_tools_with_edges_roles_topology_and_seed(yard, kind):
    sampler = get_tool_sampler(kind, registry=yard, k=4, **ALL[kind])
    one = sampler.sample()
    assert isinstance(one, list)
    assert isinstance(one, Sample)
    assert len(one) == len(set(qualified(one))) == len(one.roles) == 4
    assert isinstance(one.seed, int)
    assert one.topology
    assert sampler.sample(seed=one.seed).to_dict() == one.to_dict()
    assert json.loads(json.dumps(one.to_dict()))["tools"] == qualified(one)


@pytest.mark.parametrize("kind", ALL)
def test_different_seeds_give_different_samples_and_without_a_seed_each_is_random(yard, kind):
    sampler = get_tool_sampler(kind, registry=yard, k=4, **ALL[kind])
    assert len({tuple(sorted(qualified(one))) for one in sampler.series(20, seed=3)}) > 5
    assert len({sampler.sample().seed for _ in range(5)}) == 5


@pytest.mark.parametrize("kind", ALL)
def test_a_sampler_is_immutable(yard, kind):
    sampler = get_tool_sampler(kind, registry=yard, k=4, **ALL[kind])
    before = dict(vars(sampler))
    list(sampler.series(5, seed=1))
    assert vars(sampler) == before


@pytest.mark.process
def test_equal_seeds_draw_the_same_in_any_process_whatever_the_hash_seed(yard):
    code = "import json; from tests.insight.samplers.test_base import drawn, town; print(json.dumps(drawn(town(), 3)))"
    expected = json.loads(json.dumps(drawn(yard, 3)))
    for hash_seed in ("0", "4242") if os.environ.get("TOOLYARD_SOAK") else ("4242",):  # and that of this process
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        assert json.loads(done.stdout) == expected


def test_equal_seeds_draw_the_same_in_any_thread(yard):
    samplers = [get_tool_sampler(kind, registry=yard, k=4, **options) for kind, options in ALL.items()]
    expected = [[sampler.sample(seed=seed).to_dict() for seed in range(20)] for sampler in samplers]
    fresh = town()
    others = [get_tool_sampler(kind, registry=fresh, k=4, **options) for kind, options in ALL.items()]

    def work(seed):
        return [sampler.sample(seed=seed).to_dict() for sampler in others]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(20)))
    assert [list(rows) for rows in zip(*found, strict=True)] == expected


def test_global_randomness_is_neither_used_nor_disturbed(yard):
    import random

    random.seed(5)
    state = random.getstate()
    first = drawn(yard, 1)
    assert random.getstate() == state
    random.seed(6)
    assert drawn(yard, 1) == first


def test_options_of_the_call_win_over_those_of_the_constructor():
    sampler = get_tool_sampler("tc/random", registry=registry(20), k=3, seed=1)
    assert len(sampler.sample()) == 3
    assert len(sampler.sample(5)) == 5
    assert sampler.sample().seed == 1
    assert sampler.sample(seed=2).seed == 2
    assert names(sampler.sample()) == names(sampler.sample())
    assert names(sampler.sample(seed=2)) != names(sampler.sample())
    assert sampler.options.k == 3


@pytest.mark.parametrize("kind", ALL)
def test_namespace_none_at_a_call_draws_from_all_namespaces(yard, kind):
    sampler = get_tool_sampler(kind, registry=yard, k=4, namespace="a", **ALL[kind])
    free = get_tool_sampler(kind, registry=yard, k=4, **ALL[kind])
    assert {one.namespace for drawn in sampler.series(5, seed=1) for one in drawn} == {"a"}
    found = list(sampler.series(30, seed=1, namespace=None))
    assert {one.namespace for drawn in found for one in drawn} > {"a"}
    assert [one.to_dict() for one in found] == [one.to_dict() for one in free.series(30, seed=1)]


def test_an_option_that_a_call_gives_as_none_is_at_its_default():
    sampler = get_tool_sampler("tc/random", registry=registry(3), k=5, seed=1, allow_short=True)
    assert len(sampler.sample(None, seed=None)) == 3
    assert sampler.sample(seed=None).seed == 1
    with pytest.raises(SamplingError, match="found 3 of 5 tools"):
        sampler.sample(allow_short=None)


@pytest.mark.parametrize("kind", ["tc/sparse", "tc/coverage", "tc/missing"])
def test_the_seed_of_an_inner_sampler_is_refused_because_it_would_decide_nothing(kind):
    with pytest.raises(ConfigError, match=f"the seed of {kind} decides; leave it out there, or give it to {kind}"):
        get_tool_sampler(kind, registry=registry(5), k=2, sampler={"type": "tc/random", "seed": 3})
    sampler = get_tool_sampler(kind, registry=registry(5), k=2)
    with pytest.raises(SamplingError, match="tc/random inside it has the seed 3"):
        sampler.sample(sampler={"type": "tc/random", "seed": 3})


def test_a_series_derives_a_seed_per_sample_and_is_repeatable():
    sampler = get_tool_sampler("tc/random", registry=registry(20), k=3)
    samples = list(sampler.series(5, seed=9))
    assert [one.to_dict() for one in samples] == [one.to_dict() for one in sampler.series(5, seed=9)]
    assert len({one.seed for one in samples}) == 5
    assert samples[2].to_dict() == sampler.sample(seed=samples[2].seed).to_dict()
    assert [one.seed for one in islice(sampler.series(10**9, seed=9), 3)] == [one.seed for one in samples[:3]]


@pytest.mark.parametrize("kind", ALL)
def test_a_misspelt_option_is_an_error_that_names_the_nearest(yard, kind):
    with pytest.raises(ConfigError, match=f"{kind} has no option 'namespase'; did you mean 'namespace'"):
        get_tool_sampler(kind, registry=yard, namespase="a", **ALL[kind])
    sampler = get_tool_sampler(kind, registry=yard, k=4, **ALL[kind])
    with pytest.raises(SamplingError, match="did you mean 'allow_short'"):
        sampler.sample(allow_shrt=True)


def test_unknown_options_are_logged_and_ignored_without_strict(caplog):
    sampler = get_tool_sampler("tc/random", registry=registry(5), k=2, strict=False, min_score=0.5)
    assert len(sampler.sample(temperature=3)) == 2
    assert "tc/random has no option 'min_score'" in caplog.text
    assert "tc/random has no option 'temperature'" in caplog.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"k": 0}, "tc/random: k: must be 1 or more, not 0"),
        ({"k": -3}, "k: must be 1 or more"),
        ({"k": "three"}, "k: must be a whole number"),
        ({"k": True}, "k: must be a whole number, not boolean"),
        ({"seed": False}, "seed: must be a whole number, not boolean"),
        ({"k": 2.5}, "k: must be a whole number"),
        ({"seed": "x"}, "seed: must be a whole number"),
        ({"namespace": 3}, "namespace: must be text, or a list"),
        ({"allow_short": "yes"}, "allow_short: must be true or false"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_when_it_is_given(options, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        get_tool_sampler("tc/random", registry=registry(5), **options)
    with pytest.raises(ValueError, match=re.escape(text)):
        get_tool_sampler("tc/random", registry=registry(5), k=2).sample(**options)


def test_numpy_integers_are_accepted():
    assert len(get_tool_sampler("tc/random", registry=registry(5)).sample(np.int64(2), seed=np.int32(3))) == 2


def test_k_is_required():
    with pytest.raises(ValueError, match="tc/random: say how many tools: k="):
        get_tool_sampler("tc/random", registry=registry(5)).sample()


@pytest.mark.parametrize(
    ("kind", "artifact"),
    [
        ("tc/chain", "dataflow"),
        ("tc/fan_out", "dataflow"),
        ("tc/fan_in", "dataflow"),
        ("tc/dag", "dataflow"),
        ("tc/neighbor", "neighbors"),
    ],
)
def test_a_missing_artifact_names_the_enrichment_to_add(kind, artifact):
    told = f"{kind} needs the artifact '{artifact}'.*add the enrichment '{artifact}'"
    with pytest.raises(SamplingError, match=told) as caught:
        get_tool_sampler(kind, registry=registry(5), k=2)
    assert pickle.loads(pickle.dumps(caught.value)).artifact == artifact


@pytest.mark.parametrize(
    ("kind", "artifact"), [("tc/chain", "dataflow"), ("tc/dag", "dataflow"), ("tc/neighbor", "neighbors")]
)
def test_an_artifact_without_the_needed_methods_is_refused_at_construction(kind, artifact):
    class Plain:
        writes = (artifact,)

        def enrich(self, snapshot):
            return snapshot.tools, {artifact: {one.qualified_name: [] for one in snapshot.tools}}

    made = ToolRegistry(tools(3), enrichments=[Plain()])
    with pytest.raises(
        SamplingError, match=f"{kind}: the artifact '{artifact}' is of type .*; let the enrichment {artifact}"
    ):
        get_tool_sampler(kind, registry=made, k=2)


def test_a_sampler_sees_the_registry_as_it_is_when_it_draws():
    made = registry(3)
    sampler = get_tool_sampler("tc/random", registry=made, k=4)
    with pytest.raises(SamplingError):
        sampler.sample()
    made.add(tool("late"))
    assert "late" in names(sampler.sample())
    made.remove("n::late")
    with pytest.raises(SamplingError):
        sampler.sample()


def test_changed_artifacts_are_used_at_the_next_sample():
    class Grows:
        writes = ("dataflow",)

        def enrich(self, snapshot):
            edges = [(at, at + 1, 0.5) for at in range(len(snapshot.tools) - 1)]
            return FixedArtifacts(edges).enrich(snapshot)

    made = ToolRegistry(tools(3), enrichments=[Grows()])
    sampler = get_tool_sampler("tc/chain", registry=made, k=4)
    with pytest.raises(SamplingError, match="no chain of 4 tools"):
        sampler.sample()
    made.add(tool("t3"))
    assert names(sampler.sample()) == ["t0", "t1", "t2", "t3"]


def test_cached_data_is_freed_with_its_snapshot():
    import gc
    import weakref

    made = registry(5, [(0, 1, 0.5)])
    get_tool_sampler("tc/chain", registry=made, k=2).sample()
    old = weakref.ref(made.snapshot)
    made.add(tool("other"))
    gc.collect()
    assert old() is None


def test_a_custom_sampler_defines_options_and_draw():
    class TaggedOptions(SamplerOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
        letter: str = "t"

    @register_tool_sampler("test/by_letter")
    class ByLetter(ToolSampler[TaggedOptions]):
        options_type = TaggedOptions

        def draw(self, ask):
            fit = [place for place in ask.places if ask.tools[place].name.startswith(ask.options.letter)]
            return ask.sample(list(ask.chance("tools").each(fit))[: ask.k], reason="too few begin so")

    assert ByLetter.sampler_name == "test/by_letter"
    made = registry([*tools(5), tool("x1"), tool("x2")])
    sampler = get_tool_sampler("test/by_letter", registry=made, k=2)
    assert all(name.startswith("t") for name in names(sampler.sample()))
    assert sorted(names(sampler.sample(letter="x"))) == ["x1", "x2"]
    with pytest.raises(SamplingError, match="found 2 of 3 tools: too few begin so"):
        sampler.sample(3, letter="x")
    with pytest.raises(ConfigError, match="did you mean 'letter'"):
        sampler.sample(leter="x")


def test_a_custom_sampler_may_override_sample_and_be_an_inner_sampler():
    @register_tool_sampler("test/first")
    class First(ToolSampler):
        def sample(self, k=None, **kwargs):
            return self.registry.all_tools()[:k]

    made = registry(5)
    assert names(get_tool_sampler("test/first", registry=made).sample(2)) == ["t0", "t1"]
    wrapped = get_tool_sampler("tc/mix", registry=made, samplers=["test/first"], k=3).sample()
    assert names(wrapped) == ["t0", "t1", "t2"]


def test_a_class_without_draw_is_refused_at_definition():
    with pytest.raises(TypeError, match=r"must define `draw\(ask\)`"):
        type("Nothing", (ToolSampler,), {})


def test_yard_sampler_uses_the_registry_of_the_yard(tmp_path):
    catalog = tmp_path / "tools.yaml"
    catalog.write_text("desk:\n  - {name: a}\n  - {name: b}\n")
    with Toolyard.from_config({"tools": [{"type": "file", "path": str(catalog)}]}) as made:
        assert sorted(qualified(made.sampler("tc/random", k=2).sample())) == ["desk::a", "desk::b"]


@pytest.mark.parametrize(
    ("kind", "option", "values"),
    [
        ("tc/random", "strategy", "proportional, uniform"),
        ("tc/neighbor", "strategy", "proportional, uniform"),
        ("tc/fan_out", "independence", "prefer, require, ignore"),
        ("tc/fan_in", "independence", "prefer, require, ignore"),
        ("tc/missing", "mode", "any, tool, parameter"),
    ],
)
def test_a_value_that_an_option_does_not_have_is_refused_with_those_that_it_has(yard, kind, option, values):
    with pytest.raises(ConfigError, match=f"{kind}: {option}: no such choice 'foo'; write one of {values}"):
        get_tool_sampler(kind, registry=yard, **{option: "foo"})
    with pytest.raises(SamplingError, match=f"{kind}: {option}: must be one of {values}; not integer"):
        get_tool_sampler(kind, registry=yard).sample(4, **{option: 3})


@pytest.mark.parametrize("kind", ["tc/chain", "tc/fan_out", "tc/fan_in", "tc/dag"])
def test_without_output_schemas_the_error_names_the_enrichment(kind):
    text = "none of the 3 tools says what it returns; add the enrichment output_parameters"
    with pytest.raises(SamplingError, match=text):
        get_tool_sampler(kind, registry=registry(3, []), k=2).sample(seed=1)
    says = [
        tool("t0").replace(output_parameters={"type": "object", "properties": {"x": {"type": "string"}}}),
        *tools(3)[1:],
    ]
    for made, options in ((registry(says, []), {}), (registry(3, [(0, 1, 0.2)]), {"min_score": 0.9})):
        with pytest.raises(SamplingError) as caught:
            get_tool_sampler(kind, registry=made, k=2, **options).sample(seed=1)
        assert "says what it returns" not in str(caught.value)


def test_seeds_are_derived_from_every_word_and_do_not_change_between_releases():
    assert derive_seed(1, "a") == 475944544596965755
    assert (
        len(
            {
                derive_seed(1),
                derive_seed(1, "a"),
                derive_seed(1, "b"),
                derive_seed(2, "a"),
                derive_seed(1, "a", 0),
                derive_seed(1, "a", 1),
            }
        )
        == 6
    )
    assert 0 <= derive_seed(-5, "x") < 2**63


def test_a_fresh_seed_is_another_one_each_time():
    seeds = [fresh_seed() for _ in range(20)]
    assert len(set(seeds)) == 20
    assert all(0 <= seed < 2**63 for seed in seeds)


@given(st.integers(), st.lists(st.integers()))
def test_each_gives_every_item_once_and_the_same_order_for_the_same_seed(seed, items):
    order = list(RandomStream(seed, "x").each(items))
    assert sorted(order) == sorted(items)
    assert order == list(RandomStream(seed, "x").each(items))


def test_each_is_fair():
    first = Counter(next(RandomStream(seed).each("abcd")) for seed in range(4000))
    last = Counter(list(RandomStream(seed).each("abcd"))[-1] for seed in range(4000))
    assert all(850 < count < 1150 for counts in (first, last) for count in counts.values())


def test_heavier_items_come_first_in_proportion():
    first = Counter(RandomStream(seed).by_weight("ab", [3, 1])[0] for seed in range(4000))
    assert first["a"] / 4000 == pytest.approx(0.75, abs=0.03)
    picked = Counter(RandomStream(seed).weighted("ab", [3, 1]) for seed in range(4000))
    assert picked["a"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_an_item_without_weight_comes_last():
    assert all(RandomStream(seed).by_weight("abc", [1, 0, 2])[2] == "b" for seed in range(200))


def test_numbers_stay_in_their_range():
    chance = RandomStream(1)
    assert {chance.below(3) for _ in range(100)} == {0, 1, 2}
    assert all(0 <= chance.fraction() < 1 for _ in range(100))
    assert {chance.pick("xy") for _ in range(50)} == {"x", "y"}
