"""Responses: the schema of a call that went well."""

import pytest

from sources.rest.documents import answer, document, operation, tool_of

INTEGER = {"type": "integer"}


def given(responses, version="3.0.3", **top):
    return tool_of(document({"get": operation(responses=responses)}, version=version, **top))


def reply(schema, media_type="application/json"):
    return answer(schema, media_type)["200"]


@pytest.mark.parametrize(
    ("responses", "found"),
    [
        ({"200": reply(INTEGER)}, INTEGER),
        ({"404": reply({"type": "string"}), "201": reply(INTEGER)}, INTEGER),
        ({"204": {"description": "none"}, "202": reply(INTEGER)}, INTEGER),
        ({"2XX": reply(INTEGER), "default": reply({"type": "string"})}, INTEGER),
        ({"2xx": reply({"type": "string"}), "200": reply(INTEGER)}, INTEGER),
        ({"default": reply(INTEGER)}, INTEGER),
        ({"default": reply(INTEGER), "4XX": reply({"type": "string"})}, {}),
        ({"4XX": reply(INTEGER)}, {}),
        ({"204": {"description": "none"}, "default": reply(INTEGER)}, {}),
        ({"200": reply({"type": "string"}, "text/plain")}, {}),
        ({"200": reply(INTEGER, "application/vnd.api+json; charset=utf-8")}, INTEGER),
        ({"200": reply(INTEGER, "*/*")}, INTEGER),
        ({"204": reply({"not": {}})}, {}),
        ({"200": reply(False), "201": reply(INTEGER)}, INTEGER),
        ({}, {}),
        ("nonsense", {}),
    ],
)
def test_the_first_success_with_json_is_the_output(responses, found):
    assert given(responses).output_parameters == found


def test_references_to_responses_are_followed_and_headers_harm_nobody():
    response = {**reply(INTEGER), "headers": {"X-Rate": {"$ref": "#/components/headers/Rate"}}}
    tool = given({"200": {"$ref": "#/components/responses/Good"}}, components={"responses": {"Good": response}})
    assert tool.output_parameters == INTEGER


def test_media_types_of_all_successes_are_what_is_accepted():
    content = {"text/csv": {}, "application/json": {"schema": INTEGER}}
    tool = given({"200": {"content": content}, "201": {"content": {"image/png": {}}}, "400": {"content": {"a/b": {}}}})
    assert tool.binding.accepts == ("text/csv", "application/json", "image/png")


def test_the_root_of_an_output_is_the_component_itself():
    tool = given({"200": reply({"$ref": "#/components/schemas/A"})}, components={"schemas": {"A": INTEGER}})
    assert tool.output_parameters == INTEGER


def test_swagger_schemas_are_json_unless_it_produces_something_else():
    assert given({"200": {"schema": INTEGER}}, "2.0").output_parameters == INTEGER
    assert given({"200": {"schema": INTEGER}}, "2.0", produces=["application/xml"]).output_parameters == {}
    assert given({"200": {"schema": {"type": "file"}}}, "2.0", produces=["image/png"]).binding.accepts == ("image/png",)
