"""The enrichment `embeddings`: a vector for every tool, computed once."""

import json

import numpy as np
import pytest

from insight.embedder_stub import HashEmbedder
from toolyard import Tool, ToolRegistry
from toolyard.insight.embeddings.vectors import Embeddings, EmbeddingsEnrichment, build_tool_text
from toolyard.model.errors import ConfigError


def tool(name, namespace="ns", description="Does it.", **fields):
    return Tool(name, namespace, description, {"type": "object", "properties": {"a": {"type": "string"}}}, **fields)


TOOLS = [tool(f"tool_{number}") for number in range(12)]


def embedded(tools, embedder, cache, **options):
    registry = ToolRegistry(tools, enrichments=[EmbeddingsEnrichment(embedder, cache=cache, **options)])
    return registry, registry.artifacts["embeddings"]


def test_the_artifact_has_a_vector_for_every_overload(tmp_path):
    other = tool("tool_1").replace(parameters={"type": "object", "properties": {"b": {"type": "integer"}}})
    embedder = HashEmbedder()
    registry, found = embedded([*TOOLS, other], embedder, tmp_path)
    assert list(found) == list(registry.snapshot.names)
    assert len(found) == 12
    pair = found["ns::tool_1"]
    assert list(pair) == [TOOLS[1].fingerprint, other.fingerprint]
    assert np.array_equal(pair[other.fingerprint], embedder.one(build_tool_text(other)))
    assert np.array_equal(found.vector(TOOLS[1]), embedder.one(build_tool_text(TOOLS[1])))
    assert len(found["ns::tool_1"]) == 2
    assert "ns::none" not in found
    with pytest.raises(KeyError):
        found["ns::none"]


def test_rows_of_the_matrix_belong_to_the_tools(tmp_path):
    embedder = HashEmbedder()
    registry, found = embedded(TOOLS, embedder, tmp_path)
    assert isinstance(found, Embeddings)
    assert found.tools == registry.snapshot.tools
    assert found.model == "hash"
    assert np.array_equal(found.matrix, np.stack([embedder.one(build_tool_text(one)) for one in TOOLS]))
    assert repr(found) == "Embeddings(12 tools, 8 dimensions, 'hash')"


def test_adding_one_tool_embeds_one(tmp_path):
    embedder = HashEmbedder()
    registry, before = embedded(TOOLS, embedder, tmp_path)
    embedder.asked.clear()
    registry.add(tool("another"))
    after = registry.artifacts["embeddings"]
    assert embedder.texts == [build_tool_text(tool("another"))]
    assert np.array_equal(after.matrix[:12], before.matrix)
    assert np.array_equal(after.vector(tool("another")), embedder.one(build_tool_text(tool("another"))))
    assert len(before) == 12


def test_all_texts_are_embedded_again_if_the_server_returns_another_length(tmp_path):
    embedder = HashEmbedder()
    registry = ToolRegistry([Tool(f"t{number}", "n") for number in range(4)])
    enrichment = EmbeddingsEnrichment(model=embedder, cache=tmp_path)
    _, first = enrichment.enrich(registry.snapshot)
    embedder.dimensions = 12
    registry.add(Tool("t4", "n"))
    _, second = enrichment.enrich(registry.snapshot)
    assert first["embeddings"].matrix.shape == (4, 8)
    assert second["embeddings"].matrix.shape == (5, 12)


def test_removing_a_tool_embeds_none(tmp_path):
    embedder = HashEmbedder()
    registry, before = embedded(TOOLS, embedder, tmp_path)
    embedder.asked.clear()
    registry.remove("ns::tool_3")
    after = registry.artifacts["embeddings"]
    assert embedder.asked == []
    assert "ns::tool_3" not in after
    assert np.array_equal(after.vector(TOOLS[4]), before.vector(TOOLS[4]))


def test_the_next_process_embeds_nothing(tmp_path):
    _, first = embedded(TOOLS, HashEmbedder(), tmp_path)
    embedder = HashEmbedder()
    _, again = embedded([one.replace() for one in TOOLS], embedder, tmp_path)
    assert embedder.asked == []
    assert np.array_equal(first.matrix, again.matrix)


def test_force_embeds_again(tmp_path):
    embedded(TOOLS, HashEmbedder(), tmp_path)
    embedder = HashEmbedder()
    embedded(TOOLS, embedder, tmp_path, force=True)
    assert len(embedder.texts) == 12


def test_without_a_cache_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(tmp_path))
    _, found = embedded(TOOLS, HashEmbedder(), False)
    assert len(found) == 12
    assert list(tmp_path.iterdir()) == []


def test_a_refresh_of_unchanged_files_embeds_nothing(tmp_path):
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([one.to_dict() for one in TOOLS]))
    embedder = HashEmbedder()
    with ToolRegistry.from_file(file, namespace="ns") as plain:
        loaders = plain.loaders
        registry = ToolRegistry.from_loaders(
            loaders, enrichments=[EmbeddingsEnrichment(embedder, cache=tmp_path / "cache")]
        )
        embedder.asked.clear()
        registry.refresh()
        assert embedder.asked == []
        file.write_text(json.dumps([one.to_dict() for one in [*TOOLS, tool("new")]]))
        registry.refresh()
    assert embedder.texts == [build_tool_text(tool("new"))]
    assert len(registry.artifacts["embeddings"]) == 13


def test_no_tools_give_an_empty_artifact(tmp_path):
    _, found = embedded([], HashEmbedder(), tmp_path)
    assert len(found) == 0
    assert found.matrix.shape == (0, 8)


def test_tools_are_returned_as_they_are(tmp_path):
    registry = ToolRegistry(TOOLS)
    tools, _ = EmbeddingsEnrichment(HashEmbedder(), cache=tmp_path).enrich(registry.snapshot)
    assert all(new is old for new, old in zip(tools, registry.snapshot.tools, strict=True))


def test_the_default_model_tells_tools_apart(tmp_path):
    weather, users, rain = (
        tool("get_weather", description="Current weather of a city."),
        tool("list_users", description="All users of an organisation."),
        tool("rain_forecast", description="How much rain is expected in a town tomorrow."),
    )
    _, found = embedded([weather, users, rain], None, tmp_path)
    assert found.matrix.shape == (3, 384)
    near = found.vector(weather) @ found.vector(rain)
    assert near > found.vector(weather) @ found.vector(users)


def test_an_unavailable_model_is_an_error_at_construction(tmp_path):
    with pytest.raises(ConfigError, match="pip install sentence-transformers"):
        EmbeddingsEnrichment("sentence-transformers/all-mpnet-base-v2", cache=tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"force": "no"}, "force: must be true or false, not text"),
        ({"force": 1}, "force: must be true or false, not integer"),
        ({"model": 3}, "model must be a name or a folder as text, .*, not 3"),
        ({"model": True}, "model must be a name"),
        ({"model": HashEmbedder}, "model must be a name"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_at_construction(options, says):
    with pytest.raises(ConfigError, match=says):
        EmbeddingsEnrichment(**{"model": HashEmbedder(), **options})
