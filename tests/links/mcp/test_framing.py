"""JSON-RPC messages: read as they were written, and refused where they are none."""

import json

import pytest
from hypothesis import given, strategies as st

from toolyard.links.mcp.framing import UnreadableError, guess_id, read_messages

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.integers(min_value=0, max_value=2**53), JSON)
def test_a_response_is_read_as_it_was_written(number, value):
    (message,) = read_messages(json.dumps({"jsonrpc": "2.0", "id": number, "result": value}).encode(), 50)
    assert message.is_response
    assert (message.id, message.result) == (number, value)


def test_the_number_of_an_answer_may_be_written_as_text_but_that_of_a_request_is_the_servers():
    (answer,) = read_messages(b'{"jsonrpc": "2.0", "id": "7", "result": {}}', 50)
    (request,) = read_messages(b'{"jsonrpc": "2.0", "id": "7", "method": "ping"}', 50)
    (other,) = read_messages(b'{"jsonrpc": "2.0", "id": "a7", "result": {}}', 50)
    assert [message.id for message in (answer, request, other)] == [7, "7", "a7"]


@given(JSON | st.binary(max_size=60))
def test_anything_else_is_unreadable_or_a_message_that_is_for_nobody(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        for message in read_messages(data, 50):
            assert message.id is not None
    except UnreadableError:
        return


@pytest.mark.parametrize("depth", [51, 5_000, 200_000])
def test_messages_nested_too_deep_are_unreadable(depth):
    with pytest.raises(UnreadableError):
        read_messages(b'{"id":1,"result":' + b"[" * depth + b"]" * depth + b"}", 50)
    assert read_messages(b'{"id":1,"result":' + b"[" * 50 + b"]" * 50 + b"}", 50)


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":', 12),
        (b'{ "id": 3, "result"', 3),
        (b'..."}],"jsonrpc":"2.0","id":9}', 9),
        (b'..."id":4,"jsonrpc":"2.0"}\r', 4),
        (b'{"result":{"id":5},"x":1', None),
        (b"garbage", None),
    ],
)
def test_the_request_that_a_lost_message_answers_is_found_at_its_ends(data, number):
    assert guess_id(data, data) == number
