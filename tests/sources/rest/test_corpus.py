"""Every operation of every real document is a tool whose schemas hold, or a listed rejection."""

import json

import pytest

from conftest import CORPUS, DATA, material
from toolyard import RestBinding, RESTToolLoader, ToolRegistry
from toolyard.schema.admission import check_budget
from toolyard.schema.compile import compile_schema

DOCUMENTS = material("openapi/*.json") + material("openapi/*.yaml")
INDEX = {
    entry["file"]: entry
    for entry in json.loads(((CORPUS if CORPUS.is_dir() else DATA) / "openapi_index.json").read_text())
}
SAMPLES = sorted((DATA / "openapi").iterdir())


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def dangling(schema):
    return [ref for ref in references(schema) if ref[8:] not in schema.get("$defs", {})]


def load(path):
    loader = RESTToolLoader(path, namespace="n")
    registry = ToolRegistry.from_loaders([loader])
    return registry, registry.report.sources[0]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_operation_is_lost_and_every_tool_holds(path):
    registry, report = load(path)
    operations = INDEX[path.name].get("ops", 0)
    assert report.loaded + len(report.rejected) == operations
    assert report.loaded == len(registry)
    assert report.loaded >= 0.99 * operations
    for tool in registry:
        for schema in (tool.parameters, tool.output_parameters):
            assert dangling(schema) == []
            check_budget(schema)
            compile_schema(schema or {"type": "object"})
        check_binding(tool)


def check_binding(tool):
    """Every argument has one place, and every place of the path an argument."""
    binding = tool.binding
    assert isinstance(binding, RestBinding)
    assert set(binding.locations) == set(tool.parameters["properties"])
    in_path = {parameter.name for parameter in binding.parameters if parameter.location == "path"}
    assert {part.partition("}")[0] for part in binding.path.split("{")[1:]} == in_path
    assert in_path <= {binding.locations[name][1] for name in tool.parameters.get("required", ())}


def successes(path):
    """Operations with a JSON success that has a schema, counted without any code of ours but the parsing."""
    from toolyard.parsing import parse_json, parse_yaml

    document = (parse_json if path.suffix == ".json" else parse_yaml)(path.read_bytes())

    def try_resolve(node):
        while isinstance(node, dict) and "$ref" in node:
            target = document
            for part in node["$ref"].split("/")[1:]:
                target = target[part.replace("~1", "/").replace("~0", "~")]
            node = target
        return node

    for item in filter(lambda item: isinstance(item, dict), document.get("paths", {}).values()):
        for method, operation in item.items():
            if method not in ("get", "put", "post", "delete", "options", "head", "patch", "trace"):
                continue
            for code, response in operation.get("responses", {}).items():
                raw = try_resolve(response)
                produces = operation.get("produces", document.get("produces", ["application/json"]))
                kinds = raw.get("content") or (dict.fromkeys(produces, raw) if "schema" in raw else {})
                has = any("json" in kind and media.get("schema") for kind, media in kinds.items() if "jose" not in kind)
                if code.startswith("2") and has and raw.get("schema", {}).get("type") != "file":
                    yield method.upper(), item, operation
                    break


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_there_is_an_output_schema_wherever_a_json_success_has_one(path):
    registry, _ = load(path)
    assert sum(1 for tool in registry if tool.output_parameters) >= len(list(successes(path)))


def test_reading_the_same_document_again_gives_the_same_tools():
    for path in SAMPLES:
        first, second = (load(path)[0] for _ in range(2))
        assert [tool.definition_hash for tool in first] == [tool.definition_hash for tool in second]


@pytest.mark.parametrize(
    "path", material("openapi_multifile/*/spec/swagger.*"), ids=lambda path: path.parent.parent.name
)
def test_a_document_in_several_files_is_one_source(path):
    registry, report = load(path)
    assert [tool.name for tool in registry] == ["findPets", "addPet", "find pet by id", "deletePet"]
    assert not report.rejected
    assert registry.get("n::addPet")[0].parameters["required"] == ["id", "name"]


def test_there_is_material():
    assert len(SAMPLES) >= 6
    assert {path.name for path in SAMPLES} <= set(INDEX)
    assert len(DOCUMENTS) == len(INDEX)
