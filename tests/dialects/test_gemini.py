import pytest

from dialects.strategies import tool
from toolyard.dialects import GeminiDialect
from toolyard.model import ErrorInfo, ToolCall, ToolResult

PERSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PART = {"functionCall": {"name": "hr__find", "args": {"id": 1}}}


def test_tools_are_declarations_in_one_tool():
    assert GeminiDialect([tool(parameters=PERSON), tool("ping")]).format_tools() == [
        {
            "functionDeclarations": [
                {
                    "name": "hr__find",
                    "description": "Find people.",
                    "parameters": {"type": "OBJECT", "properties": {"id": {"type": "INTEGER"}}, "required": ["id"]},
                },
                {"name": "hr__ping", "description": "Find people."},
            ]
        }
    ]


@pytest.mark.parametrize(
    "payload",
    [
        {
            "candidates": [
                {"content": {"role": "model", "parts": [{"text": "…"}, PART]}},
                {"content": {"parts": [PART]}},
            ]
        },
        {"role": "model", "parts": [PART]},
        [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [PART]}],
        {"contents": [{"role": "model", "parts": [PART]}]},
        [PART],
        PART,
        PART["functionCall"],
        {
            "candidates": [
                {"content": {"parts": [{"function_call": {**PART["functionCall"], "id": None}, "text": None}]}}
            ]
        },
    ],
)
def test_calls_are_function_call_parts_and_may_lack_an_id(payload):
    assert GeminiDialect([tool()]).parse_calls(payload) == [ToolCall("hr::find", {"id": 1}, None)]


def test_a_blocked_answer_has_no_calls():
    assert GeminiDialect().parse_calls({"candidates": [{"finishReason": "SAFETY"}]}) == []
    assert GeminiDialect().parse_calls({"promptFeedback": {}}) == []


def test_calls_without_an_id_stay_without_one():
    (content,) = GeminiDialect([tool()]).format_calls([ToolCall("hr::find", {"id": 1}), ToolCall("hr::find", {}, "x")])
    assert content["role"] == "model"
    assert content["parts"] == [PART, {"functionCall": {"id": "x", "name": "hr__find", "args": {}}}]


def test_results_are_objects_under_the_wire_name():
    failed = ToolResult("b", "hr::find", error_info=ErrorInfo("tool.timeout", "slow", retryable=True))
    (content,) = GeminiDialect([tool()]).format_results([ToolResult(None, "hr::find", [1]), failed])
    assert content["parts"][0] == {"functionResponse": {"name": "hr__find", "response": {"result": [1]}}}
    second = content["parts"][1]["functionResponse"]
    assert (second["id"], second["name"]) == ("b", "hr__find")
    assert second["response"]["error"]["code"] == "tool.timeout"


def test_what_the_schema_lost_is_reported_per_tool():
    dialect = GeminiDialect(
        [tool(parameters={"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}})]
    )
    dialect.format_tools()
    assert [(item.tool, item.pointer) for item in dialect.report] == [("hr::find", "/properties/a/format")]


def test_the_answer_to_a_pinned_overload_carries_the_name_the_model_called():
    first, second = tool(parameters=PERSON), tool(parameters={"type": "object", "properties": {"name": {}}})
    dialect = GeminiDialect([first, second])
    wire = dialect.names.encode(second)
    (call,) = dialect.parse_calls([{"functionCall": {"name": wire, "args": {"name": "x"}}}])
    answer = dialect.format_results([ToolResult(None, call.name, 1, overload=call.overload)])
    assert answer[0]["parts"][0]["functionResponse"]["name"] == wire
