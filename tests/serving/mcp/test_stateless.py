"""The version without a handshake: envelope, headers, calls and listening."""

import base64
import json
import threading

import pytest
from waiting import SOON, Hung, until

from serving.mcp.mcp_support import (
    BOTH,
    META,
    Stateless,
    StreamReader,
    make_request,
    read_error,
    read_events,
    read_frames,
    read_result,
)
from serving.service_support import desk_tools, served
from toolyard import ToolContext, function_tool
from toolyard.model.call import Content, image, text


@pytest.fixture(scope="module")
def desk():
    with served(tools=desk_tools()) as found:
        yield found


@pytest.fixture
def client(desk):
    return Stateless(desk)


def test_a_client_discovers_the_versions_of_the_server(client):
    found = read_result(client.send("server/discover"))
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["capabilities"]["tools"] == {"listChanged": True}
    assert found["resultType"] == "complete"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "toolyard"


def test_tools_of_domains_are_listed_bare_and_others_reversibly(client):
    found = client.tools()
    names = [tool["name"] for tool in found["tools"]]
    assert "echo" in names
    assert "desk__add" in names
    assert all(len(name) <= 64 for name in names)
    assert len(set(names)) == len(names)
    assert (found["ttlMs"] >= 0, found["cacheScope"], found["resultType"]) == (True, "public", "complete")


def test_lists_may_be_cached_by_anybody_until_there_is_a_key():
    with served(tools=desk_tools()) as found:
        assert Stateless(found).tools()["cacheScope"] == "public"
        client = Stateless(found, found.key("*:*"))
        assert client.tools()["cacheScope"] == "private"
        assert read_result(client.send("server/discover"))["cacheScope"] == "private"


def test_every_listed_name_can_be_called(client):
    for tool in client.tools()["tools"]:
        answer = client.call(tool["name"])
        # Its arguments may be wrong, but it is known.
        assert "result" in answer.json, answer


def test_a_call_answers_with_text_and_structure(client):
    found = read_result(client.call("echo", {"text": "hello"}))
    assert found["structuredContent"] == {"text": "hello"}
    assert json.loads(found["content"][0]["text"]) == {"text": "hello"}
    assert found["isError"] is False
    assert read_result(client.call("desk__add", {"a": 1, "b": 2}))["structuredContent"] == {"result": 3}


@pytest.mark.parametrize("name", ["desk::add", "add"])
def test_a_tool_can_be_called_by_its_other_names(client, name):
    assert read_result(client.call(name, {"a": 1, "b": 2}))["structuredContent"] == {"result": 3}


def test_a_failed_call_and_wrong_arguments_are_results_that_say_so(client):
    failed = read_result(client.call("desk__refuse", {"reason": "late"}))
    assert failed["isError"] is True
    assert read_error(failed)["code"] == "tool.execution_error"
    # It would have to match the output schema, which the SDK for TypeScript checks in errors, too.
    assert "structuredContent" not in failed
    wrong = read_result(client.call("desk__add", {"a": "x"}))
    assert (wrong["isError"], read_error(wrong)["code"]) == (True, "tool.invalid_args")


def test_an_unknown_tool_is_an_error_of_the_protocol(client):
    answer = client.call("desk__sub")
    assert answer.status == 400
    assert answer.json["error"]["code"] == -32602
    assert answer.json["error"]["data"]["error"]["code"] == "tool.not_found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b"[" + json.dumps(make_request("tools/list")).encode() + b"]", -32600),
        (b'{"id":1,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":3}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}', -32700),
        (b"[" * 300 + b"]" * 300, -32700),
    ],
)
def test_an_invalid_message_is_refused(desk, body, code):
    answer = desk.ask("POST", "/mcp", body, headers={**BOTH, "mcp-protocol-version": "2026-07-28"})
    assert (answer.status, answer.json["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"io.modelcontextprotocol/protocolVersion": None}, -32602),
        ({"io.modelcontextprotocol/clientCapabilities": 3}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": "2027-01-01"}, -32020),
        ({"io.modelcontextprotocol/logLevel": "loud"}, -32602),
    ],
)
def test_an_envelope_that_does_not_fit_is_refused(client, meta, code):
    answer = client.call("desk__context", meta=meta)
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, code, 1)


def test_an_unsupported_version_is_answered_with_the_supported_ones(client):
    meta = {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}
    answer = client.send("tools/list", meta=meta, headers={"mcp-protocol-version": "2027-01-01"})
    assert (answer.status, answer.json["error"]["code"]) == (400, -32022)
    assert answer.json["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2027-01-01"}


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp-protocol-version": None},
        {"mcp-method": None},
        {"mcp-method": "tools/list"},
        {"mcp-method": "Tools/call"},
        {"mcp-name": None},
        {"mcp-name": "Echo"},
        {"mcp-name": "=?base64?ZWNobw?="},
        {"mcp-name": "=?base64?ZWNobx==?="},
    ],
)
def test_headers_must_say_what_the_body_says(client, headers):
    answer = client.call("echo", {"text": "x"}, headers=headers)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32020)


def test_the_name_header_may_be_base64(client):
    spelt = base64.b64encode(b"echo").decode()
    assert read_result(client.call("echo", {"text": "x"}, headers={"mcp-name": f" =?base64?{spelt}?= "}))


@pytest.mark.parametrize("name", ["mcp-method", "mcp-name", "mcp-protocol-version"])
def test_a_header_that_is_there_twice_is_refused(desk, name):
    body = json.dumps(make_request("tools/call", {"name": "echo", "arguments": {"text": "x"}, "_meta": META})).encode()
    values = {"mcp-method": "tools/call", "mcp-name": "echo", "mcp-protocol-version": "2026-07-28"}
    lines = [f"{key}: {value}" for key, value in values.items()] + [f"{name}: {values[name]}"]
    head = "\r\n".join(["POST /mcp HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", *lines])
    answer = desk.raw(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    assert (answer.status, answer.json["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "prompts/list", "resources/list", "x"])
def test_unknown_methods_are_404(client, method):
    answer = client.send(method, number="abc")
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (404, -32601, "abc")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_only_post_is_allowed(desk, method):
    answer = desk.ask(method, "/mcp", headers={**BOTH, "mcp-protocol-version": "2026-07-28"})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_a_notification_is_accepted_and_ignored(desk):
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    answer = desk.post("/mcp", body, headers={**BOTH, "mcp-protocol-version": "2026-07-28"})
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize(
    ("accept", "status", "kind"),
    [
        (None, 200, "application/json"),
        ("*/*", 200, "application/json"),
        ("application/json", 200, "application/json"),
        ("text/event-stream", 200, "text/event-stream"),
        ("text/html", 406, "application/json"),
    ],
)
def test_the_response_has_a_media_type_that_the_client_accepts(client, accept, status, kind):
    answer = client.call("echo", {"text": "x"}, headers={"accept": accept})
    assert answer.status == status
    assert answer.headers["content-type"].startswith(kind)
    if status == 200:
        assert read_result(answer)["structuredContent"] == {"text": "x"}


def test_a_body_needs_the_json_content_type(desk):
    assert desk.ask("POST", "/mcp", b"{}", headers={**BOTH, "content-type": "text/plain"}).status == 415


def test_requests_from_pages_of_other_sites_are_refused(client):
    assert client.send("tools/list", headers={"origin": "http://evil.example"}).status == 403
    assert client.send("tools/list", headers={"host": "evil.example"}).status == 421


def test_a_body_that_is_too_large_is_refused():
    with served(max_body_bytes=10_000) as small:
        assert Stateless(small).call("echo", {"text": "x" * 20_000}).status == 413


def test_a_call_may_be_sent_again_under_its_own_key(client):
    from serving.service_support import RAN

    meta = {"toolyard/idempotency_key": "once"}
    before = len(RAN)
    first = read_result(client.call("desk__count", {"word": "one"}, meta=meta))
    assert read_result(client.call("desk__count", {"word": "one"}, meta=meta)) == first
    assert len(RAN) == before + 1
    other = client.call("desk__count", {"word": "two"}, meta=meta, number=7)
    assert (other.status, other.json["id"], other.json["error"]["code"]) == (200, 7, -32000)
    assert other.json["error"]["data"]["error"]["code"] == "request.conflict"


def test_context_and_ids_of_the_caller_reach_the_tool(client):
    meta = {"toolyard/context": {"user": "u"}, "toolyard/trace": {"flow": "f"}, "toolyard/call_id": "c1"}
    found = read_result(client.call("desk__context", meta=meta))
    assert found["structuredContent"]["context"] == {"user": "u"}
    assert found["structuredContent"]["trace"] == {"flow": "f"}
    assert found["_meta"]["toolyard/call_id"] == "c1"
    assert client.call("desk__context", meta={"toolyard/context": 3}).json["error"]["code"] == -32602


def test_coercions_are_listed_in_the_result(client):
    found = read_result(client.call("desk__add", {"a": "1", "b": 2}))
    assert found["structuredContent"] == {"result": 3}
    assert found["_meta"]["toolyard/coercions"]


def report(ctx: ToolContext, steps: int) -> int:
    """Says how far it is, from a thread."""
    for step in range(steps):
        ctx.report(step, steps, f"step {step}")
        ctx.log({"step": step}, "warning", "worker")
    return steps


async def areport(ctx: ToolContext, steps: int) -> int:
    """Says how far it is, on the loop."""
    return report(ctx, steps)


def picture() -> Content:
    """More than JSON."""
    return Content([text("see"), image(b"\x89PNG", "image/png")], value={"width": 1})


@pytest.mark.parametrize("name", ["desk__report", "desk__areport"])
def test_progress_and_log_lines_come_before_the_answer(name):
    tools = [function_tool(report, namespace="desk"), function_tool(areport, namespace="desk")]
    with served(tools=tools) as found:
        client = Stateless(found)
        plain = client.call(name, {"steps": 3})
        assert plain.headers["content-type"].startswith("application/json")
        meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}
        answer = client.call(name, {"steps": 3}, meta=meta)
        assert answer.headers["content-type"] == "text/event-stream"
        told = read_events(answer.body)
        progress = [each["params"] for each in told if each.get("method") == "notifications/progress"]
        assert [(each["progress"], each["total"], each["progressToken"]) for each in progress] == [
            (step, 3, "p") for step in range(3)
        ]
        lines = [each["params"] for each in told if each.get("method") == "notifications/message"]
        assert [line["data"] for line in lines] == [{"step": step} for step in range(3)]
        assert (lines[0]["level"], lines[0]["logger"]) == ("warning", "worker")
        assert told[-1]["result"]["structuredContent"] == {"result": 3}
        # No ids: nothing of this version can be read again.
        assert {number for number, _ in read_frames(answer.body)} == {None}
        quiet = client.call(name, {"steps": 2}, meta={"io.modelcontextprotocol/logLevel": "error"})
        assert quiet.headers["content-type"].startswith("application/json")
        deaf = client.call(name, {"steps": 2}, meta=meta, headers={"accept": "application/json"})
        assert read_result(deaf)["structuredContent"] == {"result": 2}


def test_content_blocks_are_sent_unchanged():
    with served(tools=[function_tool(picture, namespace="desk")]) as found:
        answer = read_result(Stateless(found).call("desk__picture"))
        assert [block["type"] for block in answer["content"]] == ["text", "image"]
        assert answer["structuredContent"] == {"width": 1}
        assert "toolyard/content" not in answer.get("_meta", {})


def test_a_disconnect_cancels_the_call():
    import asyncio

    began, ended = threading.Event(), threading.Event()

    async def wait() -> str:
        """Waits to be cancelled."""
        began.set()
        try:
            await asyncio.sleep(SOON)
        except asyncio.CancelledError:
            ended.set()
            raise
        return "never"

    with served(tools=[function_tool(wait, namespace="desk")]) as found:
        body = json.dumps(make_request("tools/call", {"name": "desk__wait", "_meta": META})).encode()
        import socket

        line = socket.create_connection(("127.0.0.1", found.port), timeout=SOON)
        head = (
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nmcp-method: tools/call\r\n"
            f"mcp-name: desk__wait\r\nmcp-protocol-version: 2026-07-28\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        line.sendall(head.encode() + body)
        assert began.wait(SOON)
        line.close()
        assert ended.wait(SOON)
        assert until(lambda: found.service.admission.running == 0)
        assert read_result(Stateless(found).call("echo", {"text": "x"}))


def test_a_call_ends_at_the_servers_deadline():
    hung = Hung()
    with served(tools=[function_tool(hung.__call__, namespace="desk", name="hang")], call_timeout=0.5) as found:
        answer = read_result(Stateless(found).call("desk__hang"))
        assert answer["structuredContent"]["error"]["code"] == "tool.timeout"
        # Its thread goes on, and is counted until it ends; nobody waits for its place.
        admission = found.service.admission
        assert until(lambda: (admission.running, admission.aside) == (0, 1))
        hung.end.set()
        assert until(lambda: admission.aside == 0)


def test_a_tool_may_need_a_client_that_can_do_more():
    needs = function_tool(picture, namespace="desk", metadata={"mcp": {"requires": {"sampling": {}}}})
    with served(tools=[needs]) as found:
        client = Stateless(found)
        refused = client.call("desk__picture")
        assert (refused.status, refused.json["error"]["code"]) == (400, -32021)
        assert refused.json["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
        can = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
        assert read_result(client.call("desk__picture", meta=can))


def listening(found, wanted, number=7):
    body = make_request("subscriptions/listen", {"notifications": wanted, "_meta": META}, number)
    headers = {**BOTH, "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    return StreamReader(found, "POST", "/mcp", body, headers)


def test_a_subscriber_is_notified_once_of_each_change():
    with served() as found, listening(found, {"toolsListChanged": True}) as stream:
        first = stream.wait(1)[0]
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"toolsListChanged": True}
        found.service.yard.tool_registry.add(*desk_tools())
        told = stream.wait(2)[1]
        assert told["method"] == "notifications/tools/list_changed"
        assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 7}
        found.service.yard.tool_registry.remove("desk::add")
        assert len(stream.wait(3)) == 3


def test_a_subscriber_to_something_else_is_not_notified():
    with served() as found, listening(found, {"promptsListChanged": True}) as other:
        with listening(found, {"toolsListChanged": True}) as stream:
            assert other.wait(1)[0]["params"]["notifications"] == {}
            stream.wait(1)
            found.service.yard.tool_registry.add(*desk_tools())
            stream.wait(2)
        assert len(other.messages) == 1


def test_a_stop_ends_subscriptions_with_their_results():
    with served() as found:
        stream = listening(found, {"toolsListChanged": True})
        stream.wait(1)
    assert until(lambda: stream.over)
    last = stream.messages[-1]
    assert (last["id"], last["result"]["resultType"]) == (7, "complete")
    assert last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
    stream.close()


def test_too_many_streams_are_refused_and_a_closed_one_makes_room():
    from toolyard.app.blocks import McpBlock

    with served(mcp=McpBlock(max_streams=1)) as found:
        with listening(found, {}) as first:
            first.wait(1)
            with listening(found, {}) as second:
                assert second.status == 429
                assert until(lambda: second.over)
                assert json.loads(second.body)["error"]["data"]["error"]["code"] == "server.overloaded"
        assert until(lambda: len(found.service.mcp.subscribers) == 0)
        with listening(found, {}) as third:
            assert third.wait(1)
