"""Output schemas out of results that were recorded."""

import json

import pytest
from hypothesis import given, strategies as st

from toolyard import (
    ConfigError,
    MalformedSource,
    OutputParametersEnrichment,
    PythonToolEngine,
    ReplayToolEngine,
    Sessions,
    SqliteStore,
    Tool,
    ToolCall,
    ToolRegistry,
    function_tool,
)
from toolyard.insight.outputs.enrichment import group_by_tool, infer_schema, read_examples
from toolyard.schema.compile import compile_schema

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_every_value_matches_the_inferred_schema(values):
    schema = infer_schema(values)
    compiled = compile_schema(schema)
    assert all(compiled.is_valid(value) for value in values)


@pytest.mark.parametrize(
    ("values", "schema"),
    [
        (
            [{"a": 1}, {"a": 2, "b": "x"}],
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
        ),
        ([1, 2.5], {"type": "number"}),
        ([1, None], {"type": ["integer", "null"]}),
        ([1, "x"], {"type": ["integer", "string"]}),
        ([1, {"a": 1}], {}),
        ([None], {}),
        (
            [[{"d": "2026-01-05"}], []],
            {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "string", "format": "date"}}}},
        ),
        (["https://a.example/x"], {"type": "string", "format": "uri"}),
        (["a@b.example", "c@d.example"], {"type": "string", "format": "email"}),
        (["a@b.example", "c"], {"type": "string"}),
        ([True, False], {"type": "boolean"}),
        ([{f"key {n}": n for n in range(500)}], {"type": "object"}),
    ],
)
def test_types_are_inferred_from_values(values, schema):
    assert infer_schema(values) == schema


def test_an_inferred_schema_contains_no_values():
    assert "hunter2" not in json.dumps(infer_schema([{"password": "hunter2", "list": ["hunter2"]}]))


def test_failed_calls_are_ignored():
    items = [
        {"name": "n::a", "result": 1},
        {"name": "n::a", "error": {"code": "x"}, "result": None},
        {"name": "n::a", "result": "garbled", "fault": {"kind": "garbled"}},
        {"name": "n::a", "latency": 1},
        {"tool_call": {"name": "n::a", "arguments": {}}, "tool_output": {"result": 2}},
    ]
    assert [example.result for example in read_examples(items)] == [1, 2]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml"])
def test_results_are_read_from_files_of_any_form(tmp_path, suffix):
    items = [{"name": "n::a", "arguments": {"x": 1}, "result": {"y": 2}}]
    path = tmp_path / f"results{suffix}"
    path.write_text(json.dumps(items[0]) + "\n" if suffix == ".jsonl" else json.dumps(items))
    (example,) = read_examples(path)
    assert (example.name, example.result, example.arguments) == ("n::a", {"y": 2}, {"x": 1})


def test_unreadable_results_are_an_error_with_their_place(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        list(read_examples(tmp_path / "none.jsonl"))
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ConfigError, match=r"must end in \.jsonl"):
        list(read_examples(tmp_path / "x.txt"))
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(MalformedSource, match="are a list"):
        list(read_examples(tmp_path / "x.json"))
    with pytest.raises(MalformedSource, match=r"results\[1\]"):
        list(read_examples([{"name": "a", "result": 1}, 5]))
    with pytest.raises(MalformedSource, match="needs the 'name'"):
        list(read_examples([{"result": 1}]))


def test_a_bare_name_counts_if_it_is_unambiguous():
    tools = [Tool("a", "n"), Tool("b", "n"), Tool("b", "m")]
    found = group_by_tool(
        tools, read_examples([{"name": "a", "result": 1}, {"name": "b", "result": 2}, {"name": "m::b", "result": 3}])
    )
    assert found == {0: [1], 2: [3]}


def test_overloads_are_distinguished_by_fingerprint_or_arguments():
    one = Tool("a", "n", "", {"type": "object", "properties": {"x": {}}})
    two = Tool("a", "n", "", {"type": "object", "properties": {"y": {}}})
    items = [
        {"name": "n::a", "arguments": {"x": 1}, "result": 1},
        {"tool_call": {"name": "n::a", "overload": two.fingerprint[:12]}, "tool_output": {"result": 2}},
        {"name": "n::a", "arguments": {}, "result": 3},
    ]
    assert group_by_tool([one, two], read_examples(items)) == {0: [1], 1: [2]}


def get_user(user_id: str):
    """A user."""
    return {"user": {"user_id": user_id, "age": 40}}


USER = {
    "type": "object",
    "properties": {
        "user": {"type": "object", "properties": {"user_id": {"type": "string"}, "age": {"type": "integer"}}}
    },
    "x-inferred": "examples",
}


def enriched(results, **more):
    plain = Tool("get_user", "n", "A user.", {"type": "object", "properties": {"user_id": {"type": "string"}}})
    other = Tool("get_area", "n", "Get the area of a field.")
    enrichment = OutputParametersEnrichment(infer="examples", results=results, cache=False, **more)
    return {one.name: one.output_parameters for one in ToolRegistry([plain, other], enrichments=[enrichment])}


def test_a_cassette_gives_schemas(tmp_path):
    path = tmp_path / "tape.jsonl"
    registry = ToolRegistry([function_tool(get_user, namespace="n")])
    with ReplayToolEngine(registry, cassette=path, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        engine.execute("s", [ToolCall("n::get_user", {"user_id": "7"})])
    assert enriched(str(path)) == {"get_user": USER, "get_area": {}}


def test_a_session_store_gives_schemas(tmp_path):
    path = tmp_path / "sessions.db"
    registry = ToolRegistry([function_tool(get_user, namespace="n")])
    with PythonToolEngine(registry, sessions=Sessions(SqliteStore(path))) as engine:
        engine.setup("s")
        engine.execute("s", [ToolCall("n::get_user", {"user_id": "7"}), ToolCall("n::get_user", {"user_id": 5})])
    assert enriched(path) == {"get_user": USER, "get_area": {}}


def test_tools_without_results_use_lm_config():
    results = [{"name": "n::get_user", "result": {"user": {"user_id": "7", "age": 40}}}]
    found = enriched(results, lm_config={"type": "schema"})
    assert found["get_user"] == USER
    assert found["get_area"]["properties"]["area"]["type"] == "number"
    assert found["get_area"]["x-inferred"] == "rules"
