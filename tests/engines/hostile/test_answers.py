"""Answers that never end, are no JSON, or not what they say: a clear error, in time and within the limits."""

import json
import tracemalloc

import pytest
from links.fake_server import respond, send_raw

from engines.engine_support import call
from engines.hostile.hostile_server import (
    BOMBS,
    DRIPS,
    MIB,
    NOT_JSON,
    ODD_CHARSETS,
    TOO_MUCH,
    clear,
    one,
    operation,
    specification,
    too_much,
)

PAGE = {"200": {"description": "x", "content": {"application/json": {"schema": {"type": "object"}}}}}


def reading(**more):
    return specification(
        {"/x": {"get": operation("get", responses=PAGE), "post": operation("post", responses=PAGE)}}, **more
    )


@pytest.mark.parametrize("drops", DRIPS)
def test_a_server_that_drips_is_left_at_the_deadline(server, make, ask, drops):
    server.otherwise = lambda request: DRIPS[drops]
    # On a busy machine nothing may have been sent when the time is over; then more of it is given.
    for seconds in (0.3, 2, 8, 30):
        results = ask(make(reading(), server.url, timeout=seconds), call("post"), call("get"))
        posted, read = (clear(result, "tool.timeout") for result in results)
        if posted.effect == "unknown":
            break
    assert (posted.effect, read.effect) == ("unknown", "none")


@pytest.mark.parametrize("much", [*TOO_MUCH, *BOMBS])
def test_an_answer_beyond_the_limit_costs_no_more_than_the_limit(server, make, ask, much):
    act = too_much(much)
    server.otherwise = lambda request: act
    engine = make(reading(), server.url, max_response_bytes=MIB)
    tracemalloc.start()
    try:
        results = ask(engine, call("post"))
        assert tracemalloc.get_traced_memory()[1] < 24 * MIB
    finally:
        tracemalloc.stop()
    assert clear(one(results), "tool.execution_error", "tool.unavailable").effect == "unknown"


@pytest.mark.parametrize("kind", NOT_JSON)
def test_what_calls_itself_json_and_is_none_is_an_error(server, make, ask, kind):
    server.otherwise = lambda request: respond(200, NOT_JSON[kind])
    info = clear(one(ask(make(reading(), server.url), call("post"))), "tool.invalid_output", "tool.execution_error")
    assert "JSON" in info.message and info.effect != "none"


@pytest.mark.parametrize("charset", ODD_CHARSETS)
def test_no_charset_is_more_than_a_charset(server, make, ask, charset):
    """Python's codecs unpack archives too, and a server may name any of them."""
    data = {"zlib": b"x\x9c", "hex": b"7b7d", "base64": b"e30="}.get(charset, b'{"a": "\xc3\xa9"}')
    server.otherwise = lambda request: respond(200, data, kind=f"application/json; charset={charset}")
    result = one(ask(make(reading(), server.url), call("get")))
    if result.is_error:
        clear(result, "tool.invalid_output", "tool.execution_error")
    else:
        assert result.result == {"a": "é"}


KINDS = (
    *(
        "text/html",
        "text/plain",
        "application/xml",
        "image/png",
        "application/octet-stream",
        "multipart/mixed; boundary=x",
    ),
    *(
        "",
        "/",
        "json",
        "application/json/x",
        "application/",
        'application/json; charset="',
        "a" * 30_000,
        "text/html;;;=",
        "\xff",
    ),
    "application/x-www-form-urlencoded",
)


@pytest.mark.parametrize("kind", KINDS)
def test_another_content_type_than_promised_is_seen(server, make, ask, kind):
    """What comes is handed on as what it is, and said not to be what was promised; or it is an error."""
    contents = [b"<b>Sign in</b>", b'{"a": NaN}', b"\x00\xff\x00", b""]
    paths = {f"/{at}": {"get": operation(f"get{at}", responses=PAGE)} for at in range(len(contents))}

    def act(request):
        data = contents[int(request.path[1:])]
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
        return send_raw(head.encode("latin-1") + data)

    server.otherwise = act
    calls = [call(f"get{at}") for at in range(len(contents))]
    all_warned, all_strict = (
        ask(make(specification(paths), server.url, output_check=check), *calls) for check in ("warn", "strict")
    )
    for data, warned, strict in zip(contents, all_warned, all_strict, strict=True):
        if warned.is_error:
            clear(warned, "tool.invalid_output", "tool.execution_error", "tool.unavailable")
        else:
            json.dumps(warned.result, allow_nan=False)
            assert warned.metadata, data
        assert strict.is_error, data


def test_an_error_page_of_any_size_is_an_excerpt(server, make, ask):
    page = "<title>Bad</title>\x1b[2J\x00" + "é" * 300_000
    server.otherwise = lambda request: respond(500, page.encode(), kind="text/html")
    info = clear(
        one(ask(make(reading(), server.url, retries=0), call("post"))), "tool.execution_error", "tool.unavailable"
    )
    assert info.effect == "unknown" and len(json.dumps(info.to_dict())) < 20_000
    assert "\x1b" not in info.message and "\x00" not in info.message


@pytest.mark.parametrize(
    "after", ["99999999999", "-1", "nan", "inf", "1e999", "Fri, 99 Foo 2026", "\xff", "1, 2", "0x10"]
)
def test_no_retry_after_makes_a_call_wait_beyond_its_deadline(server, make, ask, after):
    head = f"HTTP/1.1 429 X\r\nRetry-After: {after}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")
    server.otherwise = lambda request: lambda connection, _: connection.sendall(head)
    info = one(ask(make(reading(), server.url, timeout=1.0), call("get"))).error_info
    assert info.code in ("tool.execution_error", "tool.unavailable", "tool.timeout", "tool.denied")
    json.dumps(info.to_dict(), allow_nan=False)
