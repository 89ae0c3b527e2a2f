"""Schemas that ask for far too much come to an end; those that ask for something unusual get it."""

from enum import StrEnum

import pytest

from toolyard import InvalidOutput, Tool
from toolyard.engines.simulator import Simulator
from toolyard.engines.simulator.draw import Draw, GaveUp
from toolyard.engines.simulator.values import SchemaValues

TEXT = {"type": "string"}


def inside(schema):
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


def doubled(word, levels):
    parts = {f"a{at}": {word: [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**parts, f"a{levels}": {"type": "integer"}}}


TOO_MUCH = {
    "length": {"type": "string", "minLength": 10**9},
    "items": {"type": "array", "minItems": 10**9},
    "contained": {"type": "array", "contains": {"type": "integer"}, "minContains": 10**9},
    "properties": {"type": "object", "minProperties": 10**9},
    "arrays": {"type": "array", "minItems": 5000, "items": {"type": "array", "minItems": 5000, "items": TEXT}},
    "texts": {"type": "array", "minItems": 5000, "items": {"type": "string", "minLength": 400_000}},
    "different": {"type": "array", "minItems": 4000, "uniqueItems": True, "items": {"type": "boolean"}},
    "number": {"type": "number", "minimum": 10**400},
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_given_up_and_said(name):
    tool = Tool("get_weather", "n", parameters={"type": "object"}, output_parameters=inside(TOO_MUCH[name]))
    with pytest.raises(InvalidOutput, match=r"no result of n::get_weather was found .* allows: ") as caught:
        Simulator().value(tool, {})
    assert "output_parameters" in str(caught.value.info.hint)


POSSIBLE = {
    "long": {"type": "string", "minLength": 100_000},
    "pattern that repeats repetitions": {"type": "string", "minLength": 1000, "pattern": "^((((a+)+)+)+)+$"},
    "pattern of one length": {"type": "string", "pattern": "^[0-9a-f]+$", "minLength": 40, "maxLength": 40},
    "nothing that is printed": {"type": "string", "pattern": "^[^\\x00-\\x7f]+$"},
    "different numbers": {"type": "array", "minItems": 400, "uniqueItems": True, "items": {"type": "integer"}},
    "different texts": {"type": "array", "minItems": 50, "uniqueItems": True, "items": TEXT},
    "greatest": {"type": "number", "minimum": 1e307},
    "least": {"type": "number", "maximum": -1e308},
    "two steps": {"allOf": [{"type": "number", "multipleOf": 0.3}, {"multipleOf": 0.2}]},
    "not above": {"type": "integer", "not": {"minimum": 10}},
    "any of very many": {"$ref": "#/$defs/a0"},
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_is_possible_is_found(name):
    schema = {**inside(POSSIBLE[name]), "$defs": doubled("anyOf", 13)["$defs"]}
    values = SchemaValues(schema)
    assert all(values.check(values.make(Draw(b"%d" % at))) for at in range(10))


@pytest.mark.parametrize("word", ["anyOf", "allOf"])
def test_definitions_that_refer_to_one_another_often_are_not_all_walked(word):
    values = SchemaValues(doubled(word, 14))
    assert all(values.check(values.make(Draw(b"%d" % at))) for at in range(3))


def test_the_same_is_made_before_and_after_a_part_is_first_met():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"anyOf": [{"$ref": "#/$defs/y"}, {"$ref": "#/$defs/x"}]}},
        "$defs": {
            "x": {"type": "string", "pattern": "^a+[0-9]{5}$"},
            "y": {"type": "object", "properties": {"z": {"type": "integer", "multipleOf": 3}}},
        },
    }
    first = [SchemaValues(schema).make(Draw(b"%d" % at)) for at in range(20)]
    values = SchemaValues(schema)
    assert [values.make(Draw(b"%d" % at)) for at in range(20)] == first
    assert [values.make(Draw(b"%d" % at)) for at in range(20)] == first


class _Name(StrEnum):
    CITY = "city"


def test_names_that_are_members_of_an_enum_are_text():
    schema = {"type": "object", "properties": {_Name.CITY: TEXT, "n": {"type": "integer"}}, "required": [_Name.CITY]}
    made = SchemaValues(schema).make(Draw(b"1"))
    assert type(made["city"]) is str


def test_a_contradiction_says_where():
    with pytest.raises(GaveUp, match="size: no whole number is within its bounds"):
        SchemaValues(
            {
                "type": "object",
                "properties": {"size": {"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 2}]}},
                "required": ["size"],
            }
        ).make(Draw(b"1"))


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
def test_a_part_that_many_branches_lead_to_judges_a_value_a_few_times(word):
    def level(at):
        part = {"type": "object", "properties": {"p": {"$ref": f"#/$defs/a{at + 1}"}}, "required": ["p"]}
        return {word: [part, {**part, "required": ["p", "k"]}]}

    parts = {f"a{at}": level(at) for at in range(12)}
    values = SchemaValues({"$ref": "#/$defs/a0", "$defs": {**parts, "a12": {"type": "integer"}}})
    judged = []
    values.checker(values.root["$defs"]["a12"])._function = lambda value: judged.append(value) or True
    value = 7
    for _ in range(12):
        value = {"p": value, "k": "x"} if word == "allOf" else {"p": value}
    assert values.checker(values.root["$defs"]["a0"])(value)
    assert len(judged) <= 2
