"""Query parameters."""

import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request

from toolyard.serving.http_fault import HttpFault
from toolyard.serving.query import QueryParameter, query_int, read_query


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
