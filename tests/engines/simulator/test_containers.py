"""Objects and arrays of a schema: what is in them, whatever the schema says, and the same in every process."""

import json
import os
import subprocess
import sys

import pytest

from toolyard.engines.simulator.draw import Draw
from toolyard.engines.simulator.values import SchemaValues

HOSTILE = ["it's", 'a "name"', "two\nlines", "{braces}", "back\\slash", "'] = 1; import os #", "\u2028", ""]
PERSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "city": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "parts": {"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}},
        "token": {"type": "string", "pattern": "^[a-f]{4}$"},
    },
    "required": ["id", "parts"],
    "$defs": {
        "a": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "b": {"type": "object", "properties": {"y": {"type": ["integer", "null"]}}},
    },
}
MANY = """
import json, sys
from toolyard.engines.simulator.draw import Draw
from toolyard.engines.simulator.values import SchemaValues
values = SchemaValues(json.loads(sys.argv[1]))
print(json.dumps([values.make(Draw(b"%d" % at, {"city": "Rome"})) for at in range(40)]))
"""


def test_names_of_properties_are_words_and_never_code():
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in HOSTILE},
        "required": HOSTILE[:4],
    }
    values = SchemaValues(schema)
    made = [values.make(Draw(b"%d" % at)) for at in range(50)]
    assert all(values.check(value) for value in made)
    assert {name for value in made for name in value} == set(HOSTILE)


def test_what_is_not_required_is_mostly_there_and_sometimes_not():
    values = SchemaValues(PERSON)
    made = [values.make(Draw(b"%d" % at)) for at in range(200)]
    assert all(values.check(value) for value in made)
    assert 140 < sum("city" in value for value in made) < 200
    assert {key for value in made for part in value["parts"] for key in part} == {"x", "y"}


def test_what_is_known_is_repeated_and_a_copy_of_it():
    tags = ["kept"]
    made = SchemaValues(PERSON).make(Draw(b"1", {"city": "Rome", "tags": tags}))
    assert made["city"] == "Rome"
    assert made["tags"] == ["kept"] and made["tags"] is not tags


def test_a_schema_that_contains_itself_comes_to_an_end():
    schema = {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "in": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                "required": ["name", "in"],
            }
        },
    }
    values = SchemaValues(schema)
    assert all(values.check(values.make(Draw(b"%d" % at))) for at in range(30))


@pytest.mark.process
@pytest.mark.parametrize("seed", ["0", "4711"])
def test_every_process_makes_the_same(seed):
    here = [SchemaValues(PERSON).make(Draw(b"%d" % at, {"city": "Rome"})) for at in range(40)]
    command = [sys.executable, "-c", MANY, json.dumps(PERSON)]
    there = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True)
    assert there.stdout.decode().strip() == json.dumps(here)
