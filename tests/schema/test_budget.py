import pytest

from toolyard.model.errors import InvalidSchemaError
from toolyard.schema.admission import SchemaBudget, check_budget


def nested(depth, leaf=None):
    schema = leaf or {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def doublings(count):
    definitions = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{count}": {"type": "string"}}}


def test_ordinary_schemas_pass():
    check_budget(nested(60))
    check_budget(doublings(10))


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (nested(65), "deeper than 64"),
        (nested(3_000), "deeper than 64"),
        ({"properties": {str(i): {} for i in range(10_001)}}, "more than 10000 subschemas"),
        (doublings(24), "judge one value"),
        ({"pattern": "a" * 1_001}, "pattern has 1001"),
        ({"patternProperties": {"a" * 1_001: {}}}, "pattern has 1001"),
        ({"enum": list(range(10_001))}, "enum has 10001"),
    ],
)
def test_a_schema_over_budget_is_refused_and_says_which_limit(schema, says):
    with pytest.raises(InvalidSchemaError, match=says):
        check_budget(schema)


def test_recursive_schemas_are_fine():
    check_budget({"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}, "$ref": "#/$defs/node"})
    check_budget({"$ref": "#"})


def test_a_schema_shared_by_many_properties_costs_each_value_only_once():
    shared = {f"p{i}": {"$ref": "#/$defs/big"} for i in range(500)}
    big = {"anyOf": [{"const": i} for i in range(400)]}
    check_budget({"properties": shared, "$defs": {"big": big}})


def test_limits_can_be_set():
    with pytest.raises(InvalidSchemaError, match="deeper than 2"):
        check_budget(nested(3), SchemaBudget(depth=2))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{at}": {"pattern": f"^[^x]{{500}}{at}$"} for at in range(101)}},
        {"patternProperties": {f"x{at}": {} for at in range(5_001)}},
        {"allOf": [{"pattern": "((a{9}){9}){9}"}] * 69},
    ],
    ids=["long", "many", "nested"],
)
def test_patterns_that_take_seconds_to_compile_are_over_the_budget(schema):
    with pytest.raises(InvalidSchemaError, match="more than 50,000 positions"):
        check_budget(schema)


def test_patterns_as_people_write_them_are_within_the_budget():
    uuid = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
    check_budget({"properties": {f"p{at}": {"type": "string", "pattern": uuid} for at in range(1_000)}})
