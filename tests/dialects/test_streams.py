"""Streams of every provider, as they publish them, add up to the calls and the messages of the whole answer."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conftest import DATA
from toolyard import ToolCall, function_tool
from toolyard.dialects import Dialect, get_dialect


def get_weather(city: str) -> str:
    return f"sunny in {city}"


def split_bill(total: float, people: int) -> float:
    return total / people


TOOLS = [function_tool(get_weather, namespace="weather"), function_tool(split_bill, namespace="desk")]
CALLS = [
    ToolCall("weather::get_weather", {"city": "Oslo"}, "call_a"),
    ToolCall("desk::split_bill", {"total": 90, "people": 3}, "call_b"),
]
PROVIDERS = ("openai", "openai-responses", "anthropic", "gemini")


def turns_of(provider: str) -> list[list[dict[str, Any]]]:
    text = (DATA / "streams" / f"{provider}.jsonl").read_text()
    return [[json.loads(line) for line in turn.splitlines()] for turn in text.split("\n\n")]


def add_all(dialect: Dialect, events: Any) -> tuple[list[dict[str, Any]], str]:
    answer: list[dict[str, Any]] = []
    return answer, "".join([dialect.add_event(answer, event) for event in events])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_adds_up_to_its_calls_and_its_text(provider: str) -> None:
    dialect = get_dialect(provider, TOOLS)
    first, last = turns_of(provider)
    answer, text = add_all(dialect, first)
    assert (dialect.parse_calls(answer), text) == (CALLS, "Let me look.")
    answer, text = add_all(dialect, last)
    assert (dialect.parse_calls(answer), text) == ([], "Sunny, 30 each.")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_has_come_so_far_can_be_read_after_every_event(provider: str) -> None:
    dialect = get_dialect(provider, TOOLS)
    answer: list[dict[str, Any]] = []
    seen: list[int] = []
    for event in turns_of(provider)[0]:
        dialect.add_event(answer, event)
        calls = dialect.parse_calls(answer)
        assert [call.name for call in calls] == [call.name for call in CALLS[: len(calls)]]
        # Not whole yet: nothing, or a text that no call path takes for arguments.
        assert all(
            call.arguments in (whole.arguments, {}) or isinstance(call.arguments, str)
            for call, whole in zip(calls, CALLS, strict=False)
        )
        seen.append(len(calls))
    assert seen == sorted(seen) and set(seen) == {0, 1, 2}


def test_what_goes_back_into_the_conversation_is_whole() -> None:
    chat, _ = add_all(get_dialect("openai", TOOLS), turns_of("openai")[0])
    [called] = get_dialect("openai", TOOLS).format_calls(CALLS)
    assert chat == [{**called, "content": "Let me look."}]
    messages, _ = add_all(get_dialect("anthropic", TOOLS), turns_of("anthropic")[0])
    thought, said, *uses = messages[0]["content"]
    assert thought == {"type": "thinking", "thinking": "Two calls.", "signature": "c2ln"}
    assert said == {"type": "text", "text": "Let me look."}
    assert [use["input"] for use in uses] == [call.arguments for call in CALLS]
    items, _ = add_all(get_dialect("openai-responses", TOOLS), turns_of("openai-responses")[0])
    assert items == turns_of("openai-responses")[0][-1]["response"]["output"]
    contents, _ = add_all(get_dialect("gemini", TOOLS), turns_of("gemini")[0])
    assert [part.get("thoughtSignature") for part in contents[0]["parts"]] == [None, None, None, "c2ln", None]


_ARGUMENTS = st.dictionaries(
    st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=4
)


@given(calls=st.lists(_ARGUMENTS, min_size=1, max_size=3), data=st.data())
def test_however_arguments_are_cut_they_are_the_same(calls: list[dict[str, Any]], data: st.DataObject) -> None:
    chat: list[Any] = []
    blocks: list[Any] = []
    for number, arguments in enumerate(calls):
        text = json.dumps(arguments)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        first = {"index": number, "id": f"c{number}", "function": {"name": "desk__x", "arguments": ""}}
        chat += [first, *({"index": number, "function": {"arguments": piece}} for piece in pieces)]
        use = {"type": "tool_use", "id": f"c{number}", "name": "desk__x", "input": {}}
        blocks.append({"type": "content_block_start", "index": number, "content_block": use})
        for piece in pieces:
            delta = {"type": "input_json_delta", "partial_json": piece}
            blocks.append({"type": "content_block_delta", "index": number, "delta": delta})
        blocks.append({"type": "content_block_stop", "index": number})
    expected = [ToolCall("desk::x", arguments, f"c{number}") for number, arguments in enumerate(calls)]
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in chat]
    openai, anthropic = get_dialect("openai", TOOLS), get_dialect("anthropic", TOOLS)
    assert openai.parse_calls(add_all(openai, chunks)[0]) == expected
    assert anthropic.parse_calls(add_all(anthropic, blocks)[0]) == expected


@pytest.mark.parametrize(
    "pieces",
    [
        [
            {"id": "a", "function": {"name": "desk__x", "arguments": "{}"}},
            {"id": "b", "function": {"name": "desk__y", "arguments": "{}"}},
        ],
        [
            {"index": 0, "id": "a", "function": {"name": "desk__x", "arguments": "{}"}},
            {"index": 0, "id": "b", "function": {"name": "desk__y", "arguments": "{}"}},
        ],
        [
            {"id": "a", "function": {"name": "desk__x", "arguments": "{"}},
            {"function": {"arguments": "}"}},
            {"id": "b", "function": {"name": "desk__y", "arguments": "{}"}},
        ],
        [
            {"index": 0, "id": "a", "function": {"name": "desk__x", "arguments": "{"}},
            {"index": 0, "id": "a", "function": {"name": "desk__x", "arguments": "}"}},
            {"index": 1, "id": "b", "function": {"name": "desk__y", "arguments": None}},
        ],
    ],
)
def test_servers_that_number_pieces_in_their_own_way_are_understood(pieces: list[Any]) -> None:
    dialect = get_dialect("openai", TOOLS)
    answer, _ = add_all(dialect, [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces])
    assert dialect.parse_calls(answer) == [ToolCall("desk::x", {}, "a"), ToolCall("desk::y", {}, "b")]


def piece(name: str | None, arguments: Any, **rest: Any) -> dict[str, Any]:
    return {**rest, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("desk__x", '{"a": 1}', index=0), piece("desk__y", '{"b": 2}', index=1)],
        [piece("desk__x", '{"a": 1}', index=0, id=""), piece("desk__y", '{"b": 2}', index=1, id="")],
        [piece("desk__x", '{"a": 1}', index=0), piece("desk__y", '{"b": 2}', index=0)],
        [piece("desk__x", '{"a": 1}'), piece("desk__y", '{"b": 2}')],
        [piece("desk__x", {"a": 1}, index=0), piece("desk__y", {"b": 2}, index=1)],
        [piece("desk__x", '{"a": 1}', index=0, id="one"), piece("desk__y", '{"b": 2}', index=1, id="one")],
        [
            piece("desk__x", "", index=0),
            piece("desk__y", "", index=1),
            piece(None, '{"a": 1}', index=0),
            piece(None, '{"b": 2}', index=1),
        ],
        [
            piece("desk__x", '{"a"', index=0, id="p"),
            piece(None, ": 1}", index=0, id="q"),
            piece("desk__y", '{"b": 2}', index=1, id="r"),
        ],
    ],
)
def test_calls_that_come_without_ids_of_their_own_stay_apart(pieces: list[Any]) -> None:
    dialect = get_dialect("openai", TOOLS)
    answer, _ = add_all(dialect, [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces])
    calls = dialect.parse_calls(answer)
    assert [(call.name, call.arguments) for call in calls] == [("desk::x", {"a": 1}), ("desk::y", {"b": 2})]
    assert len({call.call_id for call in calls} - {None, ""}) == 2


def test_the_same_tool_twice_in_one_turn_is_two_calls_though_neither_is_numbered() -> None:
    dialect = get_dialect("openai", TOOLS)
    listed = [piece("desk__x", '{"a": 1}', index=0, id=""), piece("desk__x", '{"a": 2}', index=0, id="")]
    answer, _ = add_all(dialect, [{"choices": [{"delta": {"tool_calls": listed}}]}])
    assert [call.arguments for call in dialect.parse_calls(answer)] == [{"a": 1}, {"a": 2}]


def test_an_id_that_a_stream_did_not_give_is_another_in_every_turn() -> None:
    # The answer to a call whose id is known already is the answer of then.
    dialect = get_dialect("openai", TOOLS)
    turn = [{"choices": [{"delta": {"tool_calls": [piece("desk__x", "{}", index=0)]}}]}]
    ids = {dialect.parse_calls(add_all(dialect, turn)[0])[0].call_id for _ in range(20)}
    assert len(ids) == 20


def test_places_that_a_stream_leaves_out_are_no_error() -> None:
    responses = get_dialect("openai-responses", TOOLS)
    item = {"type": "function_call", "id": "fc", "name": "desk__x", "call_id": "c", "arguments": ""}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 3, "item_id": "fc", "delta": "{}"}
    done = {"type": "response.output_item.done", "output_index": 3, "item": {**item, "arguments": "{}"}}
    events = [{"type": "response.output_item.added", "output_index": 3, "item": item}, delta, done]
    for count in (2, 3):
        answer, _ = add_all(responses, events[:count])
        assert responses.parse_calls(answer) == [ToolCall("desk::x", {}, "c")]
    assert add_all(responses, [delta]) == ([], "")
    anthropic = get_dialect("anthropic", TOOLS)
    use = {"type": "tool_use", "id": "t", "name": "desk__x", "input": {}}
    written = {"type": "input_json_delta", "partial_json": "{}"}
    blocks = [
        {"type": "content_block_start", "index": 2, "content_block": use},
        {"type": "content_block_delta", "index": 2, "delta": written},
        {"type": "content_block_stop", "index": 2},
    ]
    assert anthropic.parse_calls(add_all(anthropic, blocks)[0]) == [ToolCall("desk::x", {}, "t")]
    assert anthropic.parse_calls(add_all(anthropic, blocks[1:])[0]) == []


@pytest.mark.parametrize(
    ("provider", "answer"),
    [
        ("openai", {"tool_calls": [{"id": "", "function": {"name": "desk__x", "arguments": "{}"}}]}),
        ("openai-responses", {"type": "function_call", "call_id": "", "name": "desk__x", "arguments": "{}"}),
        ("anthropic", {"content": [{"type": "tool_use", "id": "", "name": "desk__x", "input": {}}]}),
        ("gemini", {"role": "model", "parts": [{"functionCall": {"id": "", "name": "desk__x", "args": {}}}]}),
    ],
)
def test_an_empty_id_is_none(provider: str, answer: dict[str, Any]) -> None:
    assert get_dialect(provider, TOOLS).parse_calls(answer) == [ToolCall("desk::x", {}, None)]


def test_arguments_that_a_model_never_finished_are_refused_on_the_call_path() -> None:
    dialect = get_dialect("anthropic", TOOLS)
    events = [event for event in turns_of("anthropic")[0] if '"lo\\"}"' not in json.dumps(event)]
    answer, _ = add_all(dialect, events)
    assert dialect.parse_calls(answer)[0].arguments == '{"city": "Os'
    assert answer[0]["content"][2]["input"] == {"__raw_arguments__": '{"city": "Os'}


@pytest.mark.parametrize(
    ("provider", "event"),
    [
        ("openai", {"choices": [{"delta": {"content": "", "refusal": "I will not."}}]}),
        ("openai-responses", {"type": "response.refusal.delta", "output_index": 0, "delta": "I will not."}),
    ],
)
def test_a_refusal_is_text_to_show(provider: str, event: dict[str, Any]) -> None:
    assert get_dialect(provider, []).add_event([], event) == "I will not."


def test_mcp_has_no_streams() -> None:
    with pytest.raises(TypeError, match="mcp has a format for tools only"):
        get_dialect("mcp", TOOLS).add_event([], {})
