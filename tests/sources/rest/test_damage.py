"""Damaged documents: whatever stands in the wrong place, every operation is a tool or a listed rejection."""

import copy

import pytest
from hypothesis import given, settings, strategies as st

from conftest import DATA, examples
from sources.rest.documents import OK, body, check_schemas, loader_of, parameter
from toolyard import MalformedSource
from toolyard.parsing import parse_json, parse_yaml

PET = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer", "readOnly": True}, "x": {"$ref": "#/components/schemas/Pet"}},
}
SMALL = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "servers": [{"url": "https://{h}/", "variables": {"h": {"default": "a.example", "enum": ["a.example"]}}}],
    "security": [{"key": []}],
    "paths": {
        "/a/{id}": {
            "parameters": [parameter("id", "path")],
            "post": {
                "operationId": "make",
                "tags": ["t"],
                "parameters": [{"$ref": "#/components/parameters/Q"}, parameter("h", "header")],
                "requestBody": body(
                    {"allOf": [{"$ref": "#/components/schemas/Pet"}]},
                    "multipart/form-data",
                    encoding={"x": {"contentType": "a/b"}},
                ),
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
                },
                "security": [{"key": ["s"]}],
            },
        },
        "/b": {"get": {"responses": OK}, "$ref": "#/components/pathItems/B"},
    },
    "components": {
        "schemas": {"Pet": PET},
        "parameters": {
            "Q": {"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "array"}}}}
        },
        "pathItems": {"B": {"delete": {"responses": OK}}},
        "securitySchemes": {
            "key": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://a.example"}}}
        },
    },
}
SWAGGER = parse_yaml((DATA / "openapi" / "guru__powerdns.local__0.0.13__swagger.yaml").read_bytes())
SWAGGER["paths"] = dict(list(SWAGGER["paths"].items())[:4])
PETSTORE = parse_yaml((DATA / "openapi" / "petstore__src_main_resources_openapi.yaml").read_bytes())
TWILIO = parse_json((DATA / "openapi" / "twilio__spec_json_twilio_numbers_v3.json").read_bytes())

JUNK = st.sampled_from(
    [
        *(
            None,
            True,
            0,
            -1.5,
            "",
            "text",
            [],
            {},
            [None],
            [[]],
            {"a": None},
            {"type": "object"},
            {"in": "query"},
            "{x}",
        ),
        *({"$ref": ref} for ref in (5, [], "#/paths", "#", "#/nowhere", "#/components/schemas/Pet")),
    ]
)


def places(node, path=()):
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def damaged(document, path, junk):
    changed = copy.deepcopy(document)
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = junk
    return changed


@pytest.mark.parametrize("document", [SMALL, SWAGGER, PETSTORE, TWILIO], ids=["small", "swagger", "petstore", "twilio"])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_one_wrong_thing_anywhere_costs_at_most_what_it_stands_for(document, data):
    content = document
    for _ in range(data.draw(st.integers(1, 2))):
        choices = [path for path in places(content) if path]
        content = damaged(content, data.draw(st.sampled_from(choices)), data.draw(JUNK))
    try:
        loader = loader_of(content)
    except MalformedSource:
        return
    for candidate in loader.admitted:
        check_schemas(candidate.tool)
        assert set(candidate.tool.binding.locations) == set(candidate.tool.parameters["properties"])
