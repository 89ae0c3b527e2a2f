import pytest

from dialects.strategies import tool
from toolyard.dialects import OpenAIResponsesDialect
from toolyard.model import ToolCall, ToolResult

PERSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
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
