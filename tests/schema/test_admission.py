"""Schemas are rewritten, limited and compiled when a tool is admitted, and copied from the dicts of the caller."""

import copy
import enum
import math
import sys

import pytest
from hypothesis import given, strategies as st

from toolyard import DefinitionError, InvalidSchemaError, MalformedSource, Tool, ToolLoader, ToolRegistry
from toolyard.schema.admission import SchemaBudget, admit_schema, check_budget


class Unit(enum.StrEnum):
    C = "c"


def _schema():
    return {"type": "object", "properties": {"city": {"type": "string", "enum": ["a", "b"]}}, "required": ["city"]}


def _tools(count=20, **changes):
    tools = [Tool(f"tool_{number}", "ns", f"Does {number}.", _schema(), _schema()) for number in range(count)]
    return [*tools[:-1], tools[-1].replace(**changes)]


def _made(registry):
    return [tool.to_dict() for tool in registry.all_tools()]


@pytest.mark.parametrize("inline", [False, True])
def test_changing_the_given_dicts_does_not_change_the_registry(inline):
    tools = [*_tools(), Tool("none", "ns", "Takes nothing.", {}, {})]
    given_dicts = [tool.to_dict() for tool in tools]
    registry = ToolRegistry.from_dicts(given_dicts) if inline else ToolRegistry(tools)
    before = copy.deepcopy(_made(registry))
    for entry in given_dicts:
        for schema in (entry["parameters"], entry["output_parameters"]):
            schema.get("properties", {}).get("city", {}).get("enum", []).append("c")
            schema.get("properties", {})["more"] = {"type": "string"}
            schema["description"] = "changed"
    assert _made(registry) == before


class Kept(ToolLoader):
    """A loader of somebody else's, which gives the same tools at every load and leaves the checks to the registry."""

    label = "kept"

    def __init__(self, tools):
        self.tools = tools

    def load(self):
        return self.tools


def test_a_tool_that_a_loader_gives_again_is_the_same_tool_after_a_refresh():
    registry = ToolRegistry.from_loaders([Kept(_tools(source="kept"))])
    before = registry.snapshot.tools
    registry.refresh()
    assert before[-1] is registry.snapshot.tools[-1]


@pytest.mark.parametrize(
    ("given_output", "known"),
    [(None, {}), (False, {"not": {}}), ([], {"type": "object", "properties": {}}), ({}, {})],
    ids=repr,
)
def test_a_missing_or_boolean_output_schema_is_read_like_any_schema(given_output, known):
    [tool] = ToolRegistry([Tool("t", "ns", "", _schema(), given_output)]).all_tools()
    assert tool.output_parameters == known


@pytest.mark.parametrize("odd", ["", 0, ()], ids=repr)
def test_an_output_that_is_no_schema_is_refused(odd):
    with pytest.raises(InvalidSchemaError):
        ToolRegistry([Tool("t", "ns", "", _schema(), odd)])


def test_a_value_in_many_places_of_a_default_stays_one_value():
    value = ["x"]
    for _ in range(17):
        value = [value, value]
    given = {"type": "object", "properties": {"a": {"type": "array", "default": value}}}
    [tool] = ToolRegistry([Tool("t", "ns", "", given)]).all_tools()
    left, right = tool.parameters["properties"]["a"]["default"]
    assert left is right and left is not value[0]


def test_a_schema_that_cannot_be_written_out_is_copied_all_the_same():
    given = {"type": "object", "properties": {"a": {"type": "integer", "enum": [2**70, 1]}}}
    registry = ToolRegistry([Tool("big", "ns", "", given)])
    given["properties"]["a"]["enum"].append(3)
    assert registry.get("ns::big")[0].parameters["properties"]["a"]["enum"] == [2**70, 1]


def test_text_of_a_class_of_its_own_becomes_plain_text():
    registry = ToolRegistry([Tool("t", "ns", "", {"type": "object", "properties": {"u": {"enum": [Unit.C]}}})])
    [value] = registry.get("ns::t")[0].parameters["properties"]["u"]["enum"]
    assert value == "c" and type(value) is str


def test_one_part_in_many_places_is_refused_for_what_it_comes_to_and_not_written_out():
    part = {"type": "string"}
    for _ in range(60):
        part = {"type": "object", "properties": {"a": part, "b": part}}
    with pytest.raises(InvalidSchemaError, match="subschemas"):
        ToolRegistry([Tool("t", "ns", "", part)])


def test_a_schema_that_contains_itself_is_refused():
    loop = {"type": "object", "properties": {}}
    loop["properties"]["again"] = loop
    with pytest.raises(InvalidSchemaError, match="deep"):
        ToolRegistry([Tool("t", "ns", "", loop)])


def test_a_schema_far_deeper_than_the_stack_is_refused():
    deep = {"type": "string"}
    for _ in range(sys.getrecursionlimit() * 3):
        deep = {"type": "array", "items": deep}
    with pytest.raises(InvalidSchemaError):
        ToolRegistry([Tool("t", "ns", "", {"type": "object", "properties": {"a": deep}})])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
    | st.just(2**70),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(values)
def test_a_copy_is_what_was_given_down_to_the_kind_of_each_value(value):
    given_schema = {"type": "object", "properties": {"a": {"type": "object", "examples": [value]}}}
    [tool] = ToolRegistry([Tool("t", "ns", "", given_schema)]).all_tools()
    assert tool.parameters == given_schema
    assert repr(tool.parameters) == repr(given_schema)
    assert tool.parameters is not given_schema


def test_numbers_that_are_none_are_refused_as_ever():
    with pytest.raises(InvalidSchemaError, match=r"finite|NaN|number"):
        ToolRegistry([Tool("t", "ns", "", {"type": "object", "properties": {"a": {"default": math.nan}}})])


@pytest.mark.parametrize(("item", "way"), [(len, "function_tool"), ({"name": "x"}, "ToolRegistry.from_dicts")])
def test_an_object_that_is_not_a_tool_is_refused_with_a_hint(item, way):
    with pytest.raises(DefinitionError, match=way):
        ToolRegistry([item])


def test_a_plain_schema_comes_back_as_it_is_uncompiled():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    admitted = admit_schema(schema)
    assert admitted.schema is schema
    assert (admitted.changes, admitted.compiled) == ((), None)


def test_a_dialect_is_rewritten_and_listed():
    admitted = admit_schema({"type": "dict", "properties": {"a": {"type": "str"}}})
    assert admitted.schema["type"] == "object"
    assert len(admitted.changes) == 2


def test_a_schema_that_is_not_plain_is_compiled_once():
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
def test_invalid_schemas_are_refused(schema):
    with pytest.raises(InvalidSchemaError):
        admit_schema(schema)


def test_the_error_of_a_schema_names_its_tool_once(tmp_path):
    catalog = tmp_path / "catalog.json"
    catalog.write_text('[{"name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "strng"}}}}]')
    with pytest.raises(MalformedSource, match=r"json:1: tool 'a': parameters: /properties/x/type: unknown type"):
        ToolRegistry.from_file(catalog)
    with pytest.raises(InvalidSchemaError, match=r"^parameters of ns::a: /properties/x"):
        ToolRegistry([Tool("a", "ns", "", {"type": "object", "properties": {"x": {"type": "strng"}}})])


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
