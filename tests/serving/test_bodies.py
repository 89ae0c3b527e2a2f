"""Reading the JSON of a request."""

import asyncio
import json

import msgspec
import pytest
from hypothesis import given, strategies as st
from service_support import served

from toolyard.app.server_block import ServerBlock
from toolyard.serving.bodies import check_type, digest_of, read_json, whole
from toolyard.serving.faults import HttpFault
from toolyard.serving.request import Request
from toolyard.serving.shapes import V0Invocation

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def request(*headers, body=b"", query=b""):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"method": "POST", "path": "/", "headers": list(headers), "query_string": query}
    return Request(scope, receive)


@pytest.mark.parametrize(
    "kind",
    [b"application/json", b"application/json; charset=utf-8", b"Application/JSON;charset=UTF-8", b"application/json ;"],
)
def test_json_is_known_by_its_content_type(kind):
    check_type(request((b"content-type", kind)))


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"", b"application/json; charset=latin-1", b"application/json+x", b"text/json", b"json"]
)
def test_any_other_content_type_is_a_415(kind):
    with pytest.raises(HttpFault) as caught:
        check_type(request((b"content-type", kind)))
    assert caught.value.status == 415


def test_no_content_type_at_all_is_a_415():
    with pytest.raises(HttpFault) as caught:
        check_type(request())
    assert caught.value.status == 415


def read(body):
    asked = request((b"content-type", b"application/json"), body=body)
    return asyncio.run(read_json(asked, V0Invocation, ServerBlock(max_body_bytes=10_000, max_depth=20)))


@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_every_json_object_arrives_as_it_was_sent(args):
    shaped, plain = read(json.dumps({"args": args}).encode())
    assert shaped.args == plain["args"] == args


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_a_400(data):
    try:
        shaped, _ = read(data)
    except HttpFault as fault:
        assert (fault.status, fault.code) in {(400, "request.invalid_json"), (400, "request.invalid_shape")}
    else:
        assert isinstance(shaped, V0Invocation)


@pytest.mark.parametrize(
    "body",
    [
        b'{"args": {"a": 1, "a": 2}}',
        b'{"args": {"a": {"b": 1, "b": 1}}}',
        b'{"args": ' + b"[" * 30 + b"]" * 30 + b"}",
        b'{"args": {"x": "\\ud800"}}',
        b'{"args": {"x": Infinity}}',
        b'{"args": {"x": 1e999}}',
    ],
)
def test_duplicate_keys_deep_nesting_and_what_json_has_no_word_for_are_refused(body):
    with pytest.raises(HttpFault) as caught:
        read(body)
    assert (caught.value.status, caught.value.code) == (400, "request.invalid_json")


@given(JSON, JSON)
def test_digests_are_equal_for_equal_json_only(one, two):
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (digest_of(one) == digest_of(two)) is same


def test_the_order_of_keys_does_not_change_a_digest():
    one, two = b'{"a": {"x": 1, "y": 2}, "b": 1}', b'{"b": 1, "a": {"y": 2, "x": 1}}'
    assert digest_of(msgspec.json.decode(one)) == digest_of(msgspec.json.decode(two))
    assert digest_of(1) != digest_of(1.0) and digest_of(1) != digest_of(True)


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"1.0", b"1e2", b"%D9%A1", b"+5", b"_1", b"9" * 30, b"101"])
def test_a_number_out_of_range_or_form_is_refused(text):
    with pytest.raises(HttpFault):
        whole(request(query=b"n=" + text), "n", 0, 100, 7)


def test_numbers_in_a_query_are_whole_and_within_limits():
    assert whole(request(query=b"n=100"), "n", 0, 100, 7) == 100
    assert whole(request(query=b""), "n", 0, 100, 7) == 7


def test_a_body_over_the_limit_is_refused_however_it_is_framed():
    with served(max_body_bytes=1000) as yard:
        big = b'{"args": {"text": "%s"}}' % (b"x" * 2000)
        declared = yard.post("/v1/tools/echo:invoke", big)
        assert (declared.status, declared.error["code"]) == (413, "request.too_large")
        assert declared.error["details"] == {"max_body_bytes": 1000}
        head = b"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        chunk = b"%x\r\n%s\r\n" % (len(big), big)
        chunked = yard.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n")
        assert chunked.status == 413
        small = b'{"args": {"text": "ok"}}'
        chunk = b"".join(b"1\r\n%c\r\n" % byte for byte in small)
        assert yard.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n").json["ok"] is True
        exact = b'{"args": {"text": "%s"}}' % (b"x" * (1000 - len(b'{"args": {"text": ""}}')))
        assert len(exact) == 1000 and yard.post("/v1/tools/echo:invoke", exact).status == 200
