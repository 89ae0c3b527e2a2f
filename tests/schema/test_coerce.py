import copy

from hypothesis import given, strategies as st

from toolyard.schema.coerce import coerce, convert_integral_floats, mentions_integers
from toolyard.schema.compile import compile_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "m": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "x": {"type": "number"},
        "b": {"type": "boolean"},
        "o": {"$ref": "#/$defs/o"},
        "l": {"type": "array", "items": {"type": ["integer", "string"]}},
        "u": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
    },
    "$defs": {"o": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
}
COMPILED = compile_schema(SCHEMA)
scalars = st.sampled_from(
    ["5", "5.0", "-0", "true", "null", '{"n": "7"}', '{"n": 7}', "[1]", "x", 3.0, 2.5, True, None, 7]
)
arguments = st.dictionaries(
    st.sampled_from("nmxbolu"),
    scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.just("n"), scalars),
    max_size=5,
)


@given(arguments)
def test_a_repair_satisfies_the_schema_changes_only_what_was_wrong_and_never_its_input(value):
    before = copy.deepcopy(value)
    repaired = coerce(COMPILED, value, [])
    assert value == before
    if COMPILED.is_valid(value):
        assert repaired == (value, [])
    elif repaired is not None:
        fixed, repairs = repaired
        assert COMPILED.is_valid(fixed)
        assert repairs
        touched = {repair.pointer.split("/")[1] for repair in repairs}
        assert {key for key in value if value[key] != fixed[key]} <= touched


def test_what_cannot_be_repaired_is_none():
    assert coerce(COMPILED, {"n": "five"}, []) is None
    assert coerce(COMPILED, {"o": "{}"}, []) is None


def test_integral_floats_become_integers_only_where_nothing_but_an_integer_is_meant():
    value = {"n": 3.0, "m": 4.0, "x": 5.0, "u": 6.0, "o": {"n": 7.0}, "l": [8.0, 8.5], "free": 9.0}
    fixed, repairs = convert_integral_floats(value, SCHEMA)
    assert fixed == value
    assert {key: type(item) for key, item in fixed.items() if not isinstance(item, (dict, list))} == {
        "n": int,
        "m": int,
        "x": float,
        "u": float,
        "free": float,
    }
    assert type(fixed["o"]["n"]) is int
    assert [type(item) for item in fixed["l"]] == [int, float]
    assert sorted(repair.pointer for repair in repairs) == ["/l/0", "/m", "/n", "/o/n"]
    assert type(value["o"]["n"]) is float


def test_a_recursive_schema_is_followed_as_far_as_the_value_goes():
    node = {"type": "object", "properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}}}
    fixed, _ = convert_integral_floats({"n": 1.0, "next": {"n": 2.0, "next": {"n": 3.0}}}, node)
    assert type(fixed["next"]["next"]["n"]) is int


def test_kinds_that_all_refer_to_each_other_are_each_read_once_and_at_any_depth():
    # One after the other to a depth of eight, these would be 40 ** 8 subschemas.
    kinds = [f"k{number}" for number in range(40)]
    links = {name: {"$ref": f"#/$defs/{name}"} for name in kinds}
    schema = {
        "$ref": "#/$defs/k0",
        "$defs": {name: {"properties": {**links, "n": {"type": "integer"}}} for name in kinds},
    }
    value = {"n": 3.0}
    for name in kinds:
        value = {name: value}
    fixed, repairs = convert_integral_floats(value, schema)
    assert [repair.pointer for repair in repairs] == ["/" + "/".join(reversed(kinds)) + "/n"]
    assert "3.0" not in str(fixed)


def test_a_schema_is_looked_beside_values_only_if_it_says_integer_somewhere():
    assert mentions_integers(
        {"$defs": {"n": {"type": ["integer", "null"]}}, "properties": {"n": {"$ref": "#/$defs/n"}}}
    )
    assert mentions_integers(
        {"components": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/components/n"}}}
    )
    assert not mentions_integers({"properties": {"integer": {"type": "number"}}, "description": "integer"})


def test_very_many_integral_floats_are_counted_instead_of_listed():
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}}}
    fixed, repairs = convert_integral_floats({"l": [1.0] * 6_000}, schema)
    assert set(map(type, fixed["l"])) == {int}
    assert len(repairs) == 5_001
    assert repairs[-1].to_dict() == {"pointer": "", "from": "1,000 further numbers", "to": "integer"}


def test_a_list_whose_first_faults_cannot_be_repaired_is_not_walked_to_its_end():
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": {"enum": ["a", "b"]}}}}
    compiled, found = compile_schema(schema), []
    assert coerce(compiled, {"l": ["x"] * 5_000}, found) is None
    assert len(found) == 100
    fixed, repairs = coerce(
        compile_schema(SCHEMA | {"properties": {"l": {"items": {"type": "integer"}}}}), {"l": ["1"] * 200}, []
    )
    assert fixed == {"l": [1] * 200} and len(repairs) == 200
