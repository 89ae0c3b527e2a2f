import pytest

from dialects.strategies import tool
from toolyard.dialects import OpenAIChatDialect, OpenAIResponsesDialect
from toolyard.model import ToolCall, ToolResult

PERSON = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}, "required": ["id"]}


def response(*tool_calls, **message):
    return {
        "id": "r",
        "choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": list(tool_calls), **message}}],
    }


def called(name="hr__find", arguments='{"id": 1}', call_id="call_a"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_tools_are_function_tools():
    assert OpenAIChatDialect([tool(parameters=PERSON)]).format_tools() == [
        {"type": "function", "function": {"name": "hr__find", "description": "Find people.", "parameters": PERSON}}
    ]


@pytest.mark.parametrize(
    "payload",
    [
        response(called()),
        response(called())["choices"][0],
        response(called())["choices"][0]["message"],
        [response(called())["choices"][0]["message"]],
        [called()],
        called(),
    ],
)
def test_calls_are_read_from_responses_messages_and_lists(payload):
    assert OpenAIChatDialect([tool()]).parse_calls(payload) == [ToolCall("hr::find", {"id": 1}, "call_a")]


def test_the_older_function_call_is_read_too():
    message = {"role": "assistant", "content": None, "function_call": {"name": "hr__find", "arguments": ""}}
    assert OpenAIChatDialect([tool()]).parse_calls(message) == [ToolCall("hr::find", {}, None)]


def test_a_response_without_calls_has_none():
    assert OpenAIChatDialect().parse_calls(response(content="hi")) == []
    assert OpenAIChatDialect().parse_calls({"choices": []}) == []


def test_broken_arguments_are_kept_and_every_call_is_answered_for():
    calls = OpenAIChatDialect([tool()]).parse_calls(response(called(arguments='{"id"'), called(name=None, call_id="b")))
    assert calls == [ToolCall("hr::find", '{"id"', "call_a"), ToolCall("", {"id": 1}, "b")]


def test_calls_and_results_make_a_conversation():
    dialect = OpenAIChatDialect([tool()])
    assert dialect.format_calls([ToolCall("hr::find", {"id": 1}, "a"), ToolCall("hr::find", "{", None)]) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [called(call_id="a"), called(arguments="{", call_id="call_1")],
        }
    ]
    assert dialect.format_results([ToolResult("a", "hr::find", "Ada"), ToolResult(None, "hr::find", [1])]) == [
        {"role": "tool", "tool_call_id": "a", "content": "Ada"},
        {"role": "tool", "tool_call_id": "call_1", "content": "[1]"},
    ]


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "hr__find", "arguments": '{"id": 1}'}


def test_tools_are_flat_and_say_that_they_are_not_strict():
    expected = {"type": "function", "name": "hr__find", "description": "Find people.", "parameters": PERSON}
    assert OpenAIResponsesDialect([tool(parameters=PERSON)]).format_tools() == [{**expected, "strict": False}]


@pytest.mark.parametrize(
    "payload",
    [
        {"object": "response", "output": [{"type": "reasoning"}, CALL, {"type": "message", "content": []}]},
        [CALL],
        CALL,
        {"model": "m", "input": [{"role": "user", "content": "hi"}, CALL]},
    ],
)
def test_calls_are_items_of_the_output(payload):
    assert OpenAIResponsesDialect([tool()]).parse_calls(payload) == [ToolCall("hr::find", {"id": 1}, "call_a")]


def test_results_are_items_of_the_input():
    dialect = OpenAIResponsesDialect([tool()])
    items = dialect.format_results([ToolResult("call_a", "hr::find", {"name": "Ada"})])
    assert items == [{"type": "function_call_output", "call_id": "call_a", "output": '{"name": "Ada"}'}]


def test_calls_become_items():
    assert OpenAIResponsesDialect([tool()]).format_calls([ToolCall("hr::find", {"id": 1})]) == [
        {"type": "function_call", "call_id": "call_0", "name": "hr__find", "arguments": '{"id": 1}'}
    ]
