"""What a review of the service found, and must not come back."""

import asyncio
import socket
import threading
import time

import pytest
from service_support import CORE, served
from waiting import SOON, until

from toolyard import Tool, function_tool
from toolyard.calls.request import CallRequest
from toolyard.model.call import ToolCall
from toolyard.model.errors import EnrichmentError
from toolyard.sessions.group_commit import StoreFailing

LET_GO = threading.Event()
BEGUN = []


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


def many(number):
    return [Tool(f"tool{place}", "big", f"Does the thing number {place}") for place in range(number)]


def test_a_search_takes_no_more_words_than_it_can_answer_quickly():
    with served(tools=many(50)) as server:
        refused = server.get("/v1/tools?q=" + "word+" * 200)
        assert (refused.status, refused.error["code"]) == (400, "request.invalid_query")
        found = server.get("/v1/tools?q=number&limit=2").json
        assert [tool["name"] for tool in found["tools"]] == ["tool0", "tool1"]


def test_a_batch_of_unknown_names_lets_others_run_in_between():
    with served(tools=many(3000)) as server:
        calls = [{"name": f"nobody{place}"} for place in range(60)]
        done = []
        thread = threading.Thread(target=lambda: done.append(server.post("/v1/calls", {"calls": calls})))
        thread.start()
        answered = 0
        while thread.is_alive():
            assert server.get("/v1/version").status == 200
            answered += 1
        assert answered > 2, "somebody else was answered while the batch was under way"
        assert {result["error_info"]["code"] for result in done[0].json["results"]} == {"tool.not_found"}


def test_a_body_that_dawdles_holds_no_place(hanging):
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


def test_large_bodies_that_arrive_at_once_are_bounded_together():
    with served(max_body_bytes=1_000_000) as server:
        server.service.room.most = 1_500_000
        head = (
            b"POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 900000\r\n\r\n"
        )
        first = socket.create_connection(("127.0.0.1", server.port), timeout=SOON)
        first.sendall(head + b" " * 890_000)
        until(lambda: server.service.room.taken > 800_000)
        refused = server.raw(head + b" " * 890_000)
        assert (refused.status, refused.error["code"]) == (429, "server.overloaded")
        first.close()
        until(lambda: server.service.room.taken == 0)
        assert server.invoke("echo", {"text": "x" * 900_000}).status == 200


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


def test_reading_what_costs_much_has_places_of_its_own(hanging):
    with served(tools=[hanging, *many(20)], max_requests=1, max_waiting=1) as server:
        thread = threading.Thread(target=lambda: server.invoke("w::stuck", {"n": 1}))
        thread.start()
        until(lambda: BEGUN)
        assert len(server.get("/v1/tools?q=thing").json["tools"]) == 20
        LET_GO.set()
        thread.join(SOON)


def test_what_goes_on_beside_the_requests_begins_again_after_a_fault(tmp_path, monkeypatch):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as server:
        registry = server.service.yard.tool_registry
        real = registry.refresh

        def failing(**options):
            monkeypatch.setattr(registry, "refresh", real)
            raise EnrichmentError("an enrichment failed")

        monkeypatch.setattr(registry, "refresh", failing)
        server.service.records.put("reload", "", "last", b"elsewhere")
        until(lambda: registry.refresh == real)
        server.service.records.put("tool", "", "far::away", b'{"description":"from another process"}')
        until(lambda: registry.get("far::away"))
        assert until(lambda: server.get("/v1/health").json["status"] == "ok")


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


def test_a_registration_says_which_engine_answers_only_where_one_does():
    with served() as server:
        made = server.ask("PUT", "/v1/tools/far::away", {"binding": {"type": "mcp", "server": "s", "tool_name": "t"}})
        assert made.status == 201 and "engine" not in made.json
        body = {"binding": {"type": "rest", "method": "GET", "path": "/", "base_url": "https://example.com"}}
        made = server.ask("PUT", "/v1/tools/web::get", body)
        assert made.status == 201 and made.json["engine"] == "rest"
        for address in ("http://user:pw@example.com", "http://exa mple.com", "http://example.com/?q=1"):
            body["binding"]["base_url"] = address
            refused = server.ask("PUT", "/v1/tools/web::other", body)
            assert refused.status == 400, address
            assert "pw" not in refused.body.decode()


async def test_calls_without_a_session_have_no_key_that_another_could_share():
    from toolyard import ToolEngine, ToolRegistry

    seen = []

    class Looking(ToolEngine):
        async def answer(self, invocation):
            seen.append(invocation.idempotency_key)

    with Looking(ToolRegistry([Tool("a", "x")])) as engine:
        await engine.arun(CallRequest(calls=[ToolCall("x::a", {}, "call_0")]))
        engine.setup("s")
        await engine.arun(CallRequest(calls=[ToolCall("x::a", {}, "call_0")], session_id="s"))
    assert seen[0] is None and seen[1] is not None


async def test_a_long_batch_gives_way():
    from toolyard import PythonToolEngine, ToolRegistry

    async def busy(n: int) -> int:
        time.sleep(0.002)  # noqa: ASYNC251 - what a tool should not do, and some do
        return n

    with PythonToolEngine(ToolRegistry([function_tool(busy, namespace="w")])) as engine:
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await engine.arun(CallRequest(calls=[ToolCall("w::busy", {"n": n}) for n in range(50)]))
        task.cancel()
    assert turns > 5
