"""Small documents for tests, and what a loader makes of them."""

import json
import tempfile
from pathlib import Path

from toolyard import RESTToolLoader, ToolRegistry
from toolyard.schema.admission import admit_schema
from toolyard.schema.compile import compile_schema

OK = {"200": {"description": "fine"}}


def operation(**fields):
    return {"operationId": "call", "responses": OK, **fields}


def document(operations=None, *, version="3.0.3", path="/things", **top):
    """A document with one path; `operations` maps methods to operations."""
    key = "swagger" if version.startswith("2") else "openapi"
    paths = {path: operations if operations is not None else {"get": operation()}}
    return {key: version, "info": {"title": "t", "version": "1"}, "paths": paths, **top}


def loader_of(content, *, name="spec.json", folder=None, **options):
    """A loader that has loaded the document; text is written as it is."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(folder or made) / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        loader = RESTToolLoader(path, "api", **options)
        tools = loader.load()
        registry = ToolRegistry.from_loaders([loader])
    assert [tool.name for tool in registry] == [tool.name for tool in tools]
    for tool in tools:
        check_schemas(tool)
    return loader


def check_schemas(tool):
    """Both schemas are within the budget, compile, need no rewrite, and refer to nothing that is not there."""
    for part, is_input in ((tool.parameters, True), (tool.output_parameters, False)):
        assert admit_schema(part, is_input=is_input).changes == ()
        compile_schema(part or {"type": "object"})
        for ref in references(part):
            assert ref.startswith("#/$defs/")
            assert ref[8:] in part["$defs"]


_DATA = frozenset({"default", "const", "enum", "examples"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})


def references(node, names=False):
    """Every reference of a schema; what stands in a default or an example is data, whatever it looks like."""
    if isinstance(node, dict):
        if not names and isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for key, value in node.items():
            if names or key not in _DATA:
                yield from references(value, names=not names and key in _MAPS)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def tools_of(content, **options):
    return [candidate.tool for candidate in loader_of(content, **options).admitted]


def tool_of(content, **options):
    (tool,) = tools_of(content, **options)
    return tool


def notes_of(content, **options):
    """What the report says was changed, as one text."""
    return "\n".join(f"{r.pointer}: {r.change}" for r in loader_of(content, **options).report.rewrites)


def parameter(name="q", where="query", **fields):
    return {"name": name, "in": where, "schema": {"type": "string"}, **fields}


def body(schema, media_type="application/json", *, required=True, **media):
    return {"required": required, "content": {media_type: {"schema": schema, **media}}}


def answer(schema, media_type="application/json"):
    return {"200": {"description": "fine", "content": {media_type: {"schema": schema}}}}


def accepts(schema, value):
    return compile_schema(schema).is_valid(value)
