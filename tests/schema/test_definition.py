import pytest

from toolyard import DefinitionError, Effects
from toolyard.schema.normalise import read_definition

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def read(raw, **options):
    return read_definition(raw, **{"namespace": "ns", **options})


@pytest.mark.parametrize(
    ("raw", "changed"),
    [
        ({"name": "t", "parameters": SCHEMA}, False),
        ({"type": "function", "function": {"name": "t", "parameters": SCHEMA}}, True),
        ({"type": "function", "name": "t", "parameters": SCHEMA}, True),
        ({"name": "t", "input_schema": SCHEMA}, True),
        ({"name": "t", "inputSchema": SCHEMA}, True),
        ({"name": "t", "parametersJsonSchema": SCHEMA}, True),
    ],
)
def test_the_same_tool_in_every_dialect(raw, changed):
    tool, changes = read(raw)
    assert (tool.qualified_name, tool.parameters, tool.metadata) == ("ns::t", SCHEMA, {})
    assert bool(changes) is changed


@pytest.mark.parametrize("key", ["output_parameters", "output_schema", "outputSchema", "returns", "responseJsonSchema"])
def test_output_schemas_are_found_under_their_names(key):
    assert read({"name": "t", key: SCHEMA})[0].output_parameters == SCHEMA


def test_text_under_returns_is_not_a_schema():
    tool, _ = read({"name": "t", "returns": "the weather"})
    assert tool.output_parameters == {}
    assert tool.metadata == {"returns": "the weather"}


def test_fields_are_read_and_everything_else_is_the_users():
    tool, _ = read(
        {"name": "t", "tags": ["x"], "version": "1", "effects": "read", "aliases": ["u"], "strict": True, "_f": 1}
    )
    assert (tool.tags, tool.version, tool.effects, tool.aliases) == (("x",), "1", Effects.READ, ("u",))
    assert tool.metadata == {"strict": True, "_f": 1}


@pytest.mark.parametrize(
    ("annotations", "effects"),
    [
        ({"readOnlyHint": True}, Effects.READ),
        ({"readOnlyHint": False}, Effects.WRITE),
        ({"destructiveHint": True}, Effects.WRITE),
        ({"title": "x"}, Effects.UNKNOWN),
        (None, Effects.UNKNOWN),
    ],
)
def test_mcp_annotations_become_effects_and_stay_in_metadata(annotations, effects):
    tool, _ = read({"name": "t", "annotations": annotations})
    assert tool.effects is effects
    assert tool.metadata["annotations"] == annotations


def test_the_entrys_own_namespace_wins_and_a_qualified_name_is_not_qualified_twice():
    assert read({"name": "t", "namespace": "own"})[0].qualified_name == "own::t"
    assert read({"name": "own::t", "namespace": "own"})[0].qualified_name == "own::t"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"description": "x"}, "needs a 'name'"),
        ({"name": 5}, "'name' must be text, not integer"),
        ([1], "must be a mapping, not array"),
        (None, "must be a mapping, not null"),
        ({"name": "t", "description": 5}, "'description'"),
        ({"name": "t", "parameters": SCHEMA, "inputSchema": {}}, "say different things"),
        ({"name": "t", "effects": "sometimes"}, "read, write, unknown"),
    ],
)
def test_a_definition_that_cannot_be_read_says_why(raw, says):
    with pytest.raises(DefinitionError) as caught:
        read(raw)
    assert says in str(caught.value)
