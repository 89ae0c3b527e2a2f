"""Whose name a request came to, and from whose page."""

import gc
import json
import socket
from collections import Counter

import pytest
from waiting import SOON

from serving.service_support import CORE, RAN, served
from serving.wire_support import read_answer
from toolyard.model.errors import ConfigError
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Caller, KeyLimits
from toolyard.serving.middleware import HostGuard, is_loopback
from toolyard.sessions.store.group_commit import StoreFailing


@pytest.fixture(scope="module")
def yard():
    with served(allowed_hosts=("tools.example",), allowed_origins=("https://app.example",), page=True) as server:
        yield server


def check(guard, *headers, method="GET", scheme="http"):
    guard.admit({"method": method, "headers": list(headers), "scheme": scheme}, Caller(headers=dict(headers)))


def refused(guard, *headers, **options):
    with pytest.raises(HttpFault) as caught:
        check(guard, *headers, **options)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:8000"])
def test_loopback_names_are_answered_at_any_port(host):
    check(HostGuard("127.0.0.1"), (b"host", host.encode()))


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", ":80", "[::1].evil.example"),
        *("localhost evil", "evil.example:127.0.0.1", "[::2]", "127.0.0.2", "[::1", "localhost@evil.example"),
    ],
)
def test_other_host_names_are_refused(host):
    assert refused(HostGuard("127.0.0.1"), (b"host", host.encode())) == (421, "request.host_not_allowed")


def test_names_of_the_config_are_answered_too():
    guard = HostGuard("127.0.0.1", ["Tools.Example"])
    check(guard, (b"host", b"tools.example:443"))
    assert refused(guard, (b"host", b"x.tools.example"))[0] == 421


def test_a_server_at_every_address_answers_to_addresses_and_not_to_names():
    guard = HostGuard("0.0.0.0")
    check(guard, (b"host", b"192.0.2.7:8000"))
    check(guard, (b"host", b"[2001:db8::1]:8000"))
    assert refused(guard, (b"host", b"rebound.example"))[0] == 421


def test_a_request_needs_a_host():
    assert refused(HostGuard("127.0.0.1")) == (400, "request.invalid_http")


@pytest.mark.parametrize("name", [b"host", b"content-length", b"content-type", b"authorization", b"origin"])
def test_headers_that_decide_something_may_be_there_once(name):
    headers = [(b"host", b"localhost"), (name, b"localhost"), (name, b"localhost")]
    assert refused(HostGuard("127.0.0.1"), *headers) == (400, "request.invalid_http")


def test_other_headers_may_be_repeated():
    check(HostGuard("127.0.0.1"), (b"host", b"localhost"), (b"accept", b"a"), (b"accept", b"b"))


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
        assert refused(HostGuard("127.0.0.1"), *headers, method=method) == (403, "request.origin_not_allowed")


def test_pages_of_the_server_itself_and_of_allowed_origins_are_not_foreign():
    guard = HostGuard("127.0.0.1", (), ["https://App.example/"])
    check(guard, (b"host", b"localhost:8000"), (b"origin", b"http://localhost:8000"), method="POST")
    check(guard, (b"host", b"localhost:8000"), (b"origin", b"https://app.example"), method="POST")


PROXIED = {"host": "tools.example", "origin": "https://tools.example"}


@pytest.fixture(scope="module")
def proxied():
    with served(public_url="https://tools.example:443/yard/", page=True) as server:
        yield server


def test_a_page_of_public_url_is_a_page_of_the_server_though_tls_ends_at_a_proxy(proxied):
    page = proxied.get("/console/tools", headers=PROXIED)
    assert page.status == 200 and "access-control-allow-origin" not in page.headers
    for wrong in ({"origin": "http://tools.example"}, {"host": "evil.example"}, {"host": "tools.example:444"}):
        assert proxied.get("/console/tools", headers={**PROXIED, **wrong}).status in (403, 421)


@pytest.mark.parametrize("url", ["https://[::1/", "https://tools.example:x", "https://a\u2100b"])
def test_a_public_url_without_a_valid_host_is_told_of_in_words(url):
    with pytest.raises(ConfigError, match=r"server.public_url: .* no valid host"):
        HostGuard("127.0.0.1", public_url=url)


@pytest.mark.parametrize("prefix", ["", "/yard"])
def test_links_have_the_path_of_public_url_whether_or_not_the_proxy_cuts_it_off(proxied, prefix):
    assert proxied.get(f"{prefix}/", headers=PROXIED).headers["location"] == "/yard/console/tools"
    assert 'href="/yard/console/static/' in proxied.get(f"{prefix}/console/tools", headers=PROXIED).body.decode()
    assert proxied.get("/", headers={"host": "localhost"}).headers["location"] == "/console/tools"


def test_a_browser_that_says_the_request_crosses_sites_is_believed():
    headers = [(b"host", b"localhost"), (b"sec-fetch-site", b"cross-site")]
    assert refused(HostGuard("127.0.0.1"), *headers, method="POST")[0] == 403
    check(HostGuard("127.0.0.1"), (b"host", b"localhost"), (b"sec-fetch-site", b"same-origin"), method="POST")


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


def test_no_page_of_somebody_elses_can_have_a_tool_run(yard):
    body = json.dumps({"args": {"word": "14"}}).encode()
    path = "/v1/tools/desk::count:invoke"
    for headers, status in [
        ({"content-type": "text/plain"}, 415),
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example", "content-type": "text/plain", "host": "evil.example"}, 421),
    ]:
        assert yard.post(path, body, headers=headers).status == status
    assert "14" not in RAN


def test_a_request_id_with_control_characters_or_without_end_is_not_said_back(yard):
    for name in (b"a\x0bb", b"x" * 10_000, b"a b=c", b"\x7f"):
        answer = yard.raw(b"GET /arp/v1/health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + name + b"\r\n\r\n")
        said = answer.headers["x-request-id"]
        assert said.encode() != name and len(said) <= 128 and said.isprintable() and " " not in said


def test_a_store_that_fails_is_the_operators_matter(tmp_path, monkeypatch):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as server:
        store = server.service.yard.tool_engine.sessions.store

        def failing(*_):
            raise StoreFailing(f"{tmp_path}/s.db: disk I/O error")

        monkeypatch.setattr(store, "sessions", failing)
        answer = server.get("/v1/sessions")
        assert (answer.status, answer.error["code"], answer.error["retryable"]) == (503, "session.unavailable", True)
        assert str(tmp_path) not in answer.body.decode()


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


def ask(port, token, count, close=False):
    head = f"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 24\r\n" + ("Connection: close\r\n" if close else "")
    with socket.create_connection(("127.0.0.1", port), SOON) as line:
        for _ in range(count):
            line.sendall(head.encode() + b'\r\n{"args": {"text": "hi"}}')
            yield read_answer(line).status


@pytest.fixture
def collector():
    """Keeps what it finds, and looks only when told to."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield lambda: Counter(type(each).__name__ for each in (gc.collect(), gc.garbage)[1])
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("burst", [1, 100])
def test_no_request_and_no_refusal_is_left_to_the_collector(tmp_path, collector, burst):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as yard:
        token = yard.key("*:*", limits=KeyLimits(rate=0.001, burst=burst))
        first = list(ask(yard.port, token, 2))
        assert first == ([200, 429] if burst == 1 else [200, 200])
        collector()
        gc.garbage.clear()
        for _ in range(5):
            assert set(ask(yard.port, token, 1, close=True)) == {first[1]}
        found = collector()
        assert not {"DeadlineProtocol", "Request", "RequestResponseCycle", "HttpFault", "traceback", "frame"} & set(
            found
        ), found
