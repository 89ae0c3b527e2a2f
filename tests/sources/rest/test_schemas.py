"""Schemas: OpenAPI's dialects as JSON Schema 2020-12, nothing dangling, nothing lost in silence."""

import pytest
from hypothesis import given, strategies as st

from sources.rest.documents import accepts, answer, body, document, loader_of, notes_of, operation, parameter, tool_of


def converted(schema, version="3.0.3", **schemas):
    """The schema as an answer has it."""
    return tool_of(spec(schema, version, **schemas)).output_parameters


def spec(schema, version="3.0.3", **schemas):
    return document({"get": operation(responses=answer(schema))}, version=version, components={"schemas": schemas})


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "x-nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        ({"type": "number", "exclusiveMaximum": 5}, {"type": "number", "exclusiveMaximum": 5}),
        ({"type": "string", "example": "x", "xml": {"name": "n"}}, {"type": "string", "examples": ["x"]}),
        ({"type": "string", "x-internal": 1, "externalDocs": {"url": "u"}}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "minLength": 2.0, "maxLength": "9"}, {"type": "string", "minLength": 2, "maxLength": 9}),
        (
            {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        ),
        ({"type": "object", "dependencies": {"a": ["b"]}}, {"type": "object", "dependentRequired": {"a": ["b"]}}),
        ({"type": "object", "required": ["a", "a"]}, {"type": "object", "required": ["a"]}),
        ({"type": "array", "enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}),
        (
            {"type": "array", "enum": ["a"], "items": {"type": "string", "enum": ["a", "b"]}},
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        ),
        ({"type": "array", "enum": [["a"]]}, {"type": "array", "enum": [["a"]]}),
        ({"type": "boolean", "enum": ["yes"]}, {"type": "boolean"}),
        ({"type": "object", "enum": ["a"]}, {"type": "object"}),
        ({"type": "integer", "enum": ["1 = left", "2 = right"]}, {"type": "integer"}),
        (
            {"type": "object", "additionalProperties": {"type": "object"}},
            {"type": "object", "additionalProperties": True},
        ),
        (
            {"oneOf": [{"type": "string", "title": "Address"}, {"type": "string"}, {"type": "integer"}]},
            {"oneOf": [{"type": "string", "title": "Address"}, {"type": "integer"}]},
        ),
        ({"oneOf": [{"const": 1}, {"const": True}]}, {"oneOf": [{"const": 1}, {"const": True}]}),
        (
            {"properties": {"a": {"type": "string"}}, "required": ["a", "b"], "additionalProperties": False},
            {
                "properties": {"a": {"type": "string"}, "b": {}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_keywords_are_written_as_2020_12_has_them(given, meant):
    assert converted(given) == meant


def test_a_nullable_composition_may_be_null():
    schema = converted({"nullable": True, "allOf": [{"type": "object", "required": ["a"]}], "description": "d"})
    assert schema["description"] == "d"
    assert accepts(schema, None)
    assert accepts(schema, {"a": 1})
    assert not accepts(schema, {})


def test_a_nullable_reference_may_be_null():
    schema = converted({"type": "object", "properties": {"a": {**ref("A"), "nullable": True}}}, A={"type": "integer"})
    assert accepts(schema, {"a": None})
    assert accepts(schema, {"a": 1})
    assert not accepts(schema, {"a": "x"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"type": "date"}, "type 'date' read as"),
        ({"type": "string", "pattern": "([a-z"}, "pattern is not a usable regular expression"),
        ({"type": "string", "pattern": r"^\p{L}{1,64}$"}, "the count of characters in a pattern moved to minLength"),
        ({"type": "string", "pattern": "/^a$/i"}, "the slashes around a pattern removed"),
        ({"type": "string", "pattern": r"^[\w-.]$"}, "a pattern read as JavaScript does"),
        ({"type": "string", "enum": []}, "enum is not a list"),
        ({"type": "object", "properties": []}, "properties are not a mapping"),
        ({"allOf": []}, "allOf is not a list of schemas"),
        ({"type": "object", "required": {"a": 1}}, "'required' is not a list of names"),
        ({"type": "string", "maxLength": -1}, "maxLength is not a usable number"),
        ({"type": "object", "properties": {"a": {"type": "string", "required": True}}}, "'required: true' moved"),
        ({"type": "string", "enum": [1, "b"]}, "values of an enum of text written as text"),
        ({"type": "integer", "enum": ["1", "2"]}, "values of an enum of numbers written as numbers"),
        ({"$dynamicRef": "#node"}, "$dynamicRef is not followed"),
        (ref("Gone"), "'#/components/schemas/Gone' cannot be followed"),
    ],
)
def test_what_a_document_gets_wrong_is_listed_with_its_place(given, said):
    notes = notes_of(spec({"type": "object", "properties": {"deep": given}}))
    assert said in notes
    assert "#/paths/~1things/get/responses/200/content/application~1json/schema/properties/deep" in notes


def test_circular_references_stay_references():
    schema = converted(
        ref("Tree"), Tree={"type": "object", "properties": {"kids": {"type": "array", "items": ref("Tree")}}}
    )
    assert set(schema["$defs"]) == {"Tree"}
    assert accepts(schema, {"kids": [{"kids": []}]})
    assert not accepts(schema, {"kids": [{"kids": 1}]})


def test_circular_all_of_is_no_trouble():
    schema = converted(
        ref("A"), A={"allOf": [ref("B"), {"required": ["a"]}]}, B={"allOf": [ref("A")], "required": ["b"]}
    )
    assert accepts(schema, {"a": 1, "b": 2})
    assert not accepts(schema, {"a": 1})


def test_components_that_only_refer_to_each_other_in_a_ring_are_open_and_listed():
    content = spec({"type": "object", "properties": {"a": ref("A")}}, A=ref("B"), B=ref("A"))
    assert tool_of(content).output_parameters["properties"] == {"a": {}}
    assert "leads back to itself" in notes_of(content)


def test_only_what_is_reached_is_carried_along():
    schema = converted(
        {"type": "array", "items": ref("A")}, A={"type": "object", "properties": {"b": ref("B")}}, B={}, C={}
    )
    assert set(schema["$defs"]) == {"A", "B"}


def test_references_to_any_place_and_with_any_spelling_work():
    content = spec(
        {
            "type": "object",
            "properties": {
                "a": {"$ref": "#/components/schemas/with%20space"},
                "b": {"$ref": "#/components/schemas/with~1slash"},
                "c": {"$ref": "#/components/schemas/Outer/properties/inner"},
                "d": {"$ref": "#/components/schemas/List/allOf/1"},
            },
        },
        **{
            "with space": {"type": "string"},
            "with/slash": {"type": "integer"},
            "Outer": {"properties": {"inner": {"type": "boolean"}}},
            "List": {"allOf": [{}, {"type": "number"}]},
        },
    )
    schema = tool_of(content).output_parameters
    assert accepts(schema, {"a": "x", "b": 1, "c": True, "d": 1.5})
    for wrong in ({"a": 1}, {"b": "x"}, {"c": 1}, {"d": "x"}):
        assert not accepts(schema, wrong)


def test_components_of_one_name_in_different_places_are_told_apart():
    content = spec(
        {"properties": {"a": ref("X"), "b": {"$ref": "#/components/schemas/Y/properties/X"}}},
        X={"type": "string"},
        Y={"properties": {"X": {"type": "integer"}}},
    )
    assert set(tool_of(content).output_parameters["$defs"]) == {"X", "X_2"}


def test_what_stands_beside_a_reference_counts_since_3_1():
    beside = {"type": "object", "properties": {"a": {**ref("A"), "minLength": 3, "description": "d"}}}
    old = converted(beside, A={"type": "string"})
    new = converted(beside, "3.1.0", A={"type": "string"})
    assert accepts(old, {"a": "x"})
    assert not accepts(new, {"a": "x"})
    assert old["properties"]["a"]["description"] == new["properties"]["a"]["description"] == "d"


@pytest.mark.parametrize("choice", ["oneOf", "anyOf"])
@pytest.mark.parametrize("mapping", [{}, {"mapping": {"cat": "#/components/schemas/Cat"}}])
def test_the_property_of_a_discriminator_is_required_of_every_branch(choice, mapping):
    branches = [{"type": "object", "properties": {"kind": {"type": "string"}}}, {"type": "null"}]
    schema = {choice: branches, "discriminator": {"propertyName": "kind", **mapping}}
    argument = tool_of(document({"post": operation(requestBody=body(schema))})).parameters["properties"]["body"]
    assert [accepts(argument, value) for value in ({}, {"kind": "cat"}, None)] == [False, True, True]


def test_the_property_of_a_discriminator_is_required_of_the_base_too():
    for version, said in (("3.0.3", {"propertyName": "kind"}), ("2.0", "kind")):
        schema = {"type": "object", "properties": {"kind": {"type": "string"}}, "discriminator": said}
        responses = answer(schema) if version != "2.0" else {"200": {"description": "d", "schema": schema}}
        assert tool_of(document({"get": operation(responses=responses)}, version=version)).output_parameters[
            "required"
        ] == ["kind"]


def test_a_discriminator_leaves_the_choice_open_and_shows_its_values():
    pet = {
        "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat"}},
        "oneOf": [ref("Cat"), ref("Dog")],
    }
    named = {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}}
    schema = converted(ref("Pet"), Pet=pet, Cat=named, Dog=named)
    assert accepts(schema, {"kind": "cat"})
    assert not accepts(schema, {})
    assert schema["properties"]["kind"]["examples"] == ["cat"]


def test_write_only_properties_are_not_answered():
    user = {
        "type": "object",
        "required": ["name", "password"],
        "properties": {"name": {"type": "string"}, "password": {"type": "string", "writeOnly": True}},
    }
    content = document(
        {"post": operation(requestBody=body(ref("User")), responses=answer(ref("User")))},
        components={"schemas": {"User": user}},
    )
    tool = tool_of(content)
    assert set(tool.parameters["properties"]) == {"name", "password"}
    assert set(tool.output_parameters["properties"]) == {"name"}
    assert tool.output_parameters["required"] == ["name"]


def test_required_of_a_hidden_property_goes_with_it_across_all_of():
    schema = {"allOf": [{"properties": {"id": {"type": "integer", "writeOnly": True}}}, {"required": ["id"]}]}
    assert accepts(converted(schema), {})


def test_examples_that_look_like_references_are_left_out():
    schema = converted({"type": "object", "example": {"$ref": "#/somewhere"}, "properties": {"a": {"type": "string"}}})
    assert "examples" not in schema


def test_what_lies_too_deep_is_left_open_and_listed():
    deep = {"type": "string"}
    for _ in range(120):
        deep = {"type": "object", "properties": {"a": deep}}
    assert "deeper than 48 levels" in notes_of(spec(deep))


def test_a_schema_over_the_budget_is_loaded_with_its_deepest_parts_open_and_listed():
    wide = {
        f"C{n}": {"type": "object", "properties": {f"p{m}": {"type": "string"} for m in range(300)}} for n in range(60)
    }
    content = spec({"type": "object", "properties": {name: ref(name) for name in wide}}, **wide)
    loader = loader_of(content)
    left = [r.change for r in loader.report.rewrites if "too large" in r.change]
    assert left
    schema = loader.admitted[0].tool.output_parameters
    open_ones = [name for name, node in schema["$defs"].items() if node == {}]
    assert len(open_ones) >= len(left)
    assert len(schema["$defs"]) == 60


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("count", "inner"), [(2_500, {"type": "object", "properties": dict.fromkeys("abc", TEXT)}), (10_100, TEXT)]
)
def test_a_schema_that_is_too_large_by_itself_keeps_its_names_if_they_fit(count, inner):
    large = {"type": "object", "required": ["p0"], "properties": {f"p{n}": inner for n in range(count)}}
    content = document({"post": operation(requestBody=body(large), responses=answer(large))})
    loader = loader_of(content)
    assert [r.change for r in loader.report.rewrites if "too large" in r.change] == [
        "input schema is too large: 'everything' in it is left open",
        "output schema is too large: 'everything' in it is left open",
    ]
    schema = loader.admitted[0].tool.parameters
    assert len(schema.get("properties", {})) == (count if count < 9_000 else 0)


def test_references_that_multiply_the_work_are_cut_and_listed():
    chain = {f"L{n}": {"anyOf": [ref(f"L{n + 1}"), ref(f"L{n + 1}")]} for n in range(24)}
    content = spec({"type": "object", "properties": {"a": ref("L0")}}, **chain, L24={"type": "string"})
    assert "too large" in notes_of(content)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-2, 2)
    | st.sampled_from(["", "x", "string", "(", "#/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "allOf",
                    "anyOf",
                    "oneOf",
                    "not",
                    "required",
                    "enum",
                    "pattern",
                    "nullable",
                    "minimum",
                    "exclusiveMinimum",
                    "maxLength",
                    "multipleOf",
                    "$ref",
                    "default",
                    "example",
                    "examples",
                    "additionalProperties",
                    "patternProperties",
                    "readOnly",
                    "format",
                    "discriminator",
                    "dependencies",
                    "prefixItems",
                    "const",
                    "uniqueItems",
                    "a",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JUNK, JUNK)
def test_any_junk_in_place_of_a_schema_still_gives_a_tool(first, second):
    content = document(
        {
            "post": operation(
                parameters=[parameter(schema=first)], requestBody=body(second), responses=answer({"items": ref("A")})
            )
        },
        components={"schemas": {"A": first}},
    )
    assert len(loader_of(content).admitted) == 1


@pytest.mark.parametrize("key", ["nullable", "x-nullable", "properties", "enum"])
def test_a_keyword_whose_reference_leads_nowhere_is_listed(key):
    assert f"{key} cannot be read, and is left out" in notes_of(spec({"type": "object", key: {"$ref": "#/nope"}}))
