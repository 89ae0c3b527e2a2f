"""Compositions: a closed schema does not forbid what the document itself describes beside it."""

import pytest

from sources.rest.documents import accepts, answer, body, document, notes_of, operation, tool_of
from toolyard.sources.rest.document import Files


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def closed(*names, **more):
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "additionalProperties": False,
        **more,
    }


def spec(schema, **schemas):
    return document({"get": operation(responses=answer(schema))}, components={"schemas": schemas})


BASE = closed("a")
FORMS = {
    "closed around a reference": {"allOf": [ref("Base")], "additionalProperties": False},
    "closed around a reference, with what is required": {
        "allOf": [ref("Base")],
        "required": ["a"],
        "additionalProperties": False,
    },
    "a closed part beside another": {"allOf": [ref("Base"), {"properties": {"b": {"type": "string"}}}]},
    "a closed part beside own properties": {"allOf": [ref("Base")], "properties": {"b": {"type": "string"}}},
    "a closed part of a part": {"allOf": [ref("Middle"), closed("b")]},
    "two closed parts that lie in the schema": {"allOf": [closed("a"), closed("b")]},
    "closed around branches": {"oneOf": [{"properties": {"a": {"type": "string"}}}], "additionalProperties": False},
}


@pytest.mark.parametrize("form", FORMS)
def test_closed_schemas_of_a_composition_allow_the_properties_of_all(form):
    made = spec(FORMS[form], Base=BASE, Middle={"allOf": [ref("Base")]})
    schema = tool_of(made).output_parameters
    assert accepts(schema, {"a": "x"})
    assert accepts(schema, {"a": "x", "b": "y"}) or "b" not in str(FORMS[form])
    assert not accepts(schema, {"a": 1})
    assert "additionalProperties: false left out" in notes_of(made)


def test_a_closed_schema_stays_closed_where_it_stands_alone_and_where_nothing_contradicts_it():
    alone = {"type": "object", "properties": {"x": ref("Base"), "y": {"allOf": [ref("Base")], "description": "d"}}}
    mixed = {**alone, "allOf": [ref("Base"), {"properties": {"b": {}}}]}
    for schema in (alone, mixed):
        found = tool_of(spec(schema, Base=BASE)).output_parameters
        assert accepts(found, {"x": {"a": "1"}})
        assert not accepts(found, {"x": {"b": 1}})
        assert not accepts(found, {"y": {"b": 1}})
    assert "additionalProperties" not in notes_of(spec(alone, Base=BASE))


def test_a_body_with_a_closed_composition_in_it_can_be_sent():
    address = {"allOf": [ref("Partial")], "additionalProperties": False, "required": ["a"]}
    sent = {"type": "object", "properties": {"address": address}, "required": ["address"]}
    made = document({"post": operation(requestBody=body(sent))}, components={"schemas": {"Partial": BASE}})
    assert accepts(tool_of(made).parameters, {"address": {"a": "1 Main Street"}})


def test_references_that_lead_back_or_nowhere_cost_nothing_else():
    schemas = {"Base": BASE, "Ring": {"allOf": [ref("Ring"), ref("Base")], "properties": {"b": {}}}}
    found = tool_of(spec({"allOf": [ref("Ring"), ref("Nowhere")]}, **schemas)).output_parameters
    assert accepts(found, {"a": "x", "b": 1})


def test_doubling_compositions_are_looked_at_once_each():
    levels = {f"L{level}": {"allOf": [ref(f"L{level + 1}"), ref(f"L{level + 1}")]} for level in range(12)}
    levels["L12"] = closed("a")
    made = spec({"allOf": [ref("L0"), {"properties": {"b": {}}}]}, **levels)
    assert accepts(tool_of(made).output_parameters, {"a": "x", "b": 1})


def test_a_long_chain_without_closed_schemas_is_followed_once(monkeypatch):
    followed, resolve = [], Files.resolve
    monkeypatch.setattr(Files, "resolve", lambda files, here: followed.append(here) or resolve(files, here))
    counts = []
    for length in (20, 40):
        chain = {f"L{level}": {"allOf": [ref(f"L{level + 1}")]} for level in range(length)}
        tool_of(spec(ref("L0"), **chain, **{f"L{length}": {"properties": {"a": {}}}}))
        counts.append(len(followed))
        followed.clear()
    assert counts[1] < 2.5 * counts[0]


def test_what_a_chain_leads_to_is_known_of_every_schema_above_a_closed_one():
    """In whatever order they are met, and where one branch was found to have none before."""
    chain = {
        "Open": {"allOf": [ref("Plain")], "properties": {"c": {}}},
        "Plain": {"properties": {"d": {}}},
        "Middle": {"allOf": [ref("Open"), ref("Base")]},
        "Base": BASE,
    }
    shown = {"properties": {"first": ref("Open"), "second": {"allOf": [ref("Middle"), {"properties": {"b": {}}}]}}}
    found = tool_of(spec(shown, **chain)).output_parameters
    assert accepts(found, {"second": {"a": "x", "b": 1, "c": 2, "d": 3}})
