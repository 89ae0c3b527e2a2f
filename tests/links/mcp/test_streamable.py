"""Streamable HTTP: what goes over the wire, and servers that misbehave, each without harm to other calls."""

import base64
import itertools
import json
import ssl
import threading
from contextlib import asynccontextmanager

import pytest
from waiting import SOON, until

from links.fake_server import respond, send_raw
from links.mcp.conftest import SECRET, free_port, in_seconds, text_of
from links.mcp.web_server import (
    WebServer,
    event,
    hang_up_hard,
    reply_event,
    respond_result,
    respond_rpc_error,
    result,
    stream,
    text,
    until_closed,
)
from toolyard.links.mcp.errors import RequestRefused
from toolyard.links.mcp.web import Web
from toolyard.model.bindings import McpServer
from toolyard.model.call import LogLine
from toolyard.model.errors import CallTimeout, ConfigError, ToolFailed, Unavailable


@pytest.fixture(params=[True, False], ids=["modern", "legacy"])
def web(request):
    with WebServer(request.param) as server:
        yield server


@pytest.fixture
def modern():
    with WebServer() as server:
        yield server


@pytest.fixture
def legacy():
    with WebServer(modern=False) as server:
        yield server


def server_at(web, **options):
    return McpServer(name="web", url=f"{web.url}/mcp", **options)


def works(link):
    return text_of(link.call("echo", {"text": "on"})) == "on"


def test_modern_requests_say_in_headers_and_envelope_what_they_are(modern, links):
    links(server_at(modern)).call("echo", {"text": "a"})
    request = modern.requests[-1]
    assert request.headers["mcp-protocol-version"] == "2026-07-28"
    assert (request.headers["mcp-method"], request.headers["mcp-name"]) == ("tools/call", "echo")
    assert request.headers["accept"] == "application/json, text/event-stream"
    meta = request.json["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "toolyard"
    assert not [request for request in modern.requests if request.method in ("GET", "DELETE")]


def test_mirrored_arguments_are_repeated_in_headers(modern, links):
    arguments = {"a": "plain", "b": {"c": "ünï"}, "n": 5, "f": True, "e": " edge", "s": "=?base64?YQ==?=", "none": None}
    mirrored = [("a", "A"), ("b.c", "C"), ("n", "N"), ("f", "F"), ("e", "E"), ("s", "S"), ("none", "X"), ("q.r", "Y")]
    links(server_at(modern)).call("echo", arguments, mirrored=[*mirrored, ("a", "bad name")])
    headers = {k: v for k, v in modern.requests[-1].headers.items() if k.startswith("mcp-param-")}
    coded = {key: f"=?base64?{base64.b64encode(value.encode()).decode()}?=" for key, value in
             {"c": "ünï", "e": " edge", "s": "=?base64?YQ==?="}.items()}  # fmt: skip
    expected = {"a": "plain", "n": "5", "f": "true", **coded}
    assert headers == {f"mcp-param-{name}": value for name, value in expected.items()}


def test_legacy_requests_carry_session_and_version_and_the_session_is_ended(legacy, links):
    link = links(server_at(legacy))
    link.call("echo", {})
    assert [m["method"] for m in legacy.sent] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    first, *others = (r for r in legacy.requests if r.json.get("method") != "server/discover")
    assert "mcp-session-id" not in first.headers and "mcp-protocol-version" not in first.headers
    for request in others:
        assert request.headers["mcp-session-id"] == "s-1"
        assert request.headers["mcp-protocol-version"] == "2025-11-25"
    link.close()
    assert legacy.requests[-1].method == "DELETE"


def test_answers_may_come_as_a_stream(web, links):
    web.calls["s"] = stream(b": hello\n\n", reply_event(text("streamed")))
    link = links(server_at(web))
    assert text_of(link.call("s", {})) == "streamed"
    assert works(link)


def test_log_lines_on_the_stream_of_a_call_belong_to_it(web, links):
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "odd", "data": {"k": SECRET}}}
    web.calls["s"] = stream(event(note), reply_event(text("x")))
    link = links(server_at(web, headers=(("x-key", SECRET),)))
    seen = []
    link.call("s", {}, notify=seen.append)
    assert seen == [LogLine({"k": "[redacted]"}, "info")]


def test_an_answer_for_another_request_is_not_taken(web, links):
    link = links(server_at(web))
    web.calls["other"] = respond(200, {"jsonrpc": "2.0", "id": 999, "result": text("x")})
    with pytest.raises(ToolFailed, match="answered another request"):
        link.call("other", {})
    other = event({"jsonrpc": "2.0", "id": 999, "result": text("x")})
    web.calls["stream"] = stream(other, reply_event(text("mine")))
    assert text_of(link.call("stream", {})) == "mine"


@pytest.mark.parametrize("status", [401, 403, 404, 421, 500, 502])
def test_statuses_are_told_in_our_words_and_hurt_only_their_call(modern, links, status):
    link = links(server_at(modern, headers=(("authorization", f"Bearer {SECRET}"),)))
    link.list_tools()
    challenge = f"WWW-Authenticate: Bearer realm={SECRET}"
    modern.calls["bad"] = respond(status, f"{SECRET}".encode(), challenge, kind="text/plain")
    with pytest.raises((ToolFailed, Unavailable), match=f"web answered {status}") as caught:
        link.call("bad", {})
    info = caught.value.info
    assert info.details["status"] == status
    assert info.effect == ("unknown" if status >= 500 else "none")
    assert SECRET not in repr(info)
    assert works(link) and link.state == "up"


def test_a_server_with_prompts_or_resources_alone_has_no_tools_unless_it_says_so(legacy, modern, links):
    for server in (legacy, modern):
        server.methods["tools/list"] = respond_rpc_error(-32601, "Method not found")
    listing = links(server_at(legacy)).list_tools()
    assert (listing.tools, listing.complete) == ([], True)
    assert "has no tools" in listing.notes[0]
    with pytest.raises(RequestRefused, match="Method not found"):
        links(server_at(modern)).list_tools()


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (respond(401), ""),
        (respond(401, b"Unauthorized", kind="text/plain"), ""),
        (respond(401, b"token\nexpired\n", kind="text/plain; charset=utf-8"), ": token expired"),
        (respond(401, {"error": "invalid_token"}), ": invalid_token"),
        (respond(401, b"<html>", kind="text/html"), ""),
    ],
)
def test_a_refused_address_says_its_status_and_the_servers_reason(links, refusal, said):
    with WebServer() as server:
        server.otherwise = lambda request: refusal
        with pytest.raises(ToolFailed) as caught:
            links(server_at(server)).list_tools()
    assert caught.value.info.message == f"web answered 401 Unauthorized{said}"
    assert "auth" in caught.value.info.hint


@pytest.mark.parametrize("body", [b"busy", {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "busy"}}])
def test_a_busy_server_is_unavailable_for_as_long_as_it_says(links, web, body):
    kind = "text/plain" if isinstance(body, bytes) else "application/json"
    web.calls["echo"] = respond(429, body, "Retry-After: 3", kind=kind)
    with pytest.raises(Unavailable, match="429 Too Many Requests: busy") as caught:
        links(server_at(web)).call("echo", {})
    assert (caught.value.info.retry_after, caught.value.info.retryable) == (3.0, True)


def test_a_redirect_to_another_origin_says_where(links):
    with WebServer() as server:
        server.otherwise = lambda request: respond(308, b"", "Location: https://elsewhere.example/mcp?key=1")
        with pytest.raises(ToolFailed, match="308 Permanent Redirect: to https://elsewhere.example/mcp$") as caught:
            links(server_at(server, transport="http")).list_tools()
    assert "url" in caught.value.info.hint


@pytest.mark.parametrize(
    ("act", "match"),
    [
        (hang_up_hard, "lost the connection|ends before"),
        (send_raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"), "ends before"),
        (send_raw(b"this is no http\r\n\r\n"), "does not answer in HTTP"),
        (respond(200, b"{nonsense"), "no JSON-RPC message"),
        (
            respond(200, b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
            "no JSON-RPC message",
        ),
        (respond(200, b"<html>", kind="text/html"), "'text/html', which is no MCP"),
        (respond(202), "gave no answer"),
        (respond(204), "answered 204"),
        (stream(event("{nonsense")), "ended before the answer"),
        (stream(b": nothing\n\n"), "ended before the answer"),
        (stream(b"data: {\n", end=False), "ends before"),
    ],
    ids=["reset", "short", "no http", "no json", "nested", "html", "202", "204", "bad event", "no event", "cut"],
)
def test_bad_answers_fail_only_their_call(web, links, act, match):
    link = links(server_at(web))
    link.list_tools()
    web.calls["bad"] = act
    slow = threading.Event()

    def later(connection, request):
        slow.wait(SOON)
        respond_result(text("slow"))(connection, request)

    web.calls["slow"] = later
    found = []
    thread = threading.Thread(target=lambda: found.append(text_of(link.call("slow", {}))))
    thread.start()
    with pytest.raises((ToolFailed, Unavailable), match=match) as caught:
        link.call("bad", {}, deadline=in_seconds(10))
    assert caught.value.info.effect == "unknown"
    slow.set()
    thread.join()
    assert found == ["slow"]
    assert works(link) and link.state == "up"


@pytest.mark.parametrize("as_stream", [False, True])
def test_a_result_of_50_mb_fails_only_its_call(web, links, as_stream):
    size = 50 * 1024 * 1024

    def big(connection, request):
        head = "text/event-stream" if as_stream else "application/json"
        connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: {head}\r\ncontent-length: {size + 6}\r\n\r\n".encode())
        connection.sendall(b"data: " if as_stream else b"      ")
        for _ in range(50):
            connection.sendall(b"x" * 1024 * 1024)

    web.calls["big"] = big
    link = links(server_at(web))
    with pytest.raises(ToolFailed, match="larger than 16,777,216|ends before"):
        link.call("big", {}, deadline=in_seconds(30))
    assert works(link)


def test_hanging_up_is_how_a_modern_call_is_cancelled(modern, links):
    closed = threading.Event()
    modern.calls["slow"] = stream(b": wait\n\n", end=until_closed(closed))
    with pytest.raises(CallTimeout):
        links(server_at(modern)).call("slow", {}, deadline=in_seconds(0.5))
    assert closed.wait(SOON)
    assert "notifications/cancelled" not in [message["method"] for message in modern.sent]


def test_a_legacy_call_is_cancelled_by_a_notification(legacy, links):
    closed = threading.Event()
    legacy.calls["slow"] = stream(b": wait\n\n", end=until_closed(closed))
    link = links(server_at(legacy))
    with pytest.raises(CallTimeout):
        link.call("slow", {}, deadline=in_seconds(0.5))
    until(lambda: legacy.sent[-1]["method"] == "notifications/cancelled")
    called = next(message for message in legacy.sent if message["method"] == "tools/call")
    assert legacy.sent[-1]["params"]["requestId"] == called["id"]


@pytest.mark.parametrize(
    "refusals",
    [
        [respond_rpc_error(-32600, "Session not found", 404)],
        # These are asked once more, by a ping.
        [respond_rpc_error(-32000, "Bad Request: Server not initialized", 400)] * 2,
        [respond(400, b"Invalid session ID", kind="text/plain")] * 2,
    ],
    ids=["not found", "not initialized", "as text"],
)
def test_a_forgotten_session_is_begun_anew_and_the_call_made_again(legacy, links, refusals):
    link = links(server_at(legacy))
    link.list_tools()
    legacy.acts["POST", "/mcp"] = list(refusals)
    assert works(link)
    assert [message["method"] for message in legacy.sent].count("initialize") == 2


def test_a_server_that_forgets_every_session_is_not_asked_for_ever(legacy, links):
    link = links(server_at(legacy))
    legacy.methods["tools/call"] = respond_rpc_error(-32600, "Session not found", 404)
    with pytest.raises(Unavailable, match="forgets our session"):
        link.call("echo", {})


def test_a_stream_that_ends_before_the_answer_is_taken_up_where_it_was(legacy, links):
    legacy.calls["poll"] = stream(b"id: e1\nretry: 10\ndata:\n\n")

    def rest(connection, request):
        number = next(message["id"] for message in legacy.sent if message.get("method") == "tools/call")
        stream(event({"jsonrpc": "2.0", "id": number, "result": text("resumed")}, "e2"))(connection, request)

    legacy.acts["GET", "/mcp"] = [stream(b": nothing yet\n\n"), rest]
    link = links(server_at(legacy))
    assert text_of(link.call("poll", {}, deadline=in_seconds(10))) == "resumed"
    gets = legacy.asked("GET", "/mcp")
    assert [request.headers["last-event-id"] for request in gets] == ["e1", "e1"]


def test_a_stream_that_never_goes_on_ends_the_call_with_effect_unknown(legacy, links):
    legacy.calls["poll"] = stream(b"id: e1\nretry: 1\ndata:\n\n")
    legacy.get = stream(b": nothing\n\n")
    with pytest.raises(ToolFailed, match="ended before the answer") as caught:
        links(server_at(legacy)).call("poll", {}, deadline=in_seconds(20))
    assert caught.value.info.effect == "unknown"


def test_the_standing_stream_is_opened_again_and_brings_changes(legacy, links):
    changed = event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, "c1")
    closed = threading.Event()
    legacy.acts["GET", "/mcp"] = [stream(b"retry: 10\n\n", changed), stream(changed, end=until_closed(closed))]
    link = links(server_at(legacy))
    heard = []
    link.watch(heard.append)
    link.list_tools()
    until(lambda: heard.count("changed") == 2)
    assert legacy.asked("GET", "/mcp")[1].headers["last-event-id"] == "c1"
    link.close()
    assert closed.wait(SOON)


def test_a_session_outlives_one_refused_connection_of_its_standing_stream(legacy, links, monkeypatch):
    """A proxy that restarts refuses connections for a moment; the session and its state are still there."""
    closed, streams, real = threading.Event(), itertools.count(), Web.open

    @asynccontextmanager
    async def refuse_second_stream(web, method, *rest, **more):
        if method == "GET" and next(streams) == 1:
            raise Unavailable("nobody listens there", effect="none")
        async with real(web, method, *rest, **more) as answer:
            yield answer

    monkeypatch.setattr(Web, "open", refuse_second_stream)
    legacy.acts["GET", "/mcp"] = [stream(b"retry: 10\n\n"), stream(b": on\n\n", end=until_closed(closed))]
    link = links(server_at(legacy))
    heard = []
    link.watch(heard.append)
    link.list_tools()
    until(lambda: len(legacy.asked("GET", "/mcp")) == 2)
    assert "down" not in heard
    assert [message["method"] for message in legacy.sent].count("initialize") == 1


def test_a_server_without_a_standing_stream_is_not_asked_for_it_again(legacy, links):
    link = links(server_at(legacy))
    link.watch(lambda change: None)
    link.list_tools()
    until(lambda: legacy.asked("GET", "/mcp"))
    assert works(link)
    assert len(legacy.asked("GET", "/mcp")) == 1


def test_a_modern_subscription_brings_changes_and_is_renewed(modern, links):
    changed = event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    ack = event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}})
    modern.methods["subscriptions/listen"] = stream(ack, changed)
    link = links(server_at(modern))
    heard = []
    link.watch(heard.append)
    link.list_tools()
    until(lambda: heard.count("changed") >= 2)
    asked = next(message for message in modern.sent if message["method"] == "subscriptions/listen")
    assert asked["params"]["notifications"] == {"toolsListChanged": True}
    assert works(link)


def test_inputs_asked_for_without_end_are_an_error(modern, links):
    modern.calls["ask"] = respond_result({"resultType": "input_required", "requestState": "again"})
    with pytest.raises(ToolFailed, match="too many times"):
        links(server_at(modern), max_rounds=3).call("ask", {})
    assert len([message for message in modern.sent if message["method"] == "tools/call"]) == 4


def test_a_redirect_within_the_origin_is_followed_with_the_same_request(modern, links):
    modern.acts["POST", "/old"] = [respond(307, b"", "Location: /mcp")]
    link = links(McpServer(name="web", url=f"{modern.url}/old", transport="http"))
    assert works(link)
    assert len(modern.asked("POST", "/old")) == 1


def test_a_redirect_to_another_origin_is_not_followed(modern, links):
    with WebServer() as other:
        modern.otherwise = lambda request: respond(307, b"", f"Location: {other.url}/mcp")
        with pytest.raises(ToolFailed, match="answered 307"):
            links(server_at(modern, transport="http", headers=(("x-key", SECRET),))).list_tools()
        assert other.requests == []


def test_notifications_that_are_refused_are_read_again_once_a_call_succeeds(legacy, links, caplog):
    legacy.get, ends = respond(401), threading.Event()
    link = links(server_at(legacy, headers=(("x-key", SECRET),)))
    link.watch(lambda _: None)
    works(link)
    until(lambda: "refuses its notifications" in caplog.text)
    legacy.get = stream(b": nothing\n\n", end=lambda *_: ends.wait(SOON))
    refused = len(legacy.asked("GET", "/mcp"))
    assert works(link)
    until(lambda: works(link) and len(legacy.asked("GET", "/mcp")) > refused)
    ends.set()
    assert len([record for record in caplog.records if "refuses" in record.message]) == 1


def test_headers_and_credentials_go_with_every_request(web, links):
    auth = (("type", "basic"), ("user", "ann"), ("password", "pw"))
    links(server_at(web, headers=(("x-tenant", "t1"),), auth=auth)).call("echo", {})
    expected = "Basic " + base64.b64encode(b"ann:pw").decode()
    for request in web.requests:
        assert (request.headers["x-tenant"], request.headers["authorization"]) == ("t1", expected)


def test_a_token_that_was_refused_is_fetched_anew_once(modern, links):
    tokens = iter(["t1", "t2", "t3"])
    modern.otherwise = lambda request: (
        respond(200, {"access_token": next(tokens), "token_type": "Bearer", "expires_in": 3600})
        if request.path == "/token"
        else modern.choose(request) if request.headers["authorization"] == "Bearer t2" else respond(401)
    )  # fmt: skip
    fields = {"type": "oauth2", "token_url": f"{modern.url}/token", "client_id": "c", "client_secret": SECRET}
    assert works(links(server_at(modern, auth=tuple(fields.items()))))
    assert len(modern.asked("POST", "/token")) == 2


@pytest.mark.parametrize("auth", [(("type", "magic"),), (("type", "bearer"),)])
def test_wrong_auth_is_said_at_once(modern, links, auth):
    with pytest.raises(ConfigError, match="auth of web"):
        links(server_at(modern, auth=auth))


def test_an_address_where_nobody_listens_is_unavailable_and_told_once(links):
    link = links(McpServer(name="web", url=f"http://127.0.0.1:{free_port()}/mcp"))
    with pytest.raises(Unavailable, match="connection refused") as caught:
        link.call("echo", {})
    assert (caught.value.info.effect, caught.value.info.retryable) == ("none", True)
    assert link.state == "down" and "connection refused" in link.error


def test_a_server_that_takes_requests_and_never_answers_fails_within_the_time_to_connect(links):
    with WebServer() as server:
        server.otherwise = lambda request: until_closed(threading.Event())
        with pytest.raises(Unavailable, match="did not answer"):
            links(server_at(server), connect_seconds=1).list_tools(timeout=20)


def test_modern_answers_with_an_error_status_are_errors_of_the_protocol(modern, links):
    modern.calls["x"] = respond_rpc_error(-32020, "header mismatch", 400)
    with pytest.raises(ToolFailed, match=r"\(-32020\): header mismatch") as caught:
        links(server_at(modern)).call("x", {})
    assert caught.value.info.details == {"status": 400, "code": -32020}


def test_a_server_that_speaks_only_newer_protocols_is_said_so(modern, links):
    modern.methods["server/discover"] = respond_rpc_error(-32022, "no", 400, data={"supported": ["2031-01-01"]})
    with pytest.raises(Unavailable, match="speaks only protocol 2031-01-01"):
        links(server_at(modern)).list_tools()


def test_a_batch_of_messages_is_read(web, links):
    def batch(connection, request):
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}
        respond(200, json.dumps([note, result(request, text("batched"))]).encode())(connection, request)

    web.calls["b"] = batch
    assert text_of(links(server_at(web)).call("b", {})) == "batched"


@pytest.fixture
def tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    with WebServer(context=context) as server:
        yield server


def test_a_certificate_nobody_vouches_for_is_refused(tls, links):
    with pytest.raises(Unavailable, match="certificate is not trusted"):
        links(server_at(tls)).list_tools()
    assert tls.requests == []


def test_authorities_of_the_operator_are_trusted_and_verify_can_be_turned_off(tls, links, certificate):
    assert works(links(server_at(tls, ca=str(certificate[1]))))
    assert works(links(server_at(tls, verify=False)))
