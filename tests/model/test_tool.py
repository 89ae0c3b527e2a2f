import random

import pytest
from hypothesis import given, strategies as st

from toolyard import DefinitionError, Effects, PythonBinding, Tool, function_tool
from toolyard.dialects.mcp import McpDialect, wraps
from toolyard.model.tool import fingerprint, is_guess, promises_output

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=8), json_values, max_size=4)


def test_the_positional_order_is_the_seeds():
    tool = Tool("get", "ns", "d", {"type": "object"}, {"type": "string"}, {"k": 1})
    assert (tool.name, tool.namespace, tool.description) == ("get", "ns", "d")
    assert (tool.parameters, tool.output_parameters, tool.metadata) == (
        {"type": "object"},
        {"type": "string"},
        {"k": 1},
    )
    assert tool.qualified_name == "ns::get"


def test_a_tool_is_frozen():
    with pytest.raises(AttributeError):
        Tool("get", "ns").name = "other"


def test_defaults_are_not_shared_between_tools():
    Tool("a", "ns").metadata["x"] = 1
    assert Tool("b", "ns").metadata == {}


@given(
    objects,
    objects,
    objects,
    st.lists(st.text(max_size=5), max_size=3),
    st.sampled_from(Effects),
    st.none() | st.text(max_size=5),
)
def test_to_dict_and_from_dict_are_inverse(parameters, output, metadata, tags, effects, version):
    tool = Tool(
        "n",
        "ns",
        "d",
        parameters,
        output,
        metadata,
        version=version,
        tags=tags,
        aliases=tags,
        effects=effects,
        source="s",
    )
    assert Tool.from_dict(tool.to_dict()) == tool


def test_unknown_keys_go_to_metadata():
    tool = Tool.from_dict({"name": "a", "namespace": "ns", "x-rank": 3, "metadata": {"y": 1}})
    assert tool.metadata == {"y": 1, "x-rank": 3}


def test_the_binding_is_not_part_of_equality_but_every_word_a_model_sees_is():
    plain = Tool("a", "ns", "d")
    assert plain.replace(binding=PythonBinding(print)) == plain
    assert hash(plain.replace(binding=PythonBinding(print))) == hash(plain)
    assert plain.replace(description="e") != plain


@pytest.mark.parametrize(("field", "value"), [("name", 5), ("namespace", None), ("description", ["text"])])
def test_a_tool_that_is_named_or_described_by_no_text_is_refused_where_it_is_made(field, value):
    with pytest.raises(DefinitionError, match=f"{field} of tool .* must be text, not {type(value).__name__}"):
        Tool(**{"name": "t", "namespace": "n", field: value})
    with pytest.raises(DefinitionError, match="must be text"):
        Tool("t", "n").replace(**{field: value})


def test_replace_refuses_a_misspelt_field():
    with pytest.raises(TypeError, match="descripton"):
        Tool("a", "ns").replace(descripton="x")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"namespace": "ns"}, "'name'"),
        ({"name": "a"}, "no namespace"),
        ({"name": "a", "namespace": "ns", "parameters": 3}, "'parameters'"),
        ({"name": "a", "namespace": "ns", "effects": "maybe"}, "read, write, unknown"),
        ({"name": "a", "namespace": "ns", "tags": [1]}, "tags"),
    ],
)
def test_a_bad_dict_is_an_error_that_says_what(data, says):
    with pytest.raises(DefinitionError, match=says):
        Tool.from_dict(data)


def test_the_definition_hash_covers_exactly_what_a_model_sees():
    tool = Tool("a", "ns", "d", {"type": "object"})
    same = [tool.replace(metadata={"x": 1}), tool.replace(version="2"), tool.replace(namespace="other")]
    assert {t.definition_hash for t in same} == {tool.definition_hash}
    other = [
        tool.replace(name="b"),
        tool.replace(description="e"),
        tool.replace(parameters={"type": "object", "properties": {}}),
        tool.replace(output_parameters={"type": "string"}),
        tool.replace(effects=Effects.READ),
    ]
    assert len({t.definition_hash for t in [tool, *other]}) == 6


BASE = {
    "type": "object",
    "properties": {
        "a": {"type": ["string", "null"], "enum": ["x", "y", None], "description": "d"},
        "required": {"type": "array", "items": {"type": "object", "required": ["p", "q"]}, "default": ["z", "y"]},
    },
    "required": ["a", "required"],
}


def shuffled(value, rng, *, lists=False):
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng, lists=key in ("required", "enum", "type")) for key in keys}
    if isinstance(value, list):
        items = [shuffled(item, rng) for item in value]
        if lists:
            rng.shuffle(items)
        return items
    return value


@given(st.randoms(use_true_random=False))
def test_key_order_and_set_like_lists_do_not_matter(rng: random.Random):
    assert fingerprint(shuffled(BASE, rng)) == fingerprint(BASE)


def test_everything_else_matters():
    variants = [
        {**BASE, "description": "x"},
        {**BASE, "required": ["a"]},
        {**BASE, "properties": {**BASE["properties"], "a": {"type": "string"}}},
        {"type": "object", "properties": {"x": {"default": ["z", "y"]}}},
        {"type": "object", "properties": {"x": {"default": ["y", "z"]}}},
        {"type": "object", "prefixItems": [{"type": "string"}, {"type": "null"}]},
        {"type": "object", "prefixItems": [{"type": "null"}, {"type": "string"}]},
    ]
    assert len({fingerprint(schema) for schema in [BASE, *variants]}) == len(variants) + 1


def test_a_property_called_enum_is_a_schema_not_a_list_of_values():
    one = {"properties": {"enum": {"type": "string", "default": ["b", "a"]}}}
    other = {"properties": {"enum": {"type": "string", "default": ["a", "b"]}}}
    assert fingerprint(one) != fingerprint(other)


def test_integral_floats_and_single_type_lists_are_spelling():
    assert fingerprint({"minimum": 1.0}) == fingerprint({"minimum": 1})
    assert fingerprint({"type": ["string"]}) == fingerprint({"type": "string"})
    assert fingerprint({"minimum": 1.5}) != fingerprint({"minimum": 1})


def test_the_value_is_fixed_across_processes_and_versions():
    assert fingerprint({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


SCHEMA = {"type": "object", "properties": {"area": {"type": "number"}}}
GUESSED = {**SCHEMA, "x-inferred": "rules"}


def area(side: float):
    """The area of a square."""
    return side * side


REAL = function_tool(area, namespace="n").replace(output_parameters={})
SIMULATED = Tool("area", "n")


def test_a_guess_is_an_inferred_schema_of_a_tool_that_something_is_behind():
    assert is_guess(REAL.replace(output_parameters=GUESSED))
    assert not is_guess(REAL.replace(output_parameters=SCHEMA))
    assert not is_guess(SIMULATED.replace(output_parameters=GUESSED))
    assert not is_guess(REAL)


def test_only_output_schemas_that_are_not_inferred_are_promises():
    assert promises_output(REAL.replace(output_parameters=SCHEMA))
    assert promises_output(SIMULATED.replace(output_parameters=GUESSED))
    assert not promises_output(REAL.replace(output_parameters=GUESSED))
    assert not promises_output(REAL)


def test_clients_that_would_check_answers_are_not_shown_a_guess():
    def shown(tool):
        (listed,) = McpDialect().format_tools([tool])
        return listed.get("outputSchema")

    assert shown(REAL.replace(output_parameters=GUESSED)) is None
    assert shown(REAL.replace(output_parameters=SCHEMA)) == SCHEMA
    assert shown(SIMULATED.replace(output_parameters=GUESSED))["properties"] == SCHEMA["properties"]
    assert not wraps(REAL.replace(output_parameters={"type": "array", "x-inferred": "examples"}))
