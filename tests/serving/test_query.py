"""Query parameters."""

import asyncio
import base64
import hashlib
import json

import msgspec
import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request

from serving.test_routing import JSON
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.query import (
    DIGEST_BYTES,
    Position,
    QueryParameter,
    digest_json,
    digest_off_loop,
    query_int,
    read_cursor,
    read_query,
    write_cursor,
)


def request(*chunks, headers=(), query=b"", gone=False):
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if gone:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False

    async def receive():
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers), "query_string": query}
    return Request(scope, receive)


def test_a_query_keeps_order_repeats_and_blanks():
    asked = request(b"", query=b"a=1&b=&a=2&c=%C3%A9+x&d")
    assert read_query(asked) == {"a": ["1", "2"], "b": [""], "c": ["é x"], "d": [""]}


@pytest.mark.parametrize("query", [b"a=%FF", b"\xc3\xa9=1", b"&".join([b"a=1"] * 101)])
def test_a_query_that_is_not_ascii_text_or_has_too_many_parameters_is_refused(query):
    with pytest.raises(HttpFault) as caught:
        read_query(request(b"", query=query))
    assert caught.value.code == "request.invalid_query"


@given(st.binary(max_size=60))
def test_any_query_is_read_or_refused(query):
    try:
        assert isinstance(read_query(request(b"", query=query)), dict)
    except HttpFault as fault:
        assert fault.status == 400


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"1.0", b"1e2", b"%D9%A1", b"+5", b"_1", b"9" * 30, b"101"])
def test_a_number_out_of_range_or_form_is_refused(text):
    with pytest.raises(HttpFault):
        query_int(request(b"", query=b"n=" + text), "n", 0, 100, 7)


def test_numbers_in_a_query_are_whole_and_within_limits():
    assert query_int(request(b"", query=b"n=100"), "n", 0, 100, 7) == 100
    assert query_int(request(b"", query=b""), "n", 0, 100, 7) == 7


def test_parameters_are_checked_by_their_schema():
    word = QueryParameter("word", {"type": "string", "enum": ["a", "b"], "minLength": 1}, "")
    word.check(["a"])
    for values in (["c"], [""], ["a", "b"]):
        with pytest.raises(HttpFault, match="word"):
            word.check(values)
    QueryParameter("many", {"type": "string"}, "", repeatable=True).check(["a", "a", ""])
    with pytest.raises(HttpFault):
        QueryParameter("number", {"type": "string", "pattern": "^[0-9]+$"}, "").check(["1\n"])


@pytest.mark.parametrize("place", [b"[1]", b"[1,2,3]", b'["a","b"]', b"[9223372036854775808,1]", b"[-1,5]", b"xx", b""])
def test_a_cursor_that_is_sealed_and_holds_something_else_was_made_up(place):
    digest = digest_json("list")
    seal = hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()
    forged = base64.urlsafe_b64encode(place + seal).decode().rstrip("=")
    assert read_cursor(digest, forged, tuple[Position, Position]) is None
    assert read_cursor(digest, write_cursor(digest, 7, 5), tuple[Position, Position]) == (7, 5)
    assert read_cursor(digest_json("other"), write_cursor(digest, 7, 5), tuple[Position, Position]) is None


@given(JSON, JSON)
def test_digests_are_equal_for_equal_json_only(one, two):
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (digest_json(one) == digest_json(two)) is same


async def test_the_digest_of_many_values_is_the_same_and_is_computed_beside_the_loop():
    keys = [f"{chr(number * 7919 % 0x10FFFF or 1)}{number}" for number in range(9_000)]
    keys = [key for key in keys if not "\ud800" <= key[0] <= "\udfff"]
    parts = ("POST", {"args": [{key: {"b": [1.0, None], "a": "\u00e9"} for key in keys}]})
    digesting = asyncio.ensure_future(digest_off_loop(parts))
    await asyncio.sleep(0)
    assert not digesting.done()
    assert await digesting == digest_json(*parts) == await digest_off_loop(tuple(reversed_keys(parts)))


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list | tuple) else value


def test_the_order_of_keys_does_not_change_a_digest():
    one, two = b'{"a": {"x": 1, "y": 2}, "b": 1}', b'{"b": 1, "a": {"y": 2, "x": 1}}'
    assert digest_json(msgspec.json.decode(one)) == digest_json(msgspec.json.decode(two))
    assert digest_json(1) != digest_json(1.0) and digest_json(1) != digest_json(True)
