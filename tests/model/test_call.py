import base64

import pytest
from hypothesis import given, strategies as st

from toolyard import DefinitionError, ErrorInfo, ToolCall, ToolResult
from toolyard.model.call import CONTENT, Content, audio, blocks_of, image, resource, resource_link, text


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


PICTURE = image(b"png", "image/png")


def kept_in(content):
    """The result as the call path writes it."""
    metadata = {} if content.kept is None else {CONTENT: content.kept}
    return ToolResult(None, "n::a", content.result, metadata=metadata)


def test_text_alone_is_the_result_and_nothing_beside_it():
    content = Content([text("hello")])
    assert (content.result, content.kept) == ("hello", None)
    assert blocks_of(kept_in(content)) is None


def test_several_texts_are_one_and_kept_as_they_came():
    content = Content([text("a"), text("b")])
    assert (content.result, content.kept) == ("a\nb", [text("a"), text("b")])


def test_more_than_text_is_the_result_itself_and_not_kept_twice():
    content = Content([text("look"), PICTURE])
    assert content.result == [text("look"), PICTURE]
    assert content.kept == "result"
    assert blocks_of(kept_in(content)) == [text("look"), PICTURE]


def test_a_value_is_the_result_and_the_blocks_are_kept_beside_it():
    content = Content([text("5 sold"), PICTURE], {"sold": 5})
    assert content.result == {"sold": 5}
    assert blocks_of(kept_in(content)) == [text("5 sold"), PICTURE]


def test_none_is_a_value():
    assert Content([PICTURE], None).result is None


def test_no_blocks_at_all_are_no_blocks():
    assert Content([]).result == []


@pytest.mark.parametrize("odd", [None, 5, "text", ["text"], {"type": "text"}])
def test_metadata_of_somebody_else_under_the_same_key_is_no_content(odd):
    assert blocks_of(ToolResult(None, "n::a", 1, metadata={CONTENT: odd})) is None


def test_text_with_more_to_it_is_kept():
    marked = {**text("hello"), "annotations": {"audience": ["user"]}}
    assert Content([marked]).kept == [marked]


def test_blocks_are_spelt_as_mcp_spells_them():
    assert {"type": "image", "data": base64.b64encode(b"png").decode(), "mimeType": "image/png"} == PICTURE
    assert audio(b"wav", "audio/wav")["type"] == "audio"
    assert resource_link("file:///a", "a", mime_type="text/plain", description="d") == {
        "type": "resource_link",
        "uri": "file:///a",
        "name": "a",
        "mimeType": "text/plain",
        "description": "d",
    }
    assert resource_link("file:///a", "a").keys() == {"type", "uri", "name"}
    assert resource("b:", "text")["resource"] == {"uri": "b:", "text": "text"}
    assert resource("b:", b"\0", mime_type="x/y")["resource"] == {"uri": "b:", "blob": "AA==", "mimeType": "x/y"}


@given(st.lists(st.one_of(st.text().map(text), st.binary().map(lambda data: image(data, "image/png"))), min_size=1))
def test_whatever_the_blocks_they_are_found_again_or_say_no_more_than_the_result(blocks):
    result = kept_in(Content(blocks))
    found = blocks_of(result)
    assert found == blocks if found is not None else blocks == [text(result.result)]
