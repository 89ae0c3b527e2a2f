"""The one way every request takes."""

import json
import socket
import threading

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient
from waiting import SOON, Hung, until

from serving.service_support import desk_tools, served
from serving.wire_support import running
from toolyard import PythonToolEngine, Tool, ToolRegistry, Toolyard, function_tool
from toolyard.app.blocks import ServerBlock
from toolyard.model.errors import ConfigError, SessionBusyError, SessionError
from toolyard.serving import asgi


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools(), page=True) as server:
        yield server


def test_every_answer_has_a_length_a_type_and_an_id(yard):
    for method, path in [("GET", "/v1/tools"), ("GET", "/nowhere"), ("POST", "/v1/tools"), ("GET", "/arp/v1/health")]:
        answer = yard.ask(method, path)
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert answer.headers["x-request-id"]


def test_an_answer_without_a_body_has_neither_length_nor_type(yard):
    answer = yard.ask("DELETE", "/v1/sessions/none")
    assert answer.status == 204
    assert "content-length" not in answer.headers and "content-type" not in answer.headers


def test_an_unexpected_failure_is_a_500_that_says_nothing_but_where_the_log_has_it(yard, monkeypatch, caplog):
    def burst(self):
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(type(yard.service.names), "now", property(burst))
    answer = yard.get("/v1/tools/echo", headers={"x-request-id": "find-me"})
    assert (answer.status, answer.error["code"]) == (500, "server.error")
    assert "find-me" in answer.error["message"] and b"secret" not in answer.body
    monkeypatch.undo()
    assert yard.get("/v1/tools/echo").status == 200


@pytest.mark.parametrize(
    ("error", "status", "code", "retryable"),
    [
        (SessionBusyError("still running"), 409, "session.busy", True),
        (SessionError("the store does not answer"), 503, "session.unavailable", False),
    ],
)
def test_errors_of_sessions_have_their_own_answers(yard, monkeypatch, error, status, code, retryable):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(yard.service.yard.tool_engine.sessions, "state_hash", fail)
    answer = yard.get("/v1/sessions/any")
    assert (answer.status, answer.error["code"], answer.error["retryable"]) == (status, code, retryable)


def test_a_busy_session_is_a_409_that_may_be_tried_again():
    hung = Hung()
    with served(tools=[function_tool(hung.__call__, namespace="desk", name="hang")], call_timeout=0.2) as yard:
        yard.post("/v1/sessions", {"session_id": "s"})
        calls = {"calls": [{"name": "desk::hang"}]}
        [late] = yard.post("/v1/sessions/s/execute", calls).json["results"]
        assert late["error_info"]["code"] == "tool.timeout"
        busy = yard.post("/v1/sessions/s/execute", calls)
        hung.end.set()
        assert (busy.status, busy.error["code"], busy.error["retryable"]) == (409, "session.busy", True)


def test_more_than_can_run_and_wait_is_a_429_at_once():
    hung = Hung()
    tools = [function_tool(hung.__call__, namespace="desk", name="hang")]
    with served(tools=tools, max_requests=1, max_waiting=1) as yard:
        answers = []
        work = [threading.Thread(target=lambda: answers.append(yard.invoke("desk::hang", {}).status)) for _ in range(2)]
        work[0].start()
        assert hung.began.wait(SOON)
        work[1].start()
        until(lambda: yard.service.admission.waiting == 1)
        refused = yard.invoke("desk::hang", {})
        assert (refused.status, refused.error["code"]) == (429, "server.overloaded")
        assert refused.headers["retry-after"] and refused.error["retryable"] is True
        assert yard.get("/v1/tools").status == 200, "what runs no tool is still answered"
        hung.end.set()
        for thread in work:
            thread.join(SOON)
        assert answers == [200, 200]


def test_clients_that_disconnect_mid_request_do_not_affect_others(yard):
    import socket

    for data in (b"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{", b"GET", b""):
        with socket.create_connection(("127.0.0.1", yard.port)) as line:
            line.sendall(data)
    assert yard.invoke("echo", {"text": "still here"}).status == 200


def test_many_requests_go_over_one_connection(yard):
    import http.client

    line = http.client.HTTPConnection("127.0.0.1", yard.port, timeout=SOON)
    for number in range(5):
        body = json.dumps({"args": {"text": str(number)}})
        line.request("POST", "/v1/tools/echo:invoke", body, {"content-type": "application/json"})
        assert json.loads(line.getresponse().read())["result"] == {"text": str(number)}
        line.request("GET", f"/nowhere/{number}")
        assert line.getresponse().read()
    line.close()


def test_the_body_of_a_refused_request_is_not_taken_for_the_next_one(yard):
    smuggled = b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    first = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(smuggled), smuggled)
    last = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    import socket

    with socket.create_connection(("127.0.0.1", yard.port), timeout=SOON) as line:
        line.sendall(first + last)
        data = b""
        while chunk := line.recv(65536):
            data += chunk
    assert data.count(b"HTTP/1.1 ") == 2 and b"service_version" not in data


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Content-Length: +5",
        b"Content-Length: 5 5",
        b"Content-Length : 5",
        b"Transfer-Encoding: xchunked",
    ],
)
def test_a_request_framed_in_two_ways_is_refused_and_the_connection_ends(yard, headers):
    data = b"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = yard.raw(data + headers + b"\r\n\r\n0\r\n\r\n")
    assert answer.status == 400 and answer.error["code"].startswith("request.")


def test_pages_answer_refusals_as_pages_and_the_api_as_json(yard):
    page = yard.get("/console/tools/nope")
    assert page.status == 404 and page.headers["content-type"].startswith("text/html")
    assert (
        yard.post(
            "/console/tools/echo", b"text=x", headers={"content-type": "application/x-www-form-urlencoded"}
        ).status
        == 403
    )


def test_a_lifespan_that_cannot_start_says_why(monkeypatch):
    import asyncio

    from toolyard.serving.app import create_app

    with served() as yard:

        async def start():
            raise SessionError("no store")

        monkeypatch.setattr(yard.service.loaded, "start", start)
        sent = []

        async def receive():
            return {"type": "lifespan.startup"}

        async def send(message):
            sent.append(message)

        with pytest.raises(SessionError):
            asyncio.run(create_app(yard.service)({"type": "lifespan"}, receive, send))
    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "no store" in sent[0]["message"]


def test_it_can_be_mounted_in_another_application_and_has_its_middleware():
    from starlette.applications import Starlette
    from starlette.routing import Mount

    registry = ToolRegistry(desk_tools())
    seen = []

    class Counting:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            seen.append(scope["type"])
            await self.app(scope, receive, send)

    with Toolyard(registry, PythonToolEngine(registry)) as yard:
        app = asgi(yard)
        app.add_middleware(Counting)
        mine = Starlette(routes=[Mount("/yard", app)], lifespan=app.router.lifespan_context)
        with running(mine) as server:
            head = b"POST /yard/v1/tools/desk::add:invoke HTTP/1.1\r\nHost: localhost\r\n"
            body = b'{"args": {"a": 1, "b": 2}}'
            kind = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            answer = server.ask(head + kind + body)
            assert (answer.status, json.loads(answer.body)["result"]) == (200, {"result": 3})
            assert (
                server.ask(b"GET /yard/nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").error["code"] == "route.not_found"
            )
            wrong = server.ask(b"GET /yard/v1/tools HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert wrong.status == 421
    assert seen.count("http") == 3


def test_a_mounted_yard_is_served_as_its_config_says():
    config = {"tools": [{"type": "domains", "domains": ["core"]}], "server": {"log": "off", "page": False}}
    with Toolyard.from_config(config) as yard, running(asgi(yard)) as server:
        assert server.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 404
    with Toolyard.from_config(config) as yard, running(asgi(yard, ServerBlock())) as server:
        assert server.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status != 404


@pytest.mark.parametrize("with_lifespan", [True, False])
def test_a_mounted_yard_whose_lifespan_is_left_out_says_so_once(caplog, with_lifespan):
    with Toolyard.from_config({"tools": [{"type": "domains", "domains": ["core"]}]}) as yard:
        inner = asgi(yard)
        outer = Starlette(routes=[Mount("/tools", inner)])
        if with_lifespan:
            outer = Starlette(routes=outer.routes, lifespan=inner.router.lifespan_context)
        with TestClient(outer, "http://localhost") as client:
            assert [client.get("/tools/livez").status_code for _ in range(2)] == [200, 200]
    assert sum("lifespan" in message for message in caplog.messages) == (not with_lifespan)


def test_what_is_no_yard_cannot_be_served():
    with pytest.raises(ConfigError, match="yard: must be a Toolyard, not str"):
        asgi("yard.yaml")


@pytest.mark.parametrize(("args", "code"), [({"text": "x"}, None), ({}, "tool.invalid_args")])
def test_the_log_has_the_error_code_of_a_call_that_failed(capsys, args, code):
    with served(log="text") as yard:
        yard.invoke("core::echo", args)
    [line] = [line for line in capsys.readouterr().err.splitlines() if "tool=core::echo" in line]
    assert line.partition("tool=core::echo")[2] == ("" if code is None else f" code={code}")


def test_a_refusal_reaches_a_client_that_is_still_sending(yard):
    import socket

    size = 30_000_000
    with socket.create_connection(("127.0.0.1", yard.port), timeout=SOON) as line:
        head = "POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        line.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
        for _ in range(size // 1_000_000):
            line.sendall(b"x" * 1_000_000)
        said = b""
        while chunk := line.recv(65536):
            said += chunk
    assert said.startswith(b"HTTP/1.1 413 ") and b"request.too_large" in said


BEGUN = []


LET_GO = threading.Event()


def stuck(n: int) -> int:
    """Takes longer than anybody waits."""
    BEGUN.append(n)
    LET_GO.wait(SOON)
    return n


@pytest.fixture
def hanging():
    LET_GO.clear()
    BEGUN.clear()
    yield function_tool(stuck, namespace="w")
    LET_GO.set()


def test_a_slow_body_takes_no_place(hanging):
    with served(tools=[hanging], max_requests=1, max_waiting=1) as server:
        lines = []
        for _ in range(5):
            line = socket.create_connection(("127.0.0.1", server.port), timeout=SOON)
            line.sendall(
                b"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 30\r\n\r\n{"
            )
            lines.append(line)
        assert server.invoke("echo", {"text": "hi"}).status == 200
        for line in lines:
            line.close()


def test_calls_that_go_on_past_their_deadlines_keep_their_places_once_as_many_have_stepped_aside(hanging):
    with served(tools=[hanging], max_requests=2, max_waiting=1) as server:
        body = {"calls": [{"name": "w::stuck", "arguments": {"n": 1}}], "timeout": 0.05}
        for _ in range(100):
            if server.service.admission.running == 2:
                break
            # One whose deadline passes before its thread has begun leaves nothing behind.
            [result] = server.post("/v1/calls", body).json["results"]
            assert result["error_info"]["code"] == "tool.timeout"
        admission = server.service.admission
        assert (admission.running, admission.aside) == (2, 2), "four threads are busy, whatever their callers were told"
        assert until(lambda: len(BEGUN) == 4)
        LET_GO.set()
        until(lambda: admission.running == admission.aside == 0)
        assert server.invoke("echo", {"text": "hi"}).status == 200


def many(number):
    return [Tool(f"tool{place}", "big", f"Does the thing number {place}") for place in range(number)]


def test_reading_what_costs_much_has_places_of_its_own(hanging):
    with served(tools=[hanging, *many(20)], max_requests=1, max_waiting=1) as server:
        thread = threading.Thread(target=lambda: server.invoke("w::stuck", {"n": 1}))
        thread.start()
        until(lambda: BEGUN)
        assert len(server.get("/v1/tools?q=thing&namespace=big").json["tools"]) == 20
        LET_GO.set()
        thread.join(SOON)


def test_what_a_route_of_ones_own_refuses_is_refused_as_it_says(tmp_path):
    async def refuse(request):
        raise HTTPException(418, "no coffee", {"x-pot": "tea"})

    with Toolyard.from_config({"tools": []}) as yard:
        app = asgi(yard)
        app.router.routes += [
            Route("/own", refuse, methods=["GET"]),
            Mount("/files", StaticFiles(directory=tmp_path)),
            Mount("/inner", routes=[Route("/there", refuse)]),
        ]
        with running(app) as server:

            def ask(method, path):
                return server.ask(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

            answer = ask("GET", "/own")
            assert (answer.status, answer.body, answer.headers[b"x-pot"]) == (418, b"no coffee", b"tea")
            assert ask("DELETE", "/own").status == 405
            assert ask("GET", "/files/none.txt").status == ask("GET", "/inner/none").status == 404
