import pytest

from dialects.strategies import tool
from toolyard.dialects import AnthropicDialect
from toolyard.model import ErrorInfo, ToolCall, ToolResult

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


def test_made_up_ids_never_collide():
    dialect = AnthropicDialect([tool()])
    made = dialect.format_calls([ToolCall("hr::find", {}, None), ToolCall("hr::find", {}, "call_0")])
    ids = [block["id"] for block in made[0]["content"]]
    assert len(set(ids)) == 2
