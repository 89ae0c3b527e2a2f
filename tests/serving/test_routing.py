"""Which handler answers a request."""

import asyncio
import json
import socket

import pytest
from hypothesis import given, strategies as st
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Router
from waiting import SOON, until

from serving.service_support import desk_tools, served
from toolyard.serving.app import refuse_unknown_path
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.routes.tools import V0Invocation
from toolyard.serving.routing import (
    BODY,
    MAX_DEPTH,
    BodyBudget,
    JsonValueCounter,
    Operation,
    check_json_type,
    make_routes,
    read_body,
    read_json,
)


async def handler(request):
    raise AssertionError("not called here")


OPERATIONS = [
    Operation("GET", "/v1/tools", handler, "list"),
    Operation("GET", "/v1/tools/{name}", handler, "one"),
    Operation("DELETE", "/v1/tools/{name}", handler, "drop"),
    Operation("POST", "/v1/tools/{name}:invoke", handler, "call"),
    Operation("GET", "/v1/a/{id}/b/{other}", handler, "two"),
    Operation("GET", "/", handler, "root"),
]


class Found:
    """Notes which operation was found, instead of running it."""

    def __init__(self, operation):
        self.operation = operation

    async def __call__(self, scope, receive, send):
        scope["found"] = self.operation.summary, tuple(scope["path_params"].values())


ROUTER = Router(make_routes(OPERATIONS, Found), redirect_slashes=False, default=refuse_unknown_path)


MOUNTS = [
    ("/my%20app", "/my app"),
    ("/@yard", "/@yard"),
    ("/%40yard", "/@yard"),
    ("/team:a/b", "/team:a/b"),
    ("/team%3aa/b", "/team:a/b"),
    ("/%C3%BC", "/ü"),
    ("/a%2Fb", "/a/b"),
    ("/~x$&+,;=!'()*", "/~x$&+,;=!'()*"),
]


def find(method, path, root=""):
    scope = {"type": "http", "method": method, "path": "", "raw_path": path.encode(), "root_path": root, "headers": []}
    asyncio.run(ROUTER(scope, None, None))
    return scope["found"]


def refused(method, path):
    with pytest.raises(HttpFault) as caught:
        find(method, path)
    return caught.value


@pytest.mark.parametrize(
    ("method", "path", "summary", "values"),
    [
        ("GET", "/", "root", ()),
        ("GET", "/v1/tools", "list", ()),
        ("GET", "/v1/tools/", "list", ()),
        ("HEAD", "/v1/tools", "list", ()),
        ("GET", "/v1/tools/a", "one", ("a",)),
        ("GET", "/v1/tools/a/", "one", ("a",)),
        ("GET", "/v1/tools/a%2Fb", "one", ("a/b",)),
        ("GET", "/v1/tools/a%3A%3Ab", "one", ("a::b",)),
        ("GET", "/v1/tools/%252F", "one", ("%2F",)),
        ("GET", "/v1/tools/%C3%A9", "one", ("é",)),
        ("GET", "/v1/tools/..", "one", ("..",)),
        ("POST", "/v1/tools/a:invoke", "call", ("a",)),
        ("POST", "/v1/tools/a%3Ainvoke", "call", ("a",)),
        ("POST", "/v1/tools/n::a:invoke", "call", ("n::a",)),
        ("POST", "/v1/tools/a:invoke:invoke", "call", ("a:invoke",)),
        ("GET", "/v1/a/x/b/y", "two", ("x", "y")),
    ],
)
def test_a_route_is_found_by_method_and_decoded_path(method, path, summary, values):
    assert find(method, path) == (summary, values)
    for mount, root in MOUNTS:
        assert find(method, mount + path, root=root) == (summary, values)


@pytest.mark.parametrize(("mount", "root"), MOUNTS)
def test_a_mount_is_its_own_root_and_no_prefix_of_a_name(mount, root):
    assert find("GET", mount, root=root) == ("root", ())
    with pytest.raises(HttpFault):
        find("GET", f"{mount}v1/tools", root=root)


@pytest.mark.parametrize("path", ["/v1", "/v1/tools/a/b", "/v1//tools", "/v1/a//b/y", "/V1/tools", "/v1/tools//"])
def test_any_other_path_is_a_404(path):
    assert refused("GET", path).code == "route.not_found"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v1/tools", b"GET, HEAD"),
        ("PUT", "/v1/tools/a", b"DELETE, GET, HEAD"),
        ("GET", "/v1/tools/a:invoke", b"POST"),
        ("DELETE", "/v1/tools/a:invoke", b"POST"),
        ("HEAD", "/v1/tools/a:invoke", b"POST"),
        ("BREW", "/", b"GET, HEAD"),
    ],
)
def test_another_method_is_a_405_that_says_which_are_allowed(method, path, allow):
    fault = refused(method, path)
    assert (fault.status, fault.code) == (405, "request.method_not_allowed")
    assert dict(fault.headers)[b"allow"] == allow


def test_a_path_that_is_no_utf_8_is_a_400():
    assert refused("GET", "/v1/tools/%FF").status == 400
    assert refused("GET", "/v1/tools/%C3").status == 400


def test_a_path_that_is_too_long_is_a_414():
    assert refused("GET", "/v1/tools/" + "x" * 9000).status == 414


def test_every_route_of_the_service_can_be_reached_and_refuses_other_methods():
    with served(page=True) as yard:
        for path in ("/v1/tools", "/arp/v1/tools", "/v1/sessions", "/v1/health", "/openapi.json", "/"):
            for method in ("PATCH", "PUT", "TRACE", "OPTIONS"):
                answer = yard.ask(method, path)
                assert answer.status == 405, (method, path, answer)
                assert "GET" in answer.headers["allow"] and "HEAD" in answer.headers["allow"]
                assert answer.error["code"] == "request.method_not_allowed"


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools(), body_timeout=0.5) as server:
        yield server


@pytest.mark.parametrize("path", ["/v1/tools", "/arp/v1/tools", "/arp/v1/health"])
def test_other_methods_are_a_405_in_json_and_head_works(yard, path):
    for method in ("DELETE", "PUT", "PATCH", "POST"):
        answer = yard.ask(method, path)
        assert (answer.status, answer.error["code"]) == (405, "request.method_not_allowed")
        assert answer.headers["allow"] == "GET, HEAD"
    head = yard.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"") and int(head.headers["content-length"]) > 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def request(*chunks, headers=(), gone=False):
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks or (b"",)]
    if gone:
        messages = [*(messages if chunks else ()), {"type": "http.disconnect"}]
    else:
        messages[-1]["more_body"] = False

    async def receive():
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers), "query_string": b""}
    return Request({**scope, MAX_DEPTH: 20}, receive)


def read_within(asked, limit=10):
    length = dict(asked.scope["headers"]).get(b"content-length")
    return asyncio.run(read_body(asked, length, limit, None, BodyBudget(100)))


@pytest.mark.parametrize(
    "kind",
    [b"application/json", b"application/json; charset=utf-8", b"Application/JSON;charset=UTF-8", b"application/json ;"],
)
def test_json_is_known_by_its_content_type(kind):
    check_json_type({b"content-type": kind})


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"", b"application/json; charset=latin-1", b"application/json+x", b"text/json", b"json"]
)
def test_any_other_content_type_is_a_415(kind):
    with pytest.raises(HttpFault) as caught:
        check_json_type({b"content-type": kind})
    assert caught.value.status == 415


def test_no_content_type_at_all_is_a_415():
    with pytest.raises(HttpFault) as caught:
        check_json_type({})
    assert caught.value.status == 415


def read(body):
    asked = request(body)

    async def work():
        await read_body(asked, None, 10_000, None, BodyBudget(10_000))
        return await read_json(asked, V0Invocation)

    return asyncio.run(work())


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


def test_large_bodies_that_arrive_at_once_are_bounded_together():
    with served(max_body_bytes=1_000_000) as server:
        server.service.body_budget.most = 1_500_000
        head = (
            b"POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 900000\r\n\r\n"
        )
        first = socket.create_connection(("127.0.0.1", server.port), timeout=SOON)
        first.sendall(head + b" " * 890_000)
        until(lambda: server.service.body_budget.taken > 800_000)
        refused = server.raw(head + b" " * 890_000)
        assert (refused.status, refused.error["code"]) == (429, "server.overloaded")
        first.close()
        until(lambda: server.service.body_budget.taken == 0)
        assert server.invoke("echo", {"text": "x" * 900_000}).status == 200


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=5))
def test_a_body_is_read_whole_or_refused_by_its_size_alone(chunks):
    whole = b"".join(chunks)
    if len(whole) <= 10:
        assert read_within(request(*chunks)) == whole
    else:
        with pytest.raises(HttpFault) as caught:
            read_within(request(*chunks))
        assert (caught.value.status, caught.value.code) == (413, "request.too_large")


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read():
    asked = request(b"x", headers=[(b"content-length", b"11")])
    with pytest.raises(HttpFault):
        read_within(asked)
    assert BODY not in asked.scope


@pytest.mark.parametrize("length", [b"9" * 40, b"0" * 30 + b"11"])
def test_no_length_is_too_long_to_be_understood(length):
    with pytest.raises(HttpFault):
        read_within(request(b"x" * 11, headers=[(b"content-length", length)]))


def test_a_client_that_goes_away_is_not_answered():
    with pytest.raises(ClientDisconnect):
        read_within(request(b"x", gone=True))
    with pytest.raises(ClientDisconnect):
        read_within(request(gone=True))


def counted(text, size):
    values = JsonValueCounter(10**9)
    for start in range(0, len(text), size):
        values.feed(text[start : start + size])
    return values.count


def values_in(value):
    inside = value if type(value) is list else value.values() if type(value) is dict else ()
    return 1 + sum(map(values_in, inside))


@given(JSON, st.integers(1, 9), st.sampled_from([None, 0, 2]))
def test_the_count_is_exact_however_the_text_is_written_and_cut(value, size, indent):
    text = json.dumps(value, indent=indent).encode()
    assert counted(text, size) == counted(text, 10**9) == values_in(value)


def test_one_value_too_many_is_a_413_as_soon_as_it_has_come():
    values = JsonValueCounter(100)
    values.feed(b"[" + b"1," * 98)
    with pytest.raises(HttpFault) as caught:
        values.feed(b"1,1")
    assert (caught.value.status, caught.value.code) == (413, "request.too_large")
    assert caught.value.details == {"max_values": 100}


def test_a_body_of_too_many_values_is_refused_before_all_of_it_is_there():
    with served(max_values=1000) as yard:
        head = b"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        begun = b'{"args": {"text": [' + b"1," * 100_000
        answer = yard.raw(head + b"Content-Length: %d\r\n\r\n" % (len(begun) + 1_000_000) + begun)
        assert (answer.status, answer.error["code"]) == (413, "request.too_large")
        assert answer.error["details"] == {"max_values": 1000}


def test_commas_and_brackets_in_a_text_are_no_values():
    with served(max_values=1000) as yard:
        text = ',[{"\\' * 20_000
        answer = yard.invoke("echo", {"text": text})
        assert answer.status == 200 and text in answer.json["result"].values()
