import pytest

from toolyard import DefinitionError, ErrorInfo, ToolCall, ToolResult


@pytest.mark.parametrize(
    "call",
    [ToolCall("a::b"), ToolCall("a::b", {"x": [1]}, "1"), ToolCall("a::b", '{"x": ', "1", overload="abc")],
)
def test_calls_round_trip_through_dicts(call):
    assert ToolCall.from_dict(call.to_dict()) == call


@pytest.mark.parametrize(
    "result",
    [
        ToolResult("1", "a::b", {"x": 1}),
        ToolResult(None, "a::b", None, "boom", {"m": 1}, ErrorInfo("tool.denied", "boom", hint="ask")),
        ToolResult(None, "a::b", [], "boom"),
        ToolResult("1", "a::b", 5, overload="abc"),
    ],
)
def test_results_round_trip_through_dicts(result):
    assert ToolResult.from_dict(result.to_dict()) == result


def test_a_result_with_an_error_is_an_error_whatever_its_value():
    assert ToolResult("1", "a::b", {"x": 1}, "partial").is_error
    assert ToolResult("1", "a::b", error_info=ErrorInfo("c", "m")).is_error
    assert not ToolResult("1", "a::b", None).is_error


def test_failed_copies_id_name_and_message_from_the_call():
    result = ToolResult.failed(ToolCall("a::b", {}, "7"), ErrorInfo("tool.denied", "no"))
    assert (result.call_id, result.name, result.error, result.error_info.code) == ("7", "a::b", "no", "tool.denied")


def test_an_unknown_key_is_an_error_not_a_loss():
    with pytest.raises(DefinitionError, match="argumnets"):
        ToolCall.from_dict({"name": "a::b", "argumnets": {}})
