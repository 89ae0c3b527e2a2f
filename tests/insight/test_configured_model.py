"""The model that `embeddings` was told is the one that search, neighbours, dataflow, samplers and the CLI use."""

import json

import numpy as np
import pytest

from insight.embedder_stub import HashEmbedder
from insight.embedding_server import EmbeddingServer
from toolyard import DataflowEnrichment, EmbeddingsEnrichment, NeighborsEnrichment, Tool, ToolRegistry, get_tool_sampler
from toolyard.cli.main import run
from toolyard.insight.search.searcher import Searcher
from toolyard.model.errors import EnrichmentError

QUERY = "zebra quagga"
"""Words that no tool has."""


def fields(**kinds):
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in kinds.items()}}


TOOLS = [
    Tool("find_user", "n", "Look a person up", fields(name="string"), fields(user_id="string", email="string")),
    Tool("send_mail", "n", "Write to somebody", fields(user_id="string", text="string"), fields(sent="boolean")),
    Tool("stripes", "n", "Paint something", fields(width="number"), fields(picture="string")),
]


def draw(salt):
    """A model: tools that paint are near the query, everything else is far from it and from each other."""
    stub = HashEmbedder(salt, dimensions=16)
    near = stub.one("near")

    def embed(text):
        row = stub.one(text)
        return (row / 4 + near if "stripes" in text.lower() or text in (QUERY, *QUERY.split()) else row).tolist()

    return embed


@pytest.fixture
def server():
    found = EmbeddingServer(draw("first"))
    yield found
    found.close()


def test_search_uses_the_configured_model(server):
    registry = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=False)])
    before = len(server.texts)
    found = registry.search(QUERY, threshold=0)
    assert found.mode == "hybrid"
    assert found[0].tool.name == "stripes"
    assert QUERY in server.texts[before:]


def test_dataflow_and_neighbors_use_the_configured_model_in_any_order(server):
    insight = [DataflowEnrichment(cache=False), NeighborsEnrichment(cache=False)]
    registry = ToolRegistry(TOOLS, enrichments=[*insight, EmbeddingsEnrichment(server.block, cache=False)])
    assert registry.artifacts["dataflow"].text == "embed-1"
    matrix = registry.artifacts["embeddings"].matrix
    (_, best), *_ = registry.artifacts["neighbors"].near(0)
    assert best == pytest.approx(float(max(matrix[0] @ matrix[1], matrix[0] @ matrix[2])), abs=1e-3)


def test_their_own_model_takes_precedence(server):
    own = HashEmbedder("own")
    flow = DataflowEnrichment(model=own, cache=False)
    registry = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=False), flow])
    assert registry.artifacts["dataflow"].text == "own"
    before = len(server.texts)
    Searcher(own, cache=False).search(registry.snapshot, QUERY)
    assert QUERY in own.texts
    assert server.texts[before:] == []


def test_tc_irrelevant_uses_the_configured_model_for_a_query(server):
    registry = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=False)])
    get_tool_sampler("tc/irrelevant", registry=registry, query=QUERY, k=1).sample(seed=1)
    assert QUERY in server.texts


@pytest.mark.parametrize("flags", [[], ["--skip-bad"]])
def test_the_command_line_uses_the_configured_model(server, tmp_path, monkeypatch, capsys, flags):
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(tmp_path / "cache"))
    tools = [{"type": "inline", "namespace": "n", "tools": [tool.to_dict() for tool in TOOLS]}]
    config = tmp_path / "yard.json"
    enrichments = [{"type": "embeddings", "model": server.block}]
    config.write_text(json.dumps({"tools": {"registry": tools, "enrichments": enrichments}}))
    assert run(["search", QUERY, "--threshold", "0", "--json", "--config", str(config), *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mode"], found["hits"][0]["name"]) == ("hybrid", "n::stripes")
    assert QUERY in server.texts


def test_each_snapshot_is_searched_with_its_own_model():
    first, second = HashEmbedder("first"), HashEmbedder("second", dimensions=12)
    searcher = Searcher(cache=False)
    snapshots = [ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(e, cache=False)]) for e in (first, second)]
    for registry, embedder in zip(snapshots * 2, [first, second] * 2, strict=True):
        assert searcher.search(registry.snapshot, QUERY, threshold=0).mode == "hybrid"
        assert QUERY in embedder.texts


@pytest.mark.parametrize("width", [16, 12])
def test_another_model_behind_the_same_name_is_noticed(server, tmp_path, width):
    registry = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=tmp_path)])
    Searcher(cache=tmp_path).search(registry.snapshot, QUERY, threshold=0)
    other = draw("second")
    server.model = lambda text: other(text)[:width]
    for _ in range(2):  # the vectors that the first made anew are kept
        fresh = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=tmp_path)])
        found = Searcher(cache=tmp_path).search(fresh.snapshot, QUERY, threshold=0)
        assert (found.mode, found[0].tool.name) == ("hybrid", "stripes")


def test_adding_a_tool_after_the_model_changed_embeds_all_again(server, tmp_path):
    registry = ToolRegistry(TOOLS[:2], enrichments=[EmbeddingsEnrichment(server.block, cache=tmp_path)])
    server.model = draw("second")
    registry.add(TOOLS[2])
    whole = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=False)])
    assert np.allclose(registry.artifacts["embeddings"].matrix, whole.artifacts["embeddings"].matrix, atol=1e-6)


def test_cached_vectors_are_not_mixed_with_another_model(server, tmp_path):
    ToolRegistry(TOOLS[:2], enrichments=[EmbeddingsEnrichment(server.block, cache=tmp_path)])
    server.model = draw("second")
    grown = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=tmp_path)])
    whole = ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=False)])
    matrices = [one.artifacts["embeddings"].matrix for one in (grown, whole)]
    assert np.allclose(*matrices, atol=1e-6)


def test_a_nondeterministic_server_is_an_error(server):
    server.model = lambda text: HashEmbedder(str(len(server.asked))).one(text).tolist()
    with pytest.raises(EnrichmentError, match="embed-1 makes another vector of the same text each time"):
        ToolRegistry(TOOLS, enrichments=[EmbeddingsEnrichment(server.block, cache=False)])
