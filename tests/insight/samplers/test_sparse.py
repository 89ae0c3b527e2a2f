"""tc/sparse: a few tools that matter among many that do not."""

import numpy as np
import pytest

from tests.insight.samplers.registries import names, qualified, registry, tool
from toolyard import SamplingError
from toolyard.insight.samplers.chain import ChainSampler
from toolyard.insight.samplers.mix import SparseSampler

ANGLES = np.linspace(0, np.pi / 2, 40)
FAN = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
EDGES = [(0, 1, 0.9), (1, 2, 0.8)]


def test_distractors_are_added_to_a_chain():
    sampler = SparseSampler(registry(40, EDGES, FAN), k=10, k_relevant=3, sampler={"type": "tc/chain"})
    for drawn in sampler.series(20, seed=1):
        assert len(set(names(drawn))) == 10
        assert drawn.roles.count("relevant") == 3
        assert drawn.roles.count("distractor") == 7
        assert drawn.details["relevant"] == ["n::t0", "n::t1", "n::t2"]
        relevant = {one.qualified_name for one, role in zip(drawn, drawn.roles, strict=True) if role == "relevant"}
        assert relevant == set(drawn.details["relevant"])
        assert [(edge.source, edge.target) for edge in drawn.edges] == [("n::t0", "n::t1"), ("n::t1", "n::t2")]
        assert drawn.topology == "sparse"
        assert drawn.details["relevant_topology"] == "chain"


def test_unshuffled_the_relevant_come_first_in_their_order():
    sampler = SparseSampler(registry(40, EDGES, FAN), k=6, k_relevant=3, sampler="tc/chain", shuffle=False)
    assert names(sampler.sample(seed=1))[:3] == ["t0", "t1", "t2"]


def test_hardness_says_how_like_the_relevant_they_are():
    sampler = SparseSampler(registry(40, EDGES, FAN), k=6, k_relevant=2, sampler={"type": "tc/chain"})
    likeness = [np.mean([drawn.score for drawn in sampler.series(20, seed=1, hardness=h)]) for h in (0, 0.5, 1)]
    assert likeness[0] < likeness[1] < likeness[2]


def test_tools_that_are_nearly_the_same_are_no_distractors():
    given = [tool("a"), *(tool(f"copy{at}") for at in range(5)), tool("x"), tool("y")]
    vectors = [[1, 0]] * 6 + [[0, 1]] * 2
    sampler = SparseSampler(registry(given, [(0, 1, 0.5)], vectors), k=3, k_relevant=1, hardness=1.0)
    for drawn in sampler.series(20, seed=1, sampler={"type": "tc/random", "namespace": "n"}):
        kinds = [name.startswith(("a", "copy")) for name in names(drawn)]
        assert sum(kinds) in (1, 2)


def test_the_number_of_relevant_tools_is_that_of_the_inner_sampler_or_a_quarter():
    given = registry(40, EDGES, FAN)
    assert SparseSampler(given, k=8, sampler={"type": "tc/chain", "k": 3}).sample().roles.count("relevant") == 3
    assert SparseSampler(given, k=8).sample().roles.count("relevant") == 2
    assert SparseSampler(given, k=2).sample().roles.count("relevant") == 1
    with pytest.raises(ValueError, match="5 relevant tools are more than all 4"):
        SparseSampler(given, k=4, k_relevant=5).sample()


def test_without_embeddings_similarity_is_by_words():
    given = [tool(f"{verb}_{what}") for verb in ("find", "send", "make") for what in ("cake", "mail", "song", "map")]
    drawn = SparseSampler(registry(given), k=4, k_relevant=1, hardness=1.0, shuffle=False).sample(seed=2)
    assert drawn.details["likeness"] == "words"
    assert len(drawn) == 4


def test_an_error_of_the_inner_sampler_is_reported():
    sampler = SparseSampler(registry(40, EDGES, FAN), k=10, k_relevant=5, sampler="tc/chain")
    with pytest.raises(SamplingError, match="the relevant tools: tc/chain: found 3 of 5") as caught:
        sampler.sample(seed=1)
    assert caught.value.requested == 10
    assert len(caught.value.tools) == 3


def test_too_few_distractors_are_an_error_with_the_part():
    with pytest.raises(SamplingError, match="not enough other tools") as caught:
        SparseSampler(registry(40, EDGES, FAN), k=100, k_relevant=3, sampler="tc/chain").sample()
    assert 3 < len(caught.value.tools) < 40


def test_a_sampler_may_be_given_as_it_is():
    given = registry(40, EDGES, FAN)
    drawn = SparseSampler(given, k=5, sampler=ChainSampler(given, k=2)).sample(seed=1)
    assert drawn.details["relevant_topology"] == "chain"
    assert set(qualified(drawn)) > set(drawn.details["relevant"])


@pytest.mark.parametrize("wrong", [7, {"k": 3}, {"type": 3}])
def test_an_invalid_inner_sampler_is_refused(wrong):
    with pytest.raises(ValueError, match="a sampler is given by its name"):
        SparseSampler(registry(4), k=2, sampler=wrong)


def test_a_misspelt_option_of_the_inner_sampler_is_an_error_at_once():
    with pytest.raises(ValueError, match="did you mean 'min_score'"):
        SparseSampler(registry(4, EDGES[:1]), k=2, sampler={"type": "tc/chain", "min_scor": 0.5})
