import pytest

from dialects.strategies import tool
from toolyard.dialects import AnthropicDialect
from toolyard.model import ErrorInfo, Tool, ToolCall, ToolResult
from toolyard.model.errors import MalformedSource

PERSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
BLOCK = {"type": "tool_use", "id": "toolu_1", "name": "hr__find", "input": {"id": 1}}


def test_tools_have_an_input_schema():
    assert AnthropicDialect([tool(parameters=PERSON)]).format_tools() == [
        {"name": "hr__find", "description": "Find people.", "input_schema": PERSON}
    ]


@pytest.mark.parametrize(
    "payload",
    [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "…"}, BLOCK],
            "stop_reason": "tool_use",
        },
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [BLOCK]}],
        [BLOCK],
        BLOCK,
    ],
)
def test_calls_are_tool_use_blocks(payload):
    assert AnthropicDialect([tool()]).parse_calls(payload) == [ToolCall("hr::find", {"id": 1}, "toolu_1")]


def test_tools_the_provider_runs_itself_are_not_calls_to_answer():
    assert AnthropicDialect().parse_calls({"content": [{**BLOCK, "type": "server_tool_use"}]}) == []


def test_results_are_one_user_message_with_errors_marked():
    dialect = AnthropicDialect([tool()])
    failed = ToolResult("b", "hr::find", error_info=ErrorInfo("tool.timeout", "slow"))
    (message,) = dialect.format_results([ToolResult("a", "hr::find", "Ada"), failed])
    assert message["role"] == "user"
    assert message["content"][0] == {"type": "tool_result", "tool_use_id": "a", "content": "Ada"}
    assert message["content"][1]["is_error"] is True
    assert '"code": "tool.timeout"' in message["content"][1]["content"]


def test_results_take_their_names_from_the_calls_before_them():
    dialect = AnthropicDialect([tool()])
    talk = [
        {"role": "assistant", "content": [BLOCK]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Ada"}]}
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "no", "is_error": True}]},
    ]
    first, second = dialect.parse_results(talk)
    assert first == ToolResult("toolu_1", "hr::find", "Ada")
    assert (second.call_id, second.name, second.error) == ("x", "", "no")


def test_property_names_it_would_refuse_are_respelt_both_ways():
    schema = {"type": "object", "properties": {"filter[id]": {"type": "string"}, "ok": {}}, "required": ["filter[id]"]}
    dialect = AnthropicDialect([tool(parameters=schema)])
    sent = dialect.format_tools()[0]["input_schema"]
    (key,) = sent["required"]
    assert list(sent["properties"]) == [key, "ok"]
    assert key != "filter[id]"
    made = [ToolCall("hr::find", {"filter[id]": "x", "ok": 1}, "a")]
    assert dialect.parse_calls({"content": [{**BLOCK, "id": "a", "input": {key: "x", "ok": 1}}]}) == made
    assert dialect.format_calls(made)[0]["content"][0]["input"] == {key: "x", "ok": 1}
    assert [line.pointer for line in dialect.report] == ["/properties/filter[id]"]
    assert dialect.parse_tools(dialect.format_tools(), "x")[0].parameters == schema


def test_overloads_are_spelt_back_by_the_one_the_arguments_look_like_in_any_order():
    plain = tool(parameters={"type": "object", "properties": {"id": {"type": "string"}}})
    odd = tool(parameters={"type": "object", "properties": {"filter[id]": {"type": "string"}}})
    wire = AnthropicDialect([odd]).format_tools()[0]
    (key,) = wire["input_schema"]["properties"]
    for tools in ([plain, odd], [odd, plain]):
        dialect = AnthropicDialect(tools)
        answer = {"content": [{"type": "tool_use", "id": "a", "name": wire["name"], "input": {key: "x"}}]}
        assert dialect.parse_calls(answer)[0].arguments == {"filter[id]": "x"}
        sent = dialect.format_calls([ToolCall("hr::find", {"filter[id]": "x"}, "a")])
        assert sent[0]["content"][0]["input"] == {key: "x"}


def test_made_up_ids_never_collide_and_names_come_from_the_nearest_call():
    dialect = AnthropicDialect([tool(), Tool("other", "hr")])
    made = dialect.format_calls([ToolCall("hr::find", {}, None), ToolCall("hr::find", {}, "call_0")])
    ids = [block["id"] for block in made[0]["content"]]
    assert len(set(ids)) == 2
    turns = [
        *dialect.format_calls([ToolCall("hr::find", {})]),
        *dialect.format_results([ToolResult(None, "hr::find", 1)]),
        *dialect.format_calls([ToolCall("hr::other", {})]),
        *dialect.format_results([ToolResult(None, "hr::other", 2)]),
    ]
    assert [result.name for result in dialect.parse_results({"messages": turns})] == ["hr::find", "hr::other"]


def test_unknown_keys_go_to_metadata_and_the_providers_own_tools_are_refused():
    wire = {"type": "custom", "name": "f", "input_schema": PERSON, "cache_control": {"type": "ephemeral"}}
    found = AnthropicDialect().parse_tools([wire], "n")[0]
    assert (found.parameters, found.metadata) == (PERSON, {"cache_control": {"type": "ephemeral"}})
    with pytest.raises(MalformedSource, match="bash_20250124"):
        AnthropicDialect().parse_tools([{"type": "bash_20250124", "name": "bash"}], "n")
