"""One request as handlers see it."""

import asyncio

import pytest
from hypothesis import given, strategies as st
from service_support import served

from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Disconnected, Request


@pytest.fixture(scope="module")
def yard():
    with served() as server:
        yield server


def request(*chunks, headers=(), query=b"", gone=False):
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if gone:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False

    async def receive():
        return messages.pop(0)

    scope = {"method": "POST", "path": "/", "headers": list(headers), "query_string": query}
    return Request(scope, receive)


def read(asked, limit=10):
    return asyncio.run(asked.read(limit))


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=5))
def test_a_body_is_read_whole_or_refused_by_its_size_alone(chunks):
    whole = b"".join(chunks)
    if len(whole) <= 10:
        assert read(request(*chunks)) == whole
    else:
        with pytest.raises(HttpFault) as caught:
            read(request(*chunks))
        assert (caught.value.status, caught.value.code) == (413, "request.too_large")


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read():
    asked = request(b"x", headers=[(b"content-length", b"11")])
    with pytest.raises(HttpFault):
        read(asked)
    assert asked.body is None


@pytest.mark.parametrize("length", [b"9" * 40, b"0" * 30 + b"11"])
def test_no_length_is_too_long_to_be_understood(length):
    with pytest.raises(HttpFault):
        read(request(b"x" * 11, headers=[(b"content-length", length)]))


def test_a_client_that_goes_away_is_not_answered():
    with pytest.raises(Disconnected):
        read(request(b"x", gone=True))
    with pytest.raises(Disconnected):
        read(request(gone=True))


@pytest.mark.parametrize("name", ["abc", "a.b-c_d:e/f+g=h@i", "x" * 128, "0"])
def test_a_plain_request_id_is_said_back(yard, name):
    for path in ("/v1/health", "/nowhere", "/v1/tools/nope", "/arp/v1/tools"):
        assert yard.get(path, headers={"x-request-id": name}).headers["x-request-id"] == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "x" * 129, "a\tb", "a\x0bb", "é", "a;b", 'a"b', "a,b", "<script>", "a\x00b", "a=b c=d", "{}"],
)
def test_a_hostile_request_id_is_replaced(yard, name):
    sent = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: %s\r\n\r\n"
    answer = yard.raw(sent % name.encode())
    given_back = answer.headers["x-request-id"]
    assert given_back and given_back != name
    assert given_back.isascii() and given_back.isprintable() and " " not in given_back


def test_requests_without_an_id_get_one_each(yard):
    assert len({yard.get("/v1/health").headers["x-request-id"] for _ in range(20)}) == 20


def test_a_query_keeps_order_repeats_and_blanks():
    asked = request(b"", query=b"a=1&b=&a=2&c=%C3%A9+x&d")
    assert asked.query == {"a": ["1", "2"], "b": [""], "c": ["é x"], "d": [""]}


@pytest.mark.parametrize("query", [b"a=%FF", b"\xc3\xa9=1", b"&".join([b"a=1"] * 101)])
def test_a_query_that_is_no_text_or_too_much_is_refused(query):
    with pytest.raises(HttpFault) as caught:
        request(b"", query=query).query
    assert caught.value.code == "request.invalid_query"


@given(st.binary(max_size=60))
def test_any_query_is_read_or_refused(query):
    try:
        assert isinstance(request(b"", query=query).query, dict)
    except HttpFault as fault:
        assert fault.status == 400
