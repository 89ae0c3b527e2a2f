"""The versions with a handshake: sessions, their streams, and what is cancelled in them."""

import asyncio
import json
import threading
from urllib.parse import urlsplit

import pytest
from waiting import SOON, until

from serving import process_support
from serving.mcp.mcp_support import (
    BOTH,
    Session,
    StreamReader,
    make_request,
    read_error,
    read_events,
    read_frames,
    read_result,
)
from serving.service_support import CORE, Served, desk_tools, served
from toolyard import ToolContext, function_tool
from toolyard.app.blocks import McpBlock
from toolyard.model.call import Content, audio, resource_link, text


@pytest.fixture(scope="module")
def desk():
    with served(tools=desk_tools()) as found:
        yield found


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_session_begins_in_the_version_that_was_asked_for(desk, version):
    session = Session(desk, version)
    assert session.greeting["protocolVersion"] == version
    assert session.greeting["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
    assert session.notify("notifications/initialized").status == 202
    assert read_result(session.send("ping")) == {}
    assert read_result(session.call("echo", {"text": "x"}))["structuredContent"] == {"text": "x"}
    names = [tool["name"] for tool in read_result(session.send("tools/list"))["tools"]]
    assert "echo" in names
    assert session.end().status == 204
    assert session.send("ping").status == 404


@pytest.mark.parametrize("wanted", ["2026-07-28", "1999-01-01"])
def test_a_version_that_has_no_handshake_is_answered_with_the_newest_that_has(desk, wanted):
    body = make_request("initialize", {"protocolVersion": wanted})
    assert desk.post("/mcp", body, headers=BOTH).json["result"]["protocolVersion"] == "2025-11-25"


def test_a_request_outside_of_a_session_is_refused(desk):
    missing = desk.post("/mcp", make_request("tools/list"), headers=BOTH)
    assert (missing.status, missing.json["error"]["code"]) == (400, -32600)
    unknown = desk.post("/mcp", make_request("tools/list"), headers={**BOTH, "mcp-session-id": "x" * 500})
    assert (unknown.status, unknown.json["error"]["code"]) == (404, -32600)
    assert desk.get("/mcp", headers=BOTH).status == 400
    assert desk.ask("DELETE", "/mcp").status == 400
    assert desk.ask("HEAD", "/mcp").status == 405


def test_unknown_methods_and_tools_are_errors_of_the_protocol(desk):
    session = Session(desk)
    for method in ("server/discover", "prompts/list", "resources/list", "subscriptions/listen", "x"):
        answer = session.send(method, number="n")
        assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (200, -32601, "n")
    unknown = session.call("nothing")
    assert (unknown.status, unknown.json["error"]["code"]) == (200, -32602)
    assert session.send("tools/call", {"name": 3}).json["error"]["code"] == -32602
    assert session.send("tools/call", {"name": "echo", "arguments": []}).json["error"]["code"] == -32602


def test_ids_of_sessions_cannot_be_guessed(desk):
    ids = {Session(desk).id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(each) == 32 and each.isascii() for each in ids)


def test_a_session_belongs_to_the_key_that_began_it(tmp_path):
    config = {
        "tools": [{"type": "domains", "domains": ["core"]}],
        "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")},
    }
    with served(config) as found:
        mine, theirs = found.key("*:*"), found.key("*:*")
        missing = found.post("/mcp", make_request("initialize", {"protocolVersion": "2025-11-25"}), headers=BOTH)
        assert missing.status == 401
        assert missing.headers["www-authenticate"].startswith("Bearer")
        session = Session(found, token=mine)
        assert read_result(session.call("echo", {"text": "x"}))
        session.token = theirs
        assert session.send("ping").status == 404
        assert session.end().status == 404
        session.token = mine
        assert session.send("ping").status == 200


def test_a_key_sees_and_calls_what_its_scopes_allow(tmp_path):
    config = {
        "tools": [{"type": "domains", "domains": ["core"]}],
        "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")},
    }
    with served(config, tools=desk_tools()) as found:
        session = Session(found, token=found.key("desk:list,execute"))
        names = {tool["name"] for tool in read_result(session.send("tools/list"))["tools"]}
        assert "desk__add" in names
        assert "echo" not in names
        assert read_result(session.call("desk__add", {"a": 1, "b": 2}))["structuredContent"] == {"result": 3}
        hidden = session.call("echo", {"text": "x"}).json["error"]
        assert hidden["code"] == -32602
        assert "core" not in hidden["message"]
        looker = Session(found, token=found.key("desk:list"))
        denied = read_result(looker.call("desk__add", {"a": 1, "b": 2}))
        assert read_error(denied)["code"] == "tool.denied"


def test_an_unused_session_ends():
    with served(mcp=McpBlock(session_idle_seconds=0.2)) as found:
        session = Session(found)
        assert session.send("ping").status == 200
        assert until(lambda: len(found.service.mcp.sessions) == 0)
        assert session.send("ping").status == 404


def test_beyond_the_limit_the_longest_unused_session_ends():
    with served(mcp=McpBlock(max_sessions=3)) as found:
        sessions = [Session(found) for _ in range(3)]
        assert sessions[0].send("ping").status == 200
        newest = Session(found)
        assert len(found.service.mcp.sessions) == 3
        assert [each.send("ping").status for each in (*sessions, newest)] == [200, 404, 200, 200]


def say(ctx: ToolContext) -> str:
    """Says something at every level."""
    for level in ("debug", "info", "error"):
        ctx.log(level, level)
    ctx.report(1, 1)
    return "said"


def levels(answer):
    if answer.headers["content-type"].startswith("application/json"):
        return []
    told = [each for each in read_events(answer.body) if each.get("method") == "notifications/message"]
    return [each["params"]["level"] for each in told]


def test_log_lines_come_from_the_level_that_the_client_sets():
    with served(tools=[function_tool(say, namespace="desk")]) as found:
        session = Session(found)
        assert levels(session.call("desk__say")) == ["info", "error"]
        assert read_result(session.send("logging/setLevel", {"level": "debug"})) == {}
        assert levels(session.call("desk__say")) == ["debug", "info", "error"]
        assert read_result(session.send("logging/setLevel", {"level": "emergency"})) == {}
        assert levels(session.call("desk__say")) == []
        assert session.send("logging/setLevel", {"level": "loud"}).json["error"]["code"] == -32602


class Waiting:
    """A tool that waits until it is cancelled, or told to end."""

    def __init__(self):
        self.began, self.cancelled, self.end = threading.Event(), threading.Event(), threading.Event()

    def tool(self, speaks=False):
        async def wait(ctx: ToolContext) -> str:
            """Waits."""
            if speaks:
                ctx.log("begun")
            self.began.set()
            try:
                # Not long in a thread: the server would wait for its end.
                while not await asyncio.to_thread(self.end.wait, 0.02):
                    pass
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "ended"

        return function_tool(wait, namespace="desk", name="wait")


@pytest.mark.parametrize("speaks", [False, True])
def test_a_cancelled_request_ends_and_its_session_goes_on(speaks):
    waiting, answers = Waiting(), []
    with served(tools=[waiting.tool(speaks)]) as found:
        session = Session(found)
        thread = threading.Thread(target=lambda: answers.append(session.call("desk__wait", number=5)))
        thread.start()
        assert waiting.began.wait(SOON)
        assert session.call("desk__wait", number=5).json["error"]["code"] == -32600
        other = Session(found)
        assert other.notify("notifications/cancelled", {"requestId": 5}).status == 202
        assert session.notify("notifications/cancelled", {"requestId": "5"}).status == 202
        assert session.notify("notifications/cancelled", {}).status == 202
        assert not waiting.cancelled.is_set()
        assert session.notify("notifications/cancelled", {"requestId": 5}).status == 202
        thread.join(SOON)
        assert waiting.cancelled.is_set()
        last = read_events(answers[0].body)[-1] if speaks else answers[0].json
        assert (last["id"], last["error"]["code"]) == (5, -32800)
        assert read_result(session.call("echo", {"text": "x"}, number=5))


def test_the_end_of_a_session_ends_what_runs_in_it():
    waiting, answers = Waiting(), []
    with served(tools=[waiting.tool()]) as found:
        session = Session(found)
        thread = threading.Thread(target=lambda: answers.append(session.call("desk__wait")))
        thread.start()
        assert waiting.began.wait(SOON)
        assert session.end().status == 204
        thread.join(SOON)
        assert waiting.cancelled.is_set()
        error = answers[0].json["error"]
        assert (answers[0].status, error["code"]) == (200, -32800)
        assert "the session is over" in error["message"]


def test_calls_of_one_session_run_at_once():
    waiting, answers = Waiting(), []
    with served(tools=[waiting.tool()]) as found:
        session = Session(found)
        threads = [
            threading.Thread(target=lambda number=number: answers.append(session.call("desk__wait", number=number)))
            for number in range(3)
        ]
        for thread in threads:
            thread.start()
        assert until(lambda: found.service.admission.running == 3)
        waiting.end.set()
        for thread in threads:
            thread.join(SOON)
        assert sorted(answer.json["id"] for answer in answers) == [0, 1, 2]


def test_a_session_is_told_of_changes_on_its_stream_once_each():
    with served() as found:
        session = Session(found)
        with session.listen() as stream:
            assert stream.status == 200
            assert until(lambda: stream.body)
            found.service.yard.tool_registry.add(*desk_tools())
            assert stream.wait(1)[0] == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            found.service.yard.tool_registry.remove("desk::add")
            assert len(stream.wait(2)) == 2


def test_a_reconnecting_client_is_notified_of_possible_changes():
    with served() as found:
        session = Session(found)
        with session.listen() as stream:
            assert until(lambda: stream.body)
            assert stream.messages == []
        assert until(lambda: len(found.service.mcp.subscribers) == 0)
        found.service.yard.tool_registry.add(*desk_tools())
        with session.listen() as stream:
            assert stream.wait(1) == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]


def test_a_new_stream_of_a_session_replaces_the_previous():
    with served() as found:
        session = Session(found)
        with session.listen() as older:
            assert until(lambda: older.body)
            with session.listen() as newer:
                assert until(lambda: older.over)
                found.service.yard.tool_registry.add(*desk_tools())
                assert len(newer.wait(1)) == 1
            assert older.messages == []


def test_an_answer_whose_connection_broke_can_be_read_again_by_its_session_alone():
    waiting = Waiting()
    with served(tools=[waiting.tool(speaks=True)]) as found:
        session, other = Session(found), Session(found)
        body = make_request("tools/call", {"name": "desk__wait"}, 9)
        with StreamReader(found, "POST", "/mcp", body, session.headers) as stream:
            stream.wait(1)
            last = stream.ids[-1]
        assert not waiting.cancelled.is_set()
        with session.listen(**{"last-event-id": last}) as again:
            assert until(lambda: len(found.service.mcp.subscribers) == 1)
            waiting.end.set()
            told = again.wait(1)
            assert (told[0]["id"], told[0]["result"]["structuredContent"]) == (9, {"result": "ended"})
            assert until(lambda: again.over)
        # It is over, and there still.
        for who, after, count in (
            (session, last, 1),
            (session, f"{last.partition('.')[0]}.0", 2),
            (session, again.ids[-1], 0),
            (session, "nothing", 0),
            (session, f"{last}x", 0),
            (session, f"{last.partition('.')[0]}.{'9' * 5000}", 0),
            (other, last, 0),
        ):
            with who.listen(**{"last-event-id": after}) as stream:
                assert until(lambda: stream.over)
                assert len(stream.messages) == count


def test_only_answers_in_a_session_have_ids():
    with served(tools=[function_tool(say, namespace="desk")]) as found:
        session = Session(found)
        ids = [number for number, _ in read_frames(session.call("desk__say").body)]
        assert len(set(ids)) == len(ids) > 1 and None not in ids
        with session.listen() as stream:
            found.service.yard.tool_registry.add(*desk_tools())
            stream.wait(1)
            assert stream.ids == []


def test_the_end_of_a_session_ends_its_stream():
    with served() as found:
        session = Session(found)
        with session.listen() as stream:
            assert until(lambda: stream.body)
            assert session.end().status == 204
            assert until(lambda: stream.over)


@pytest.mark.process
def test_a_stop_does_not_wait_for_streams(tmp_path):
    (tmp_path / "yard.json").write_text(json.dumps({**CORE, "server": {"port": 0, "log": "json"}}))
    with process_support.served(tmp_path, "yard.json") as process:
        found = Served(None, urlsplit(process.url).port)
        stream = Session(found).listen()
        assert until(lambda: stream.body)
        code, said = process.stop()
    assert until(lambda: stream.over)
    stream.close()
    assert code == 0
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [line["status"] for line in lines if (line.get("method"), line.get("route")) == ("GET", "/mcp")] == [200]
    assert "did not end in time" not in said


def test_responses_to_no_request_are_accepted_and_ignored(desk):
    session = Session(desk)
    body = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert desk.post("/mcp", body, headers=session.headers).status == 202


def test_mcp_can_be_disabled():
    with served(mcp=McpBlock(enabled=False)) as found:
        assert found.post("/mcp", make_request("ping"), headers=BOTH).status == 404
        assert found.get("/sse").status == 404


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        ("2024-11-05", ["text", None, "text", "text"]),
        ("2025-03-26", ["text", None, "audio", "text"]),
        ("2025-06-18", ["text", None, "audio", "resource_link"]),
    ],
)
def test_blocks_that_a_version_lacks_are_sent_as_text(version, kinds):
    link = resource_link("file:///a", "a")

    def show() -> Content:
        return Content([text("see"), {"odd": "block"}, audio(b"RIFF", "audio/wav"), link])

    with served(tools=[function_tool(show, namespace="desk")]) as found:
        blocks = read_result(Session(found, version).call("desk__show"))["content"]
        assert [block.get("type") for block in blocks] == kinds
        last = blocks[-1]
        assert (json.loads(last["text"]) if last["type"] == "text" else last) == link
