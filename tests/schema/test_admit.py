import pytest

from toolyard.model.errors import InvalidSchemaError
from toolyard.schema.admission import SchemaBudget, admit_schema


def test_a_plain_schema_comes_back_as_it_is_uncompiled():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    admitted = admit_schema(schema)
    assert admitted.schema is schema
    assert (admitted.changes, admitted.compiled) == ((), None)


def test_a_dialect_is_rewritten_and_listed():
    admitted = admit_schema({"type": "dict", "properties": {"a": {"type": "str"}}})
    assert admitted.schema["type"] == "object"
    assert len(admitted.changes) == 2


def test_what_needs_a_closer_look_is_compiled_once():
    admitted = admit_schema({"type": "object", "properties": {"a": {"pattern": "^x"}}})
    assert admitted.compiled is not None
    assert admitted.compiled.is_valid({"a": "x"})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/nope"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"enum": list(range(20_000))}}},
        {"type": "object", "properties": {"a": {"minLength": -1}}},
        {"type": "string"},
        7,
    ],
)
def test_what_cannot_be_admitted_is_refused(schema):
    with pytest.raises(InvalidSchemaError):
        admit_schema(schema)


def test_a_tighter_budget_is_obeyed_even_by_plain_schemas():
    with pytest.raises(InvalidSchemaError, match="more than 2"):
        admit_schema({"type": "object", "properties": {"a": {}, "b": {}}}, budget=SchemaBudget(nodes=2))
