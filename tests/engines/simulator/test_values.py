"""Values that schemas allow: every keyword, mixtures of them that nobody wrote down, and schemas that contain themselves."""

import json
import re
import uuid
from datetime import date, datetime
from ipaddress import ip_address

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from toolyard.engines.simulator.draw import Draw, GaveUp
from toolyard.engines.simulator.values import SchemaValues, SharedParts
from toolyard.schema.compile import compile_schema


def made(schema, count=12, **known):
    values = SchemaValues(schema)
    return [values.make(Draw(b"%d" % seed, dict(known) or None)) for seed in range(count)]


def all_valid(schema, count=12, **known):
    check = jsonschema_rs.validator_for(schema, validate_formats=True)
    found = made(schema, count, **known)
    for value in found:
        assert check.is_valid(value), (value, list(check.iter_errors(value)))
    return found


SCHEMAS = [
    {"type": "string", "minLength": 30, "maxLength": 40},
    {"type": "string", "maxLength": 3},
    {"type": "string", "maxLength": 0},
    {"type": "string", "pattern": "^[A-Z]{2}\\d{4,6}(-[a-f0-9]+)?$"},
    {"type": "string", "pattern": "^a+$", "minLength": 20, "maxLength": 25},
    {"type": "string", "pattern": "b", "minLength": 12},
    {"type": "string", "pattern": "^(?:cat|dog|[^\\s]{3})$"},
    {"type": "integer", "minimum": 7, "maximum": 9},
    {"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 9},
    {"type": "integer", "multipleOf": 7, "minimum": 100},
    {"type": "integer", "maximum": -1_000_000},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001},
    {"type": "number", "multipleOf": 0.01, "minimum": 1, "maximum": 2},
    {"type": "number", "minimum": 5, "maximum": 5},
    {"type": ["integer", "null"]},
    {"enum": ["a", 1, None, {"b": [2]}]},
    {"const": {"fixed": [True]}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 6, "uniqueItems": True},
    {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
    {"type": "array", "items": {"type": "string"}, "contains": {"const": "needle"}},
    {"type": "array", "maxItems": 0},
    {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {"type": "null"}},
        "additionalProperties": {"type": "integer"},
    },
    {
        "type": "object",
        "patternProperties": {"^x-[a-z]+$": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 2,
    },
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{3}$"}, "minProperties": 3},
    {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "maxProperties": 1, "required": ["b"]},
    {"type": "object", "properties": {"never": False, "sure": {"type": "boolean"}}, "required": ["sure"]},
    {
        "allOf": [
            {"properties": {"a": {"minimum": 3}}},
            {"type": "object", "properties": {"a": {"type": "integer", "maximum": 3}}, "required": ["a"]},
        ]
    },
    {"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}]},
    {"allOf": [{"type": "number", "minimum": 2}, {"type": "integer", "maximum": 2}]},
    {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}], "description": "who"},
    {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]},
    {
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        ]
    },
    {"type": "string", "not": {"maxLength": 3}},
    {"type": "integer", "not": {"enum": [1, 2, 3]}, "minimum": 1, "maximum": 4},
    {"not": {"type": "string"}},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["card", "cash"]}, "number": {"type": "string"}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "card"}}},
        "then": {"required": ["number"]},
        "else": {"not": {"required": ["number"]}},
    },
    {"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["name", "children"],
            }
        },
    },
    {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
    {"properties": {"left": {"$ref": "#/properties/right"}, "right": {"type": "integer"}}, "required": ["left"]},
    {
        "type": "object",
        "properties": {"loop": {"$ref": "#/$defs/loop"}},
        "$defs": {"loop": {"type": "object", "properties": {"loop": {"$ref": "#/$defs/loop"}}, "required": ["loop"]}},
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "integer"}],
        "additionalItems": {"type": "string"},
        "minItems": 3,
    },
    {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "integer",
        "minimum": 3,
        "exclusiveMinimum": True,
        "maximum": 4,
    },
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
def test_every_value_is_one_that_the_schema_allows(schema):
    assert len(all_valid(schema)) > 0


FORMATS = {
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "uuid": uuid.UUID,
    "ipv4": ip_address,
    "ipv6": ip_address,
    "email": lambda text: re.fullmatch(r"[a-z]+\d+@example\.\w+", text).group(),
    "uri": lambda text: re.fullmatch(r"https://example\.\w+/.+", text).group(),
    **dict.fromkeys(("time", "hostname", "duration", "json-pointer", "uri-reference", "uri-template", "regex"), str),
}


@pytest.mark.parametrize("name", FORMATS)
def test_text_has_the_format_that_is_asked_for(name):
    texts = all_valid({"type": "string", "format": name}, 30)
    assert len([FORMATS[name](text) for text in texts]) == 30  # each is read, or raises


def test_a_part_is_found_by_its_anchor_beside_one_that_is_found_by_its_place():
    short = {"$anchor": "short", "type": "string", "maxLength": 3}
    properties = {"a": short, "b": {"$ref": "#short"}, "c": {"$ref": "#/properties/a"}}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    for number in range(5):
        assert compile_schema(schema).is_valid(SchemaValues(schema).make(Draw(b"%d" % number)))


def test_a_schema_that_nothing_satisfies_still_gives_something_to_look_at():
    branch = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    schema = {"type": "object", "properties": {"x": {"oneOf": [branch, branch]}}, "required": ["x"]}
    assert [list(value) for value in made(schema, 2)] == [["x"], ["x"]]


def an_object(**properties):
    return {"type": "object", "properties": properties}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
OVERLAPPING = {
    "optional properties": [an_object(a=TEXT), an_object(b=WHOLE)],
    "one in the other": [an_object(a=TEXT), {"allOf": [an_object(a=TEXT), an_object(b=WHOLE)]}],
    "three": [an_object(a=TEXT), an_object(b=WHOLE), an_object(c={"type": "array"})],
    "lists": [{"type": "array", "items": an_object(a=TEXT)}, {"type": "array", "items": an_object(b=TEXT)}],
    "further down": [an_object(data=an_object(a=TEXT)), an_object(data=an_object(b=TEXT))],
    "references": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    "anything else": [an_object(a=TEXT), {}],
    "numbers": [{"type": "integer"}, {"type": "number"}],
}


@pytest.mark.parametrize("name", OVERLAPPING)
@pytest.mark.parametrize("inside", [False, True], ids=["whole", "part"])
def test_of_branches_that_overlap_exactly_one_holds(name, inside):
    schema = {"oneOf": OVERLAPPING[name]}
    schema = {**an_object(part=schema), "required": ["part"]} if inside else schema
    made = all_valid({**schema, "$defs": {"a": an_object(a=TEXT), "b": an_object(b=TEXT)}})
    assert len(made) == 12


def test_branches_are_told_apart_by_what_nobody_was_told():
    schema = {"oneOf": [an_object(name=TEXT), {"allOf": [an_object(name=TEXT), an_object(seen=WHOLE)]}]}
    assert [value["name"] for value in all_valid(schema, name="Rex")] == ["Rex"] * 12


class Counted(SchemaValues):
    """Counts what it tries to tell branches apart."""

    tried = 0

    def _variants(self, *given):
        for value in super()._variants(*given):
            self.tried += 1
            yield value


def test_dozens_of_branches_that_cannot_be_told_apart_take_a_bounded_number_of_tries():
    properties = {f"p{number}": {"type": "object", "properties": {"a": {}, "b": {}}} for number in range(20)}
    branches = [{"type": "object", "title": str(number), "properties": properties} for number in range(40)]
    values = Counted({"oneOf": branches, "required": list(properties)})
    values.make(Draw(b"1"))
    assert 0 < values.tried < 50_000, "of pairs of branches alone there are 1,560, each with hundreds of values"


def test_what_is_not_required_and_cannot_be_made_is_left_out():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}, "id": {"type": "string"}},
    }
    assert {frozenset(value) for value in all_valid(schema)} == {frozenset({"id"})}


def test_what_a_call_was_given_comes_back_under_its_name_where_it_fits():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "maximum": 5},
            "tags": {"type": "array"},
        },
        "required": ["city", "days", "tags"],
    }
    for value in all_valid(schema, city="Ulm", days=9, tags=[1, {"a": 2}]):
        assert value["city"] == "Ulm" and value["days"] <= 5 and value["tags"] == [1, {"a": 2}]


def test_names_make_values_that_fit_them():
    properties = {
        "city": {"type": "string"},
        "email": {"type": "string"},
        "latitude": {"type": "number"},
        "created_at": {"type": "string"},
    }
    for value in all_valid({"type": "object", "properties": properties, "required": list(properties)}):
        assert value["city"].istitle() and "@" in value["email"] and -90 <= value["latitude"] <= 90
        datetime.fromisoformat(value["created_at"])


def test_values_differ_and_repeat_with_their_seed():
    schema = {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}, "required": ["id"]}
    found = made(schema, 50)
    assert len({value["id"] for value in found}) == 50
    assert made(schema, 50) == found


def scalars():
    return st.one_of(
        st.builds(
            lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size},
            st.integers(-50, 50),
            st.integers(0, 20),
        ),
        st.builds(
            lambda low, size: {"type": "string", "minLength": low, "maxLength": low + size},
            st.integers(0, 9),
            st.integers(0, 9),
        ),
        st.builds(
            lambda low, size: {"type": "number", "minimum": low, "exclusiveMaximum": low + size},
            st.integers(-9, 9),
            st.integers(1, 9),
        ),
        st.sampled_from(
            [
                {"type": "boolean"},
                {"type": "null"},
                {"enum": ["a", "b", 3]},
                {"const": 4},
                {},
                {"type": ["string", "integer"]},
            ]
        ),
        st.sampled_from(
            [{"type": "string", "pattern": text} for text in ("^[a-c]{2,4}$", "x+y?", "^(a|bc)*$", "\\d{3}")]
        ),
        st.sampled_from([{"type": "string", "format": name} for name in ("date", "uuid", "email", "ipv4")]),
    )


def composed(inner):
    names = st.sampled_from(["a", "b", "c", "id", "name"])
    objects = st.builds(
        lambda properties, needed, rest: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in needed],
            **({} if rest is None else {"additionalProperties": rest}),
        },
        st.dictionaries(names, inner, max_size=4),
        st.sets(names),
        st.one_of(st.none(), st.booleans(), inner),
    )
    arrays = st.builds(
        lambda items, low, size: {"type": "array", "items": items, "minItems": low, "maxItems": low + size},
        inner,
        st.integers(0, 3),
        st.integers(0, 2),
    )
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        objects,
        arrays,
        st.builds(lambda subs: {"anyOf": subs}, some),
        st.builds(lambda sub: {"allOf": [sub, {"title": "t"}]}, inner),
    )


@given(schema=st.recursive(scalars(), composed, max_leaves=12))
def test_any_mixture_of_keywords_that_can_be_satisfied_is(schema):
    check = compile_schema(schema)
    for value in made(schema, 4):
        assert check.is_valid(value), (value, list(check.iter_errors(value)))


@given(
    branches=st.lists(st.recursive(scalars(), composed, max_leaves=4), min_size=2, max_size=3),
    word=st.sampled_from(["oneOf", "allOf"]),
)
def test_where_one_value_is_found_every_value_is_right(branches, word):
    values = SchemaValues({word: branches})
    valid = []
    for at in range(4):
        try:
            valid.append(values.check(values.make(Draw(b"%d" % at))))
        except GaveUp:
            valid.append(False)
    assert all(valid) or not any(valid)


OWNER = {"type": "object", "properties": {"friend": {"$ref": "#/$defs/Owner"}, "name": {"type": "string"}}}


def test_schemas_of_one_document_share_what_is_made_of_their_definitions():
    shared, definitions = SharedParts(), {"Owner": OWNER}
    one, other = (
        SchemaValues({"type": kind, "items": {"$ref": "#/$defs/Owner"}, "$defs": definitions}, shared)
        for kind in ("array", "object")
    )
    assert one.checker(OWNER) is other.checker(OWNER)
    assert one.maker(OWNER) is other.maker(OWNER)


def test_schemas_in_which_a_name_means_something_else_share_nothing():
    shared = SharedParts()
    one = SchemaValues({"$ref": "#/$defs/Owner", "$defs": {"Owner": OWNER}}, shared)
    other = SchemaValues({"$ref": "#/$defs/Owner", "$defs": {"Owner": {"type": "integer"}}}, shared)
    assert isinstance(one.make(Draw(b"x")), dict) and isinstance(other.make(Draw(b"x")), int)
    assert one.checker(OWNER) is not other.checker(OWNER)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "abc"]),
    lambda inner: st.dictionaries(st.sampled_from(["name", "friend"]), inner) | st.lists(inner, max_size=2),
    max_leaves=6,
)
BRANCHES = st.sampled_from(
    [
        {"$ref": "#/$defs/Owner"},
        {"$ref": "#/$defs/Owner", "description": "d"},
        {"$ref": "#/$defs/Ring"},
        {"$ref": "#/$defs/Number", "minimum": 1},
        {"type": "string", "maxLength": 2},
        {"type": "null"},
        {"anyOf": [{"$ref": "#/$defs/Number"}, {"type": "null"}], "title": "t"},
    ]
)


@given(st.lists(BRANCHES, min_size=1, max_size=3), VALUES)
def test_a_part_that_leaves_its_verdict_to_definitions_judges_as_the_validator_does(branches, value):
    ring = {"anyOf": [{"$ref": "#/$defs/Ring"}, {"type": "array"}]}
    definitions = {"Owner": OWNER, "Number": {"type": "integer"}, "Ring": ring}
    part = {"anyOf": branches, "description": "one of several"}
    values = SchemaValues({"type": "object", "properties": {"part": part}, "$defs": definitions})
    assert values.checker(part)(value) == compile_schema({**part, "$defs": definitions}).is_valid(value)


ANY_PLACE = {"type": "object", "properties": {"place": {"type": "object"}}}
PLACE_ID = {"type": "object", "properties": {"place_id": {"type": "string"}}}
PLACE_URL = {"type": "object", "properties": {"place_url": {"type": "string"}}}
ITEM = {"type": "object", "properties": {"label": {"type": "string"}, "id": {"type": "string"}}}
COMBINED = {
    "beside others": {"allOf": [ITEM, {"oneOf": [ANY_PLACE, PLACE_ID, PLACE_URL]}]},
    "two of them": {"allOf": [{"oneOf": [ANY_PLACE, PLACE_ID]}, {"oneOf": [ITEM, PLACE_URL]}]},
    "within any": {"anyOf": [{"oneOf": [ANY_PLACE, PLACE_ID]}, {"oneOf": [PLACE_ID, PLACE_URL]}]},
    "by reference": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"allOf": [ITEM, {"$ref": "#/$defs/b"}]}, "b": {"oneOf": [ANY_PLACE, PLACE_ID]}},
    },
    "by what is required": {
        "type": "object",
        "properties": {"org": {"type": "string"}, "orgID": {"type": "string"}, "label": {"type": "string"}},
        "oneOf": [{"required": ["org", "label"]}, {"required": ["orgID", "label"]}],
    },
}


@pytest.mark.parametrize("schema", COMBINED.values(), ids=COMBINED)
def test_of_overlapping_branches_exactly_one_holds_and_what_is_known_stays(schema):
    values = SchemaValues(schema)
    for seed in range(8):
        draw = Draw(b"%d" % seed)
        draw.known = {"label": "mine", "orgID": "o1"}
        made = values.make(draw)
        assert compile_schema(schema).is_valid(made), made
        assert made.get("label", "mine") == "mine" and made.get("orgID", "o1") == "o1"


def test_checks_put_together_of_definitions_judge_as_the_validator_does():
    text, people = {"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/person"}}
    person = {
        "type": "object",
        "properties": {"name": text, "friends": people, "boss": {"anyOf": [text, {"$ref": "#/$defs/person"}]}},
        "required": ["name"],
        "additionalProperties": {"type": ["integer", "null"]},
    }
    schema = {"$ref": "#/$defs/person", "$defs": {"person": person}}
    judged, check = compile_schema(schema).is_valid, SchemaValues(schema).check
    ann = {"name": "Ann"}
    tried = [ann, {**ann, "boss": ann}, {**ann, "boss": {}}, {**ann, "boss": 1}, {**ann, "friends": [ann, {"name": 1}]}]
    tried += [{}, [], "Ann", {**ann, "age": 3.0}, {**ann, "age": "3"}, {**ann, "age": True}, {**ann, "friends": [ann]}]
    assert [check(value) for value in tried] == [judged(value) for value in tried]


def test_a_definition_that_is_nothing_but_itself_is_judged_by_the_validator():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/a"}]}}}
    judged, check = compile_schema(schema).is_valid, SchemaValues(schema).check
    assert [check(value) for value in ("x", 1)] == [judged(value) for value in ("x", 1)]


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"oneOf": [{"$ref": "#/$defs/Named"}, {"$ref": "#/$defs/Counted"}]}, {"name": "a"}, {"name": "a", "count": 1}),
        ({"allOf": [{"$ref": "#/$defs/Named"}, {"$ref": "#/$defs/Counted"}]}, {"name": "a", "count": 1}, {"name": "a"}),
        ({"anyOf": [{"$ref": "#/$defs/Named"}, {"$ref": "#/$defs/Counted"}]}, {"count": 1}, {}),
    ],
)
def test_a_part_with_branches_that_are_references_is_checked_by_them(part, good, bad):
    named = {"type": "object", "required": ["name"]}
    counted = {"type": "object", "required": ["count"]}
    values = SchemaValues({"properties": {"part": part}, "$defs": {"Named": named, "Counted": counted}})
    accepts = values.checker(part)
    assert accepts(good) and not accepts(bad) and not accepts("text")
