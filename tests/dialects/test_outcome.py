import json

import pytest
from hypothesis import given, strategies as st

from dialects.strategies import values
from toolyard.dialects.payload import error_of, read_content, read_value, result_text, value_text
from toolyard.model import ErrorInfo, ToolResult


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
