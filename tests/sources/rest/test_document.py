"""Documents: versions, methods, and every operation accounted for."""

import pytest

from sources.rest.documents import OK, document, loader_of, notes_of, operation, tool_of, tools_of
from toolyard import Effects, MalformedSource
from toolyard.sources.rest.document import read_text

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def test_every_method_is_an_operation_and_only_get_and_head_are_reads():
    tools = tools_of(document({method: {"responses": OK} for method in METHODS}))
    assert [tool.binding.method for tool in tools] == [method.upper() for method in METHODS]
    assert {tool.binding.method for tool in tools if tool.effects is Effects.READ} == {"GET", "HEAD"}
    assert all(tool.effects is Effects.WRITE for tool in tools if tool.binding.method not in ("GET", "HEAD"))


def test_query_and_additional_operations_belong_to_3_2():
    operations = {
        "query": operation(operationId="q"),
        "additionalOperations": {"COPY": operation(operationId="copy"), "a/b": 7},
    }
    loader = loader_of(document(operations, version="3.2.0"))
    assert [(c.tool.name, c.tool.binding.method) for c in loader.admitted] == [("q", "QUERY"), ("copy", "COPY")]
    (rejected,) = loader.report.rejected
    assert rejected.where.endswith("#/paths/~1things/additionalOperations/a~1b")
    assert tools_of(document({"query": operation()}, version="3.1.0")) == []


def test_what_cannot_be_an_operation_is_a_listed_rejection_with_its_place():
    paths = {
        "/a": {"get": None, "post": operation(operationId="ok")},
        "/b": {"$ref": "#/components/pathItems/Gone"},
        "/c": "text",
        "x-note": {"get": "ignored"},
    }
    loader = loader_of({**document(), "paths": paths})
    assert [c.tool.name for c in loader.admitted] == ["ok"]
    assert [r.where.partition("#")[2] for r in loader.report.rejected] == ["/paths/~1a/get", "/paths/~1b", "/paths/~1c"]
    assert loader.report.entries == 4


def test_the_policy_may_be_to_raise():
    with pytest.raises(MalformedSource, match=r"#/paths/~1things/get"):
        loader_of(document({"get": 7}), on_error="raise")


def test_references_to_path_items_are_followed_and_may_be_added_to():
    items = {"Item": {"get": operation(operationId="one"), "servers": [{"url": "https://b.example"}]}}
    paths = {"/a": {"$ref": "#/components/pathItems/Item", "post": operation(operationId="two")}}
    tools = tools_of({**document(), "paths": paths, "components": {"pathItems": items}})
    assert [(tool.name, tool.binding.base_url) for tool in tools] == [
        ("one", "https://b.example"),
        ("two", "https://b.example"),
    ]


def test_webhooks_are_counted_and_are_no_operations():
    content = {**document(version="3.1.0"), "webhooks": {"ping": {"post": operation(operationId="ping")}}}
    assert tool_of(content).name == "call"
    assert "webhooks are calls to you" in notes_of(content)


def test_a_document_without_paths_is_an_empty_source():
    assert tools_of({"openapi": "3.1.0", "info": {}, "webhooks": {}}) == []


@pytest.mark.parametrize(
    "content", [[], {}, {"openapi": "4.0"}, {"swagger": "1.2"}, {"openapi": None}, "text", {"a": 1}]
)
def test_what_is_no_such_document_raises(content):
    with pytest.raises(MalformedSource):
        loader_of(content if content != "text" else '"text"')


@pytest.mark.parametrize("page", ["<!DOCTYPE html>\n<html>a: b: c</html>", "\ufeff <?xml version='1.0'?>"])
def test_a_page_about_a_document_is_said_to_be_none(page):
    with pytest.raises(MalformedSource, match="a web page or XML, not an OpenAPI document"):
        read_text(page.encode(), "http://a.example/docs")


@pytest.mark.parametrize("version", ["3.0.0", "3.0", "3.1.0", "3.1.1", "3.2.0", "3.9", "2.0"])
def test_versions_are_read_by_their_first_two_numbers(version):
    assert tool_of(document(version=version)).name == "call"


def test_what_the_operation_says_of_itself_is_kept():
    fields = {
        "summary": "Find things.",
        "description": "All of them, or some.",
        "tags": ["things", 7],
        "deprecated": True,
        "externalDocs": {"url": "https://docs.example"},
    }
    tool = tool_of(document({"get": operation(**fields)}))
    assert tool.description == "Find things.\n\nAll of them, or some."
    assert tool.tags == ("things",)
    assert tool.metadata == {"deprecated": True, "external_docs": "https://docs.example"}


def test_a_summary_that_the_description_repeats_is_said_once():
    tool = tool_of(document({"get": operation(summary="Find things", description="Find things, all of them.")}))
    assert tool.description == "Find things, all of them."


@pytest.mark.parametrize("text", ["One sentence of it. " * 200, "word " * 900, "x" * 5_000])
def test_a_huge_description_is_cut_and_kept_whole_beside(text):
    tool = tool_of(document({"get": operation(description=text)}))
    assert len(tool.description) <= 1024
    assert tool.description.endswith("…")
    assert tool.metadata["description"] == text.strip()
