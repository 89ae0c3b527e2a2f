import json
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from dialects.strategies import values
from toolyard.dialects import get_dialect
from toolyard.dialects.payload import (
    RAW_ARGUMENTS,
    ChangeLog,
    arguments_object,
    arguments_text,
    entries,
    error_of,
    fields,
    pick,
    read_arguments,
    read_content,
    read_id,
    read_value,
    records,
    result_text,
    value_text,
)
from toolyard.model import ErrorInfo, Rewrite, ToolResult
from toolyard.model.errors import ToolFailed

OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}
NO_CREDIT = {"code": "insufficient_quota", "message": "no credit for api_key=sk-abcdefghijklmnopqrstuvwx"}
EXHAUSTED = {"code": 429, "message": "Too many", "status": "RESOURCE_EXHAUSTED"}


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("openai", {"error": NO_CREDIT}, "insufficient_quota: no credit for"),
        ("openai", {"error": "model 'x' not found"}, "model 'x' not found"),
        ("openai", {"error": {"message": "x" * 995 + " sk-abcdefghijklmnopqrstuvwx"}}, r"x{995} \[red$"),
        ("openai-responses", {"object": "response", "error": NO_CREDIT, "output": []}, "insufficient_quota: no credit"),
        ("openai-responses", {"type": "response.failed", "response": {"error": NO_CREDIT}}, "insufficient_quota"),
        ("openai-responses", {"type": "error", "code": "x", "message": "so"}, "x, error: so"),
        ("anthropic", {"type": "error", "error": OVERLOADED}, "overloaded_error: Overloaded"),
        ("anthropic", SimpleNamespace(model_dump=lambda: {"type": "error", "error": OVERLOADED}), "overloaded_error"),
        ("gemini", {"error": EXHAUSTED}, "RESOURCE_EXHAUSTED, 429: Too many"),
        ("gemini", [{"error": EXHAUSTED}], "RESOURCE_EXHAUSTED, 429: Too many"),
    ],
)
def test_an_error_in_place_of_an_answer_is_raised_and_is_not_an_answer_without_calls(name, body, said):
    dialect = get_dialect(name)
    with pytest.raises(ToolFailed, match=f"the provider answered with an error: {said}") as raised:
        dialect.parse_calls(body)
    assert "sk-abc" not in str(raised.value) and raised.value.info.effect == "none"
    if not isinstance(body, list):
        with pytest.raises(ToolFailed, match=said):
            dialect.add_event([], body)


def test_an_answer_whose_error_is_null_and_an_item_with_an_error_of_its_own_are_no_error():
    call = {"type": "function_call", "name": "n", "arguments": "{}", "call_id": "c"}
    failed = {"type": "mcp_call", "error": {"message": "not ours"}}
    response = {"object": "response", "error": None, "output": [failed, call]}
    for answer in (response, [failed, call]):
        assert len(get_dialect("openai-responses").parse_calls(answer)) == 1


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ('{"a": 1', '{"a": 1'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('{"a": NaN}', '{"a": NaN}'),
        ("[1]", "[1]"),
        ("5", "5"),
        ('"{}"', '"{}"'),
        ([1, 2], "[1, 2]"),
        (True, "true"),
        ({RAW_ARGUMENTS: "{"}, "{"),
        ({RAW_ARGUMENTS: 5}, {RAW_ARGUMENTS: 5}),
    ],
)
def test_arguments_are_an_object_or_stay_the_text_they_were(given, read):
    assert read_arguments(given) == read


def test_text_travels_inside_an_object_where_it_must():
    assert read_arguments(arguments_object("{")) == "{"
    assert arguments_object({"a": 1}) == {"a": 1}
    assert arguments_text("{") == "{"
    assert read_arguments(arguments_text({"é": [1]})) == {"é": [1]}


def test_sdk_objects_are_asked_for_their_fields():
    assert fields(SimpleNamespace(model_dump=lambda: {"a": 1})) == {"a": 1}
    assert fields({"a": 1}) == {"a": 1}
    assert fields([1]) == fields(None) == {}
    assert entries((1, 2)) == [1, 2]
    assert entries("ab") == []


def test_pydantic_models_give_the_names_of_the_wire():
    class Message(BaseModel):
        tool_calls: int = Field(alias="toolCalls")

    assert fields(Message(toolCalls=1)) == {"toolCalls": 1}


def test_both_spellings_of_a_key_are_found_and_null_is_none():
    assert pick({"isError": None, "is_error": False}, "isError", "is_error") is False
    assert pick({}, "a") is None


def test_one_record_or_a_list_of_them():
    assert list(records({"a": 1})) == [{"a": 1}]
    assert list(records([{"a": 1}, {}])) == [{"a": 1}, {}]
    with pytest.raises(TypeError, match="not str"):
        list(records("text"))


def test_ids_are_text():
    assert read_id(7) == "7"
    assert read_id(None) is None


def test_equal_changes_are_counted_under_the_first_place():
    log = ChangeLog()
    log.add(("properties", "a"), "x dropped")
    log.add(("properties", "b"), "x dropped")
    log.add((), "y dropped")
    assert log.rewrites("hr::find") == [
        Rewrite("hr::find", "/properties/a", "x dropped", 2),
        Rewrite("hr::find", "", "y dropped", 1),
    ]


def test_pointers_escape_the_names_in_them():
    log = ChangeLog()
    log.add(("properties", "a/b~c", 0), "gone")
    assert log.rewrites("t")[0].pointer == "/properties/a~1b~0c/0"


@given(values | st.text())
def test_any_value_reads_back_as_it_was(value):
    assert repr(read_value(value_text(value))) == repr(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("sunny, 21 °C", "sunny, 21 °C"),
        ("5", '"5"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        (5, "5"),
        (None, "null"),
        ({"città": [1]}, '{"città": [1]}'),
        ("", ""),
        ("NaN", "NaN"),
    ],
)
def test_text_stays_text_unless_it_could_be_taken_for_json(value, text):
    assert value_text(value) == text


def test_text_that_cannot_be_utf8_leaves_escaped():
    assert value_text("a\ud800").encode() == b'"a\\ud800"'
    assert value_text(["\udfff"]).encode() == b'["\\udfff"]'


def test_errors_are_json_with_code_message_hint_and_details():
    info = ErrorInfo("tool.denied", "no", hint="ask", details={"rule": 1}, retryable=True, retry_after=2.0)
    assert json.loads(result_text(ToolResult("c", "t", None, "no", error_info=info))) == {
        "error": {
            "code": "tool.denied",
            "message": "no",
            "retryable": True,
            "effect": "none",
            "retry_after": 2.0,
            "hint": "ask",
            "details": {"rule": 1},
        }
    }


def test_a_success_has_no_error():
    assert error_of(ToolResult("c", "t", 1)) is None


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("[1]", [1]),
        ([{"type": "text", "text": "[1]"}], [1]),
        ([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb"),
        ([{"type": "image", "data": "x"}], [{"type": "image", "data": "x"}]),
        ([], None),
        (None, None),
    ],
)
def test_content_is_text_or_text_parts_or_other_parts(content, value):
    assert read_content(content) == value
