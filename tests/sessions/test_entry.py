"""Entries: one spelling, which reads back as what was recorded."""

import datetime

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo
from toolyard.sessions.history import (
    Entry,
    any_call_text,
    call_text,
    entry_frame,
    entry_text,
    fill_frame,
    interrupted,
    read_entry,
    result_text,
)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
calls = st.builds(ToolCall, texts, st.dictionaries(texts, values, max_size=3), st.none() | texts, st.none() | texts)
infos = st.builds(
    ErrorInfo,
    code=texts,
    message=texts,
    retryable=st.booleans(),
    retry_after=st.none() | st.floats(0, 9),
    hint=st.none() | texts,
    details=st.dictionaries(texts, values, max_size=2),
)
results = st.builds(
    ToolResult,
    st.none() | texts,
    texts,
    values,
    st.none() | texts,
    st.just({}) | st.just({"k": [1]}),
    st.none() | infos,
)


@given(texts, st.none() | texts, values.filter(lambda value: value is not None))
def test_an_entry_of_a_frame_is_spelt_like_any_other(name, call_id, value):
    sent, text = b'{"a":1}', msgspec.json.encode(value)
    halves = call_text(ToolCall(name, {"a": 1}, call_id), sent), result_text(ToolResult(call_id, name, value), text)
    assert fill_frame(entry_frame(name), sent, call_id, text) == entry_text(*halves)


def written(call, result):
    return entry_text(any_call_text(call), result_text(result, msgspec.json.encode(result.result)))


@given(calls, results)
def test_an_entry_reads_back_as_it_was(call, result):
    assert read_entry(written(call, result)) == Entry(call, result)


@given(calls)
def test_both_ways_of_writing_a_call_agree(call):
    assert any_call_text(call) == call_text(call, msgspec.json.encode(call.arguments))


def test_fields_at_their_default_are_left_out():
    assert call_text(ToolCall("n"), b"{}") == b'{"name":"n","arguments":{}}'
    assert result_text(ToolResult(None, "n"), b"null") == b'{"call_id":null,"name":"n"}'


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def doubling():
    value = [1]
    for _ in range(60):
        value = [value, value]
    return value


def circle():
    value = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        *({"a": object()}, {"a": {1, 2}}, {"a": datetime.date(2026, 1, 1)}, {"a": float("nan")}, {1: 2}, {"a": b"x"}),
        *({"a": deep(5000)}, {"a": doubling()}, circle(), {"a": "\ud800"}, {"\ud800": 1}, {object(): 1}),
        *([1], None, 5, 1.5, True, "text", "\ud800", '{"a": 1', object(), {1, 2}, b"x", circle),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_was_sent_as_arguments_is_recorded_and_can_be_read_again(arguments):
    entry = read_entry(written(ToolCall("n", arguments), ToolResult(None, "n")))
    assert isinstance(entry.tool_call.arguments, dict | str)


def test_what_json_cannot_carry_is_recorded_by_the_name_of_its_type():
    assert any_call_text(ToolCall("n", {"a": object()})) == b'{"name":"n","arguments":{"a":"<object>"}}'
    assert any_call_text(ToolCall("n", [1])) == b'{"name":"n","arguments":"[1]"}'


def test_a_call_that_was_never_answered_says_that_its_effect_is_unknown():
    call = ToolCall("n::a", {"x": 1}, "id")
    entry = read_entry(interrupted(any_call_text(call), "the process ended"))
    assert entry.tool_call == call
    info = entry.tool_output.error_info
    assert (info.code, info.effect, info.message) == ("tool.interrupted", "unknown", "the process ended")
    assert entry.tool_output.call_id == "id"
