"""What servers answer, read as values, content and failures."""

import json

import pytest

from toolyard import CallError, Denied, InvalidOutput, ToolFailed
from toolyard.dialects.mcp import read_answer
from toolyard.engines.mcp import redact_error
from toolyard.model.call import Content, ToolResult, audio, image, resource, resource_link, text
from toolyard.serving.mcp.server import make_call_result
from toolyard.words.redactor import Redactor

PICTURE = image(b"png", "image/png")


def read(answer, schema=None, **options):
    return read_answer(answer, "the server", schema or {}, **options)


def said(*texts, **more):
    return {"content": [text(line) for line in texts], **more}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (said("hello"), "hello"),
        (said('{"a": 1}'), '{"a": 1}'),
        (said("5"), "5"),
        ({"content": []}, None),
        ({}, None),
        (said('{"a": 1}', structuredContent={"a": 1}), {"a": 1}),
        ({"structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [], "structuredContent": [1]}, [1]),
        (said("5", structuredContent={"result": 5}), 5),
        (said('{"result": 5}', structuredContent={"result": 5}), {"result": 5}),
        (said("null", structuredContent={"result": None}), None),
        ({"toolResult": {"a": 1}}, {"a": 1}),
        ({"temperature": 5, "_meta": {"b": 2}}, {"temperature": 5}),
        ({"_meta": {"b": 2}, "isError": False}, None),
    ],
)
def test_structured_content_is_the_value_and_text_stays_text(answer, value):
    assert read(answer) == value


@pytest.mark.parametrize("value", [None, True, 0, 5, 1.5, "", "text", "5", "null", [], [1, {"a": 2}], {}, {"a": [1]}])
def test_whatever_our_own_server_writes_is_read_as_it_was(value):
    written = make_call_result(ToolResult(None, "n::a", value))
    assert read(json.loads(json.dumps(written))) == value


def test_json_in_text_is_read_where_that_is_meant():
    assert read(said('{"a": 1}'), json_text=True) == {"a": 1}
    assert read(said("no json"), json_text=True) == "no json"
    assert read(said("[1,", "2]"), json_text=True) == [1, 2]


def test_with_an_output_schema_the_schema_says_whether_there_is_a_wrapper():
    wrapped = said("7", structuredContent={"result": 7})
    assert read(wrapped, {"type": "integer"}) == 7
    assert read(wrapped, {"type": "object"}) == Content([text("7")], {"result": 7})
    assert read({"structuredContent": {"result": 7}}, {"type": "integer"}) == 7


def test_null_is_a_structured_value_only_where_one_is_promised():
    assert read(said("hello", structuredContent=None)) == "hello"
    assert read(said("null", structuredContent=None), {"type": "null"}) is None


def test_every_kind_of_block_is_kept():
    blocks = [text("look"), PICTURE, audio(b"wav", "audio/wav"), resource_link("file:///a", "a"), resource("b:", "b")]
    found = read({"content": [*blocks, {"type": "hologram", "rays": 7}]})
    assert found.result is found.blocks
    assert found.blocks[:5] == blocks
    assert found.blocks[5] == {"type": "hologram", "rays": 7}


def test_text_that_says_more_than_the_value_is_kept_beside_it():
    found = read(said("Sunny all day.", structuredContent={"sun": 1}))
    assert (found.result, found.kept) == ({"sun": 1}, [text("Sunny all day.")])
    annotated = {"content": [{**text("5"), "annotations": {"audience": ["user"]}}], "structuredContent": {"result": 5}}
    assert read(annotated).kept == annotated["content"]
    assert read(said("a", "b")).result == "a\nb"
    assert read(said("a", "b", structuredContent={"result": "a\nb"})) == Content([text("a"), text("b")], "a\nb")


def test_an_error_is_its_text_and_what_else_came_with_it():
    with pytest.raises(ToolFailed, match="broken") as caught:
        read({"content": [text("broken"), PICTURE], "structuredContent": {"why": 1}, "isError": True})
    assert caught.value.info.code == "tool.execution_error"
    assert caught.value.info.details == {"content": [PICTURE], "structured": {"why": 1}}
    with pytest.raises(ToolFailed, match="without a reason"):
        read({"content": [], "isError": True})


@pytest.mark.parametrize("in_text", [True, False])
def test_an_error_of_ours_is_that_error_again(in_text):
    error = {"code": "tool.denied", "message": "no", "retryable": False, "effect": "none", "hint": "ask", "details": {}}
    written = {"error": error}
    answer = said(json.dumps(written)) if in_text else {"content": [], "structuredContent": written}
    with pytest.raises(Denied, match="no") as caught:
        read({**answer, "isError": True})
    assert caught.value.info.hint == "ask"


def test_what_only_looks_like_one_of_ours_is_a_failure_of_the_tool():
    with pytest.raises(ToolFailed) as caught:
        read(said('{"error": {"code": "x"}}', isError=True))
    assert caught.value.info.code == "tool.execution_error"


@pytest.mark.parametrize(
    "answer",
    [
        5,
        None,
        [],
        {"content": 5},
        {"content": {"type": "text"}},
        {"content": ["text"]},
        {"content": [{}]},
        {"content": [{"type": 5}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 5}]},
        {"content": [{"type": "image", "data": "x"}]},
        {"content": [{"type": "resource"}]},
        {"content": [{"type": "resource", "resource": {"text": "x"}}]},
    ],
)
def test_an_answer_of_the_wrong_shape_is_said_in_our_words(answer):
    with pytest.raises(InvalidOutput, match="the answer of the server cannot be read") as caught:
        read(answer)
    assert caught.value.info.code == "tool.invalid_output"


def test_what_a_failure_may_have_done_is_as_the_tool_is_known_to():
    for answer in (said("no", isError=True), 5):
        with pytest.raises(CallError) as caught:
            read(answer, effect="none")
        assert caught.value.info.effect == "none"


def test_a_server_that_wants_more_is_told_that_nobody_gives_it():
    with pytest.raises(ToolFailed, match="asks the caller for more input") as caught:
        read({"resultType": "input_required", "inputRequests": {}})
    assert "handler" in caught.value.info.hint


def test_secrets_are_taken_out_of_an_error_and_all_it_carries():
    error = ToolFailed("bad key swordfish-42", hint="not swordfish-42", details={"data": ["swordfish-42"], "n": 1})
    same = redact_error(error, Redactor(["swordfish-42"]))
    assert same is error
    assert "swordfish" not in f"{same} {same!r} {same.info}"
    plain = CallError("fine")
    assert redact_error(plain, Redactor(["swordfish-42"])).info.message == "fine"
