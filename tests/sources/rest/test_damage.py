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
        *([{}], {"type": [[]]}, {"type": {}}, {"type": ["string", "null"]}, {"a": {"b": [{"c": []}]}}, 10**30),
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


OPERATIONS = sum(len(item.keys() & {"get", "post", "delete"}) for item in SMALL["paths"].values()) + 1


def shown(loader):
    """What each tool is, by where it was defined."""
    tools = {item.place: item.tool for item in loader.admitted}
    return {
        place: (tool.name, tool.description, tool.parameters, tool.output_parameters) for place, tool in tools.items()
    }


def is_of_many(path):
    """Whether what stands there is a path, or what paths are made of, so that its loss changes their number."""
    return (
        path[:2] == ("components", "pathItems")
        or path == ("components",)
        or path[0] == "openapi"
        or (path[0] == "paths" and (len(path) < 3 or path[2] == "$ref"))
    )


@pytest.mark.parametrize("media_type", ["multipart/form-data", "application/json", "application/octet-stream"])
@settings(max_examples=examples(30))
@given(data=st.data())
def test_what_is_wrong_with_one_operation_costs_that_one_alone_and_is_listed(media_type, data):
    """Every operation is a tool or a rejection; those in which nothing was changed are what they were."""
    content = copy.deepcopy(SMALL)
    made = content["paths"]["/a/{id}"]["post"]["requestBody"]["content"]
    made[media_type] = made.pop("multipart/form-data")
    untouched = shown(loader_of(content))
    inside = data.draw(st.booleans(), label="inside of one operation")
    for _ in range(data.draw(st.integers(1, 3))):
        choices = [
            path
            for path in places(content)
            if path and not is_of_many(path) and (not inside or path[:3] == ("paths", "/a/{id}", "post"))
        ]
        content = damaged(content, data.draw(st.sampled_from(choices)), data.draw(JUNK))
    loader = loader_of(content)
    report = loader.report
    assert report.loaded + len(report.rejected) == OPERATIONS == len(untouched)
    assert all(
        item.where.rpartition("#")[2].startswith("/paths/") and "Error" not in item.reason for item in report.rejected
    )
    assert not [rewrite for rewrite in report.rewrites if "the schema cannot be read" in rewrite.change]
    if inside:
        found = shown(loader)
        assert {place for place, tool in untouched.items() if found.get(place) != tool} <= {"#/paths/~1a~1{id}/post"}


@pytest.mark.parametrize("levels", [14, 40, 400])
@pytest.mark.parametrize("keyword", ["allOf", "oneOf", "anyOf", "prefixItems", "properties"])
def test_schemas_that_double_level_by_level_cost_no_time_and_no_other_operation(keyword, levels):
    def level(number):
        below = {"$ref": f"#/components/schemas/L{number + 1}"}
        return {keyword: {"a": below, "b": below} if keyword == "properties" else [below, below]}

    schemas = {f"L{number}": level(number) for number in range(levels)}
    schemas[f"L{levels}"] = {"type": "object", "properties": {"x": {"type": "string"}}}
    whole = {"$ref": "#/components/schemas/L0"}
    paths = {
        "/json": {"post": {"requestBody": body(whole), "responses": OK}},
        "/form": {"post": {"requestBody": body(whole, "multipart/form-data"), "responses": OK}},
        "/query": {"get": {"parameters": [parameter(schema=whole)], "responses": OK}},
        "/other": {"get": {"responses": OK}},
    }
    content = {"openapi": "3.1.0", "info": {}, "paths": paths, "components": {"schemas": schemas}}
    report = loader_of(content).report
    assert report.loaded + len(report.rejected) == len(paths)
    if keyword == "allOf":
        assert report.loaded == len(paths)
