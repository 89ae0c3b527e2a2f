"""Whose name a request came to, and from whose page."""

import pytest
from service_support import served

from toolyard.serving.faults import HttpFault
from toolyard.serving.guard import Guard, is_loopback
from toolyard.serving.request import Request


@pytest.fixture(scope="module")
def yard():
    with served(allowed_hosts=("tools.example",), allowed_origins=("https://app.example",), page=True) as server:
        yield server


def check(guard, *headers, method="GET", scheme="http"):
    guard.check(Request({"method": method, "path": "/", "headers": list(headers), "scheme": scheme}, None))


def refused(guard, *headers, **options):
    with pytest.raises(HttpFault) as caught:
        check(guard, *headers, **options)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:8000"])
def test_loopback_names_are_answered_at_any_port(host):
    check(Guard("127.0.0.1"), (b"host", host.encode()))


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", ":80", "[::1].evil.example"),
        *("localhost evil", "evil.example:127.0.0.1", "[::2]", "127.0.0.2", "[::1", "localhost@evil.example"),
    ],
)
def test_other_names_are_not(host):
    assert refused(Guard("127.0.0.1"), (b"host", host.encode())) == (421, "request.host_not_allowed")


def test_names_of_the_config_are_answered_too():
    guard = Guard("127.0.0.1", ["Tools.Example"])
    check(guard, (b"host", b"tools.example:443"))
    assert refused(guard, (b"host", b"x.tools.example"))[0] == 421


def test_a_server_at_every_address_answers_to_addresses_and_not_to_names():
    guard = Guard("0.0.0.0")
    check(guard, (b"host", b"192.0.2.7:8000"))
    check(guard, (b"host", b"[2001:db8::1]:8000"))
    assert refused(guard, (b"host", b"rebound.example"))[0] == 421


def test_a_request_needs_a_host():
    assert refused(Guard("127.0.0.1")) == (400, "request.invalid_http")


@pytest.mark.parametrize("name", [b"host", b"content-length", b"content-type", b"authorization", b"origin"])
def test_headers_that_decide_something_may_be_there_once(name):
    headers = [(b"host", b"localhost"), (name, b"localhost"), (name, b"localhost")]
    assert refused(Guard("127.0.0.1"), *headers) == (400, "request.invalid_http")


def test_other_headers_may_be_repeated():
    check(Guard("127.0.0.1"), (b"host", b"localhost"), (b"accept", b"a"), (b"accept", b"b"))


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "https://localhost:8000", "http://localhost", "http://localhost:8000.evil"),
        *("", "http://127.0.0.1:8000", "file://"),
    ],
)
def test_foreign_pages_are_refused_whatever_they_ask(origin):
    headers = [(b"host", b"localhost:8000"), (b"origin", origin.encode())]
    for method in ("GET", "POST"):
        assert refused(Guard("127.0.0.1"), *headers, method=method) == (403, "request.origin_not_allowed")


def test_pages_of_the_server_itself_and_of_allowed_origins_are_not_foreign():
    guard = Guard("127.0.0.1", (), ["https://App.example/"])
    check(guard, (b"host", b"localhost:8000"), (b"origin", b"http://localhost:8000"), method="POST")
    check(guard, (b"host", b"localhost:8000"), (b"origin", b"https://app.example"), method="POST")


def test_a_browser_that_says_the_request_crosses_sites_is_believed():
    headers = [(b"host", b"localhost"), (b"sec-fetch-site", b"cross-site")]
    assert refused(Guard("127.0.0.1"), *headers, method="POST")[0] == 403
    check(Guard("127.0.0.1"), (b"host", b"localhost"), (b"sec-fetch-site", b"same-origin"), method="POST")


@pytest.mark.parametrize(
    "path", ["/v1/tools", "/arp/v1/tools", "/v1/health", "/openapi.json", "/", "/nowhere", "/v1/sessions"]
)
def test_host_and_origin_are_checked_on_every_route(yard, path):
    wrong = yard.get(path, headers={"host": "evil.example"})
    assert wrong.status == 421 and wrong.headers["x-request-id"]
    foreign = yard.get(path, headers={"origin": "http://evil.example"})
    assert (foreign.status, foreign.error["code"]) == (403, "request.origin_not_allowed")
    assert "access-control-allow-origin" not in foreign.headers


def test_an_allowed_origin_may_read_answers_and_ask_before_it_sends(yard):
    page = {"origin": "https://app.example"}
    answer = yard.get("/v1/tools", headers=page)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in yard.get("/v1/tools").headers
    asked = yard.ask("OPTIONS", "/v1/tools/echo:invoke", headers={**page, "access-control-request-method": "POST"})
    assert asked.status == 204 and "POST" in asked.headers["access-control-allow-methods"]
    foreign = yard.ask("OPTIONS", "/v1/tools", headers={"origin": "https://evil.example"})
    assert foreign.status == 403


def test_a_simple_cross_site_form_runs_nothing(yard):
    body = b'{"args": {"text": "x"}}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None, "application/jsonx"):
        answer = yard.post("/v1/tools/echo:invoke", body, headers={"content-type": kind})
        assert (answer.status, answer.error["code"]) == (415, "request.unsupported_media_type")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "LocalHost"])
def test_loopback_is_known_as_such(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org", ""])
def test_what_others_can_reach_is_not_loopback(host):
    assert not is_loopback(host)
