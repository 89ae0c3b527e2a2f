import pytest
from hypothesis import given, strategies as st

from toolyard import DefinitionError, Effects, PythonBinding, Tool

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
