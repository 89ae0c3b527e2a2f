"""How an operation becomes a tool: its name, and what a review found that must not come back."""

import pytest
from hypothesis import given, strategies as st

from sources.rest.documents import OK, document, loader_of, notes_of, tool_of, tools_of
from toolyard.model.names import check_tool_name
from toolyard.sources.rest.reader import base_name, distinct_names


def document_at(path, *parameters):
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {path: {"get": {"operationId": "x", "parameters": list(parameters), "responses": OK}}},
    }


def test_headers_that_follow_from_the_message_are_no_arguments():
    content = document_at("/x", {"name": "Content-Length", "in": "header", "required": True, "schema": {}})
    assert tool_of(content).parameters.get("properties", {}) == {}
    assert any("Content-Length" in rewrite.change for rewrite in loader_of(content).report.rewrites)


def test_bytes_in_a_body_that_is_one_argument_are_bytes_all_the_same():
    content = document_at("/up")
    file = {"type": "string", "format": "binary"}
    schema = {"type": "object", "properties": {"f": file, "n": {"type": "integer"}}, "additionalProperties": True}
    body = {"content": {"multipart/form-data": {"schema": schema, "encoding": {"f": {"contentType": "image/png"}}}}}
    content["paths"]["/up"] = {"post": {"operationId": "x", "requestBody": body, "responses": OK}}
    tool = tool_of(content)
    assert tool.binding.body.argument == "body"
    assert tool.binding.body.parts["f"].binary and tool.binding.body.parts["f"].content_type == "image/png"
    assert tool.parameters["properties"]["body"]["properties"]["f"]["contentEncoding"] == "base64"


@pytest.mark.parametrize(
    ("operation_id", "name"),
    [
        ("getPet", "getPet"),
        ("pets/get.one two", "pets/get.one two"),
        ("Ünïcode", "Ünïcode"),
        ("a::b", "a:b"),
        (" padded ", "padded"),
        ("tab\there", "tab_here"),
        ("run:invoke", "run_invoke"),
        ("", "get_pets_id"),
        ("  ", "get_pets_id"),
        (None, "get_pets_id"),
        (7, "get_pets_id"),
        ("::", "get_pets_id"),
    ],
)
def test_an_operation_id_is_changed_as_little_as_the_grammar_asks_for(operation_id, name):
    assert base_name(operation_id, "GET", "/pets/{id}") == name


def test_the_root_path_has_a_name():
    assert base_name(None, "GET", "/") == "get_root"


def test_long_names_stay_apart():
    first, second = base_name("x" * 200 + "a", "GET", "/"), base_name("x" * 200 + "b", "GET", "/")
    assert first != second
    assert len(first) == len(second) == 128


def test_renames_are_listed():
    content = document({"get": {"operationId": "a::b", "responses": OK}})
    assert "operationId 'a::b' written as 'a:b'" in notes_of(content)


def test_operations_of_one_id_are_all_there():
    paths = {f"/{name}": {"get": {"operationId": "same", "responses": OK}} for name in "cab"}
    names = {tool.binding.path: tool.name for tool in tools_of({**document(), "paths": paths})}
    assert names == {"/a": "same", "/b": "same_get_b", "/c": "same_get_c"}


def test_names_that_differ_by_case_are_two_names():
    paths = {f"/{name}": {"get": {"operationId": name, "responses": OK}} for name in ("List", "list")}
    assert [tool.name for tool in tools_of({**document(), "paths": paths})] == ["List", "list"]


IDS = (
    st.none()
    | st.sampled_from(["get", "get_a", "get_a_b", "same", "same_get_a", "a::b", "a:b"])
    | st.text(max_size=150)
)
PATHS = st.text("ab/-_{}.", max_size=6).map("/".__add__)
OPERATIONS = st.dictionaries(st.tuples(st.sampled_from(["GET", "POST"]), PATHS), IDS, max_size=12)


def named(operations):
    asked = [(base_name(wanted, method, path), method, path) for (method, path), wanted in operations]
    return dict(zip([key for key, _ in operations], distinct_names(asked), strict=True))


@given(OPERATIONS, st.randoms())
def test_no_two_tools_share_a_name_and_order_does_not_matter(operations, random):
    items = list(operations.items())
    names = named(items)
    assert len(set(names.values())) == len(names)
    for name in names.values():
        check_tool_name(name)
    random.shuffle(items)
    assert named(items) == names


@given(OPERATIONS, st.sampled_from(["other", "unrelated"]))
def test_an_operation_that_wants_another_name_changes_no_name(operations, wanted):
    before = named(list(operations.items()))
    after = named([(("PUT", "/new"), wanted), *operations.items()])
    assert {key: name for key, name in after.items() if key != ("PUT", "/new")} == before
