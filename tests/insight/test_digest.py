"""One hash for all that a set of tools says, and a start that needs no more than it."""

import gc
import json
import weakref

import numpy as np
import pytest

from insight.embedder_stub import HashEmbedder
from toolyard import EnrichmentError, FileToolLoader, ToolLoader, ToolRegistry
from toolyard.insight.dataflow.enrichment import DataflowEnrichment
from toolyard.insight.digest import definitions_digest
from toolyard.insight.embeddings import EmbeddingsEnrichment
from toolyard.insight.neighbors import NeighborsEnrichment
from toolyard.insight.output_parameters import OutputParametersEnrichment
from toolyard.model.blocks import parts_of
from toolyard.model.tool import Tool


class Holder(list):
    """A list that can be watched."""


SCHEMA = {"type": "object", "properties": {"user_id": {"type": "string"}}}
TOOLS = tuple(Tool(f"tool_{number}", "ns", f"Does {number}.", SCHEMA) for number in range(20))


def test_the_hash_of_tools_does_not_keep_them():
    tools = [tool.replace() for tool in TOOLS]
    marker = Holder()
    tools[0].__dict__["marker"] = marker
    watched = weakref.ref(marker)
    definitions_digest(tools)
    del tools, marker
    gc.collect()
    assert watched() is None


def _catalog(folder, *descriptions, name="tools.json", outputs=True):
    """A catalog with a tool for each description."""
    answer = SCHEMA if outputs else {}
    entries = [
        {"name": f"tool_{number}", "description": text, "parameters": SCHEMA, "output_parameters": answer}
        for number, text in enumerate(descriptions)
    ]
    path = folder / name
    path.write_text(json.dumps(entries))
    return path


@pytest.mark.parametrize("lazy", [False, True])
def test_tools_of_a_catalog_are_found_again_by_the_bytes_of_the_file_and_what_was_made_of_them(tmp_path, lazy):
    path = _catalog(tmp_path, "First.", "Second.")

    def digest(**options):
        return definitions_digest(ToolRegistry.from_file(path, lazy=lazy, **options).snapshot.tools)

    known = digest()
    assert digest() == known
    assert digest(namespace="other") != known
    path.write_text(path.read_text().replace("Second", "Seconf"))
    assert digest() != known


def test_a_tool_that_was_changed_added_or_taken_away_is_seen_within_a_catalog(tmp_path):
    path = _catalog(tmp_path, "First.", "Second.", "Third.")
    tools = FileToolLoader(path).load()
    other = Tool("one_more", "ns", "Fourth.")
    sets = [
        tools,
        [tools[0].replace(description="Another."), *tools[1:]],
        [*tools[:2], tools[2].replace(output_parameters={})],
        tools[:2],
        tools[1:],
        [*tools, other],
        [other, *tools],
        [*tools, other.replace(description="Fifth.")],
    ]
    digests = [definitions_digest(some) for some in sets]
    assert len({*digests}) == len(sets)
    again = FileToolLoader(path).load()
    assert definitions_digest([*again, other.replace()]) == digests[5]


def _started(registry, folder):
    kinds = (EmbeddingsEnrichment, DataflowEnrichment, NeighborsEnrichment)
    registry.enrich(*(kind(model=HashEmbedder(), cache=folder) for kind in kinds))
    return registry


def _same_artifacts(one, other):
    one, other = one.artifacts, other.artifacts
    assert one["neighbors"].rows.places.tolist() == other["neighbors"].rows.places.tolist()
    assert np.array_equal(one["embeddings"].matrix, other["embeddings"].matrix)
    for before, after in zip(one["dataflow"].arrays, other["dataflow"].arrays, strict=True):
        assert np.array_equal(before, after)


def test_a_warm_start_does_not_read_the_schemas_of_a_lazy_catalog(tmp_path):
    path = _catalog(tmp_path, *(f"Gives the user of number {number}." for number in range(30)))

    def read(registry):
        return sum("parameters" in tool.__dict__ for tool in registry.snapshot.tools)

    cold, warm = (_started(ToolRegistry.from_file(path, lazy=True), tmp_path) for _ in range(2))
    assert (read(cold), read(warm)) == (30, 0)
    _same_artifacts(cold, warm)


def _made(count=30):
    return [Tool(f"tool_{number}", "ns", f"Gives user {number}.", SCHEMA, SCHEMA) for number in range(count)]


def test_a_warm_start_of_tools_made_in_code_writes_out_none_of_them(tmp_path, monkeypatch):
    cold = _started(ToolRegistry(_made()), tmp_path)
    kept = {file.name for file in (tmp_path / "arrays").iterdir()}
    warm = ToolRegistry(_made())
    monkeypatch.setattr("toolyard.insight.digest._told", lambda tools: pytest.fail("the registry has hashed them"))
    _started(warm, tmp_path)
    assert {file.name for file in (tmp_path / "arrays").iterdir()} == kept
    _same_artifacts(cold, warm)


def test_a_warm_start_of_tools_whose_outputs_are_inferred_writes_out_none_of_them(tmp_path, monkeypatch):
    path = _catalog(tmp_path, *(f"Gives the user of number {number}." for number in range(30)), outputs=False)

    def start():
        registry = ToolRegistry.from_file(path)
        registry.enrich(OutputParametersEnrichment(cache=tmp_path))
        return _started(registry, tmp_path)

    cold = start()
    assert all(tool.output_parameters for tool in cold.all_tools())
    monkeypatch.setattr("toolyard.insight.digest._told", lambda tools: pytest.fail("the file was hashed"))
    _same_artifacts(cold, start())


def test_other_inferred_outputs_are_another_set_of_tools(tmp_path):
    path = _catalog(tmp_path, "Gives the user.", "Gives the order.", outputs=False)

    def digest(results):
        registry = ToolRegistry.from_file(path)
        if results:
            recorded = [{"name": "default::tool_0", "result": result} for result in results]
            registry.enrich(OutputParametersEnrichment(infer="examples", results=recorded, cache=False))
        return definitions_digest(registry.snapshot.tools)

    found = [digest([]), digest([{"id": 1}]), digest([{"id": "a"}]), digest([{"name": 1}])]
    assert len({*found}) == 4
    assert digest([{"id": 7}]) == found[1]


def test_inferred_outputs_read_no_schema_of_a_lazy_catalog_that_nobody_asked_about(tmp_path):
    path = _catalog(tmp_path, *(f"Gives the user of number {number}." for number in range(30)))
    entries = json.loads(path.read_text())
    entries[7]["parameters"] = {"type": "nonsense"}
    path.write_text(json.dumps(entries))
    nobody = [{"name": "default::nobody", "result": {"id": 1}}]
    inferred = OutputParametersEnrichment(infer="examples", results=nobody, cache=False)
    registry = ToolRegistry.from_loaders([FileToolLoader(path, lazy=True)], [inferred])
    registry.remove("default::tool_3")
    assert len(registry) == 29
    assert not any("parameters" in tool.__dict__ for tool in registry.snapshot.tools)


def test_tools_of_an_earlier_load_are_not_kept_by_one_that_stays():
    class Renewed(ToolLoader):
        label = "renewed"

        def load(self):
            return [Tool(f"tool_{number}", "n", "Gives the user.") for number in range(20)]

    registry = ToolRegistry([Tool("first", "n", "Gives the order.")])
    registry.attach(Renewed())
    registry.enrich(OutputParametersEnrichment(cache=False))
    _ = definitions_digest(registry.snapshot.tools)
    old = Holder()
    registry.snapshot.tools[-1].__dict__["holder"] = old
    watched = weakref.ref(old)
    del old
    for _ in range(2):
        registry.refresh()
        _ = definitions_digest(registry.snapshot.tools)
    gc.collect()
    assert watched() is None


def test_an_inferred_output_that_cannot_be_written_out_is_refused_by_name():
    registry = ToolRegistry(TOOLS)
    recorded = [{"name": "ns::tool_3", "result": {"\ud83d": 1}}]
    with pytest.raises(EnrichmentError, match=r"output_parameters of ns::tool_3: .*surrogates"):
        registry.enrich(OutputParametersEnrichment(infer="examples", results=recorded, cache=False))
    assert not registry.get("ns::tool_3")[0].output_parameters


def test_a_first_tool_that_keeps_its_output_is_the_first_of_the_file_and_of_what_was_made_of_it(tmp_path):
    path = _catalog(tmp_path, *(f"Gives the user of number {number}." for number in range(30)), outputs=False)
    entries = json.loads(path.read_text())
    entries[0]["output_parameters"] = SCHEMA
    path.write_text(json.dumps(entries))
    registry = ToolRegistry.from_file(path)
    plain = registry.snapshot.tools
    before = list(parts_of(plain))
    registry.enrich(OutputParametersEnrichment(cache=False))
    enriched = registry.snapshot.tools
    assert enriched[0] is plain[0] and enriched[1] is not plain[1]
    after = list(parts_of(enriched))
    assert [len(before), len(after)] == [1, 1] and before != after
    assert list(parts_of(plain)) == before
