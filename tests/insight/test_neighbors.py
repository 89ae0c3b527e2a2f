"""The enrichment `neighbors` and its artifact."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from tests.insight.embedder_stub import HashEmbedder
from tests.insight.samplers.registries import FixedArtifacts, registry, tool, tools
from toolyard import ConfigError, EmbeddingsEnrichment, NeighborsEnrichment, ToolRegistry, get_tool_enrichment
from toolyard.insight import neighbors

GRID = np.random.default_rng(5).normal(size=(90, 6))


def found(given, vectors, **options):
    return registry(given, vectors=vectors, neighbors=options).artifacts["neighbors"]


def exact(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def test_the_nearest_tools_come_first_and_without_the_tool_itself():
    artifact = found(90, GRID, max_neighbors=5, duplicate_sim_thresh=1)
    alike = exact(GRID)
    for place in range(90):
        near = artifact.near(place)
        assert place not in dict(near)
        assert [score for _, score in near] == pytest.approx([alike[place, other] for other, _ in near], abs=1e-3)
        assert [score for _, score in near] == pytest.approx(np.sort(alike[place])[-2:-7:-1], abs=1e-3)
        assert artifact.duplicates(place) == ()


def test_max_neighbors_applies_to_each_namespace():
    given = [tool(f"t{at}", "abc"[at % 3]) for at in range(90)]
    artifact = found(given, GRID, max_neighbors=4)
    for place in range(90):
        spaces = [given[other].namespace for other, _ in artifact.near(place)]
        assert all(spaces.count(space) <= 4 for space in "abc")
        assert spaces.count(given[place].namespace) == 4


def test_only_max_candidates_are_compared():
    given = [tool(f"t{at}", "ab"[at % 2]) for at in range(90)]
    few = found(given, GRID, max_candidates=3, max_neighbors=10)
    many = found(given, GRID, max_candidates=50, max_neighbors=10)
    assert all(len(few.near(place)) <= 6 for place in range(90))
    assert all(len(many.near(place)) > 10 for place in range(90))
    assert all(few.near(place)[0] == many.near(place)[0] for place in range(90))


def test_near_duplicates_are_listed_separately():
    vectors = np.repeat(GRID[:20], 3, axis=0)
    artifact = found(60, vectors, max_neighbors=6)
    for place in range(60):
        twins = {3 * (place // 3) + at for at in range(3)} - {place}
        assert set(artifact.duplicates(place)) >= twins
        assert not twins & {other for other, _ in artifact.near(place)}
        assert len(artifact.near(place)) == 6


def test_as_a_mapping_it_is_of_the_documented_form():
    given = [tool("a", "x"), tool("a", "x", required=["p"]), tool("b", "y")]
    artifact = found(given, [[1, 0], [1, 0.01], [0.6, 0.8]], duplicate_sim_thresh=0.9)
    assert set(artifact) == {"x::a", "y::b"}
    assert len(artifact) == 2
    near, twins = artifact["x::a"][given[0].fingerprint]["x"]
    assert near == []
    assert twins == [("a", given[1].fingerprint, pytest.approx(1, abs=1e-3))]
    assert artifact["x::a"][given[0].fingerprint]["y"][0] == [("b", given[2].fingerprint, pytest.approx(0.6, abs=1e-3))]
    assert "2 tools" not in repr(artifact)


def test_blocks_do_not_change_what_is_found(monkeypatch):
    whole = found(90, GRID)
    monkeypatch.setattr(neighbors, "AT_ONCE", 700)
    in_blocks = found(90, GRID)
    assert [in_blocks.near(place) for place in range(90)] == [whole.near(place) for place in range(90)]


def test_one_tool_and_none_have_no_neighbors():
    assert found(1, [[1, 0]]).near(0) == []
    assert len(found([], np.zeros((0, 2)))) == 0


def test_with_a_model_it_computes_its_own_vectors():
    given = [tool(f"t{at}", "n", required=[f"p{at}"]) for at in range(8)]
    own = {"model": HashEmbedder(), "duplicate_sim_thresh": 1}
    plain = registry(given, vectors=np.eye(8), neighbors={"duplicate_sim_thresh": 1}).artifacts["neighbors"]
    made = registry(given, vectors=np.eye(8), neighbors=own).artifacts["neighbors"]
    alone = ToolRegistry(given, enrichments=[NeighborsEnrichment(**own, cache=False)]).artifacts["neighbors"]
    assert dict(plain.near(0))[1] == 0
    assert [made.near(place) for place in range(8)] == [alone.near(place) for place in range(8)]
    assert dict(made.near(0))[1] != 0


def test_neighbors_are_cached_for_the_next_start(tmp_path, monkeypatch):
    def run(vectors=GRID, given=None, **options):
        enrichments = [FixedArtifacts(vectors=vectors), NeighborsEnrichment(cache=tmp_path, **options)]
        return ToolRegistry(given or tools(90), enrichments=enrichments).artifacts["neighbors"]

    computed = []
    real = neighbors.find_neighbors
    monkeypatch.setattr(neighbors, "find_neighbors", lambda *given: computed.append(1) or real(*given))
    first = run()
    again = run()
    assert len(computed) == 1
    assert [again.near(place) for place in range(90)] == [first.near(place) for place in range(90)]
    run(force=True)
    assert len(computed) == 2
    for options in ({"max_neighbors": 3}, {"max_candidates": 7}, {"duplicate_sim_thresh": 0.5}):
        before = len(computed)
        run(**options)
        run(**options)
        assert len(computed) == before + 1
    before = len(computed)
    run(GRID + 0.1)
    run(given=[*tools(89), tool("renamed")])
    assert len(computed) == before + 2


def test_without_a_cache_nothing_is_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(tmp_path))
    found(10, GRID[:10])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"max_candidates": 0},
        {"max_neighbors": "x"},
        {"duplicate_sim_thresh": 0},
        {"duplicate_sim_thresh": 2},
        {"duplicate_sim_thresh": True},
        {"force": "no"},
        {"model": 3},
    ],
)
def test_an_invalid_option_is_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        NeighborsEnrichment(**options)


@pytest.mark.parametrize("model", [None, HashEmbedder("own")])
def test_without_embeddings_it_makes_the_same_vectors_itself(model):
    alone = ToolRegistry(tools(4), enrichments=[NeighborsEnrichment(model, cache=False)])
    both = [EmbeddingsEnrichment(model, cache=False), NeighborsEnrichment(model, cache=False)]
    assert alone.artifacts["neighbors"] == ToolRegistry(tools(4), enrichments=both).artifacts["neighbors"]
    assert alone.artifacts.keys() == {"neighbors"}


def test_it_is_made_by_its_name():
    assert isinstance(get_tool_enrichment("neighbors", max_neighbors=3), NeighborsEnrichment)


class Grows:
    """Vectors for as many tools as there are."""

    writes = ("embeddings",)

    def __init__(self, vectors):
        self.vectors = vectors

    def enrich(self, snapshot):
        return FixedArtifacts(vectors=self.vectors[: len(snapshot.tools)]).enrich(snapshot)


@settings(max_examples=examples(30))
@given(st.integers(2, 60), st.integers(1, 5), st.integers(1, 12), st.integers(0, 2**20), st.booleans())
def test_adding_tools_gives_the_same_as_starting_with_them(old, new, candidates, seed, own):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, size=(old + new, 4)) + 0.01
    given = [tool(f"t{at}", "abc"[int(rng.integers(3))], required=[f"p{at % 5}"]) for at in range(old + new)]
    options = {"max_candidates": candidates, "max_neighbors": 3, "duplicate_sim_thresh": 0.99, "cache": False}
    if own:
        options["model"] = HashEmbedder()
    made = ToolRegistry(given[:old], enrichments=[Grows(vectors), NeighborsEnrichment(**options)])
    made.add(*given[old:])
    grown = made.artifacts["neighbors"]
    whole = ToolRegistry(given, enrichments=[Grows(vectors), NeighborsEnrichment(**options)]).artifacts["neighbors"]
    for place in range(old + new):
        assert grown.near(place) == whole.near(place)
        assert grown.duplicates(place) == whole.duplicates(place)


def test_vectors_of_the_same_model_are_made_once_and_those_of_another_are_its_own():
    first, same, other = HashEmbedder(), HashEmbedder(), HashEmbedder("other")
    for own in (same, other):
        enrichments = [EmbeddingsEnrichment(first, cache=False), NeighborsEnrichment(own, cache=False)]
        ToolRegistry(tools(9), enrichments=enrichments)
    assert same.texts == []
    assert sorted(set(other.texts)) == sorted(set(first.texts))
