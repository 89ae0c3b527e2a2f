import json

import pytest

from toolyard import MalformedSource, ToolCall, ToolRegistry


def load(tmp_path, text, name="x.json"):
    path = tmp_path / name
    path.write_text(text)
    return ToolRegistry.from_file(path, namespace="n", lazy=True)


ENTRY = {
    "name": "a",
    "description": "d",
    "parameters": {"type": "dict", "properties": {"x": {"type": "int"}}},
    "tags": ["t"],
}


def test_a_lazy_tool_decodes_normalises_and_keeps_its_schema_on_first_use(tmp_path):
    tool = load(tmp_path, json.dumps([ENTRY])).all_tools()[0]
    assert "parameters" not in tool.__dict__
    assert tool.parameters == {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert tool.parameters is tool.parameters
    assert (tool.description, tool.tags, tool.output_parameters) == ("d", ("t",), {})
    assert tool.replace(name="b").parameters == tool.parameters


def test_calls_on_lazy_tools_are_bound_like_any_other(tmp_path):
    registry = load(tmp_path, json.dumps([ENTRY]))
    assert registry.bind(ToolCall("n::a", {"x": "5"})).arguments == {"x": 5}


def test_json_lines_can_be_indexed_too(tmp_path):
    registry = load(tmp_path, json.dumps(ENTRY) + "\n" + json.dumps({**ENTRY, "name": "b"}) + "\n", "x.jsonl")
    assert registry.tool_names() == ["a", "b"]


def test_a_repeated_key_inside_a_schema_is_refused_when_it_is_read(tmp_path):
    registry = load(tmp_path, '[{"name": "a", "parameters": {"type": "object", "type": "object"}}]')
    with pytest.raises(MalformedSource, match="appears twice"):
        registry.get("n::a")[0].parameters


@pytest.mark.parametrize("text", ["[{", '[{"name": 5}]', '{"a": 1}', "5", '[{"name": "a", "name": "b", "x": NaN}]'])
def test_a_broken_index_gets_the_errors_of_a_full_load(tmp_path, text):
    with pytest.raises(MalformedSource):
        load(tmp_path, text)
