"""The first HTTP transport: clients that read slowly, are gone at once, or ask for too much."""

import asyncio
import json
import socket
import struct
import sys
import threading

import pytest
from service_support import CORE, served
from waiting import SOON, Hung, until

from mcp_face.mcp_support import BOTH, META, Reading, Session, Stateless, request, result
from mcp_face.test_sse import Older
from toolyard import function_tool
from toolyard.model.errors import SessionError
from toolyard.serving.mcp.streams import Stream, pour
from toolyard.serving.request import Request


def big(size: int) -> str:
    """So many letters."""
    return "x" * size


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def opened(found, path="/sse", more="", *, buffer=None):
    """A connection that has asked for a stream, and reads nothing by itself."""
    line = socket.socket()
    if buffer is not None:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    line.settimeout(SOON)
    line.connect(("127.0.0.1", found.port))
    line.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n{more}\r\n".encode())
    return line


def endpoint(line):
    data = b""
    while b"data: /messages" not in data or not data.endswith(b"\n\n\r\n"):
        data += line.recv(4096)
    return data.partition(b"data: ")[2].split(b"\n")[0].decode()


def read_until(line, words):
    """What comes until all of these have."""
    data = b""
    while not all(word in data for word in words):
        more = line.recv(1 << 20)
        assert more, "the stream ended before"
        data += more
    return data


def test_a_call_that_goes_on_past_its_deadline_is_counted_by_itself_alone():
    hung = Hung()
    stuck = function_tool(hung.__call__, namespace="desk", name="hang")
    with served(tools=[stuck], call_timeout=0.5) as found:
        client = Older(found)
        with client.stream:
            late = client.ask("tools/call", {"name": "desk__hang"}, 1)["result"]
            assert late["structuredContent"]["error"]["code"] == "tool.timeout"
            for number in range(2, 22):
                # Called with a key of its own, so that it takes the way of calls that wait.
                meta = {"toolyard/call_id": f"c{number}"}
                params = {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}
                assert client.ask("tools/call", params, number)["result"]["isError"] is False
            admission = found.service.admission
            assert until(lambda: (admission.running, admission.aside) == (0, 1))
            hung.end.set()
            assert until(lambda: admission.aside == 0)


def test_a_slow_reader_gets_every_answer():
    with served(tools=[function_tool(big, namespace="desk")]) as found, opened(found, buffer=65536) as line:
        path = endpoint(line)
        numbers = range(1, 9)
        for number in numbers:
            params = {"name": "desk__big", "arguments": {"size": 400_000}}
            assert found.post(path, request("tools/call", params, number)).status == 202
        assert until(lambda: not next(iter(found.service.mcp.sse.values())).running)
        words = [b'"id":%d,"result"' % number for number in numbers]
        assert read_until(line, words)


def test_who_does_not_read_is_not_listened_to_until_it_has_read():
    with served(tools=[function_tool(big, namespace="desk")]) as found, opened(found, buffer=65536) as line:
        path, number = endpoint(line), 0
        client = next(iter(found.service.mcp.sse.values()))
        while not client.is_full:
            number += 1
            params = {"name": "desk__big", "arguments": {"size": 1_500_000}}
            assert found.post(path, request("tools/call", params, number)).status == 202
            assert until(lambda: not client.running)
        refused = found.post(path, request("ping", number=1000))
        assert (refused.status, refused.error["code"]) == (429, "server.overloaded")
        read_until(line, [b'"id":%d,"result"' % each for each in range(1, number + 1)])
        assert until(lambda: not client.is_full)
        assert found.post(path, request("ping", number=1001)).status == 202
        assert read_until(line, [b'"id":1001,"result"'])


async def test_notifications_are_lost_before_answers_and_a_hopeless_stream_as_a_whole():
    stream = Stream()
    for number in range(2000):
        stream.put(b"notice %d" % number)
        if number % 100 == 0:
            stream.put_answer(b"answer %d" % number)
    stream.put_answer(b"a" * 2_000_000)
    stream.put(b"the newest")
    stream.take_over("me")
    read = b""
    async for chunk in stream.read("me"):
        read += chunk
        if b"the newest" in read:
            break
    assert [number for number in range(0, 2000, 100) if b"answer %d\n" % number not in read] == []
    assert b"notice" not in read
    assert stream.size == 0, "what was read is not kept"
    for _ in range(40):
        stream.put_answer(b"a" * 2_000_000)
    assert stream.is_broken
    assert stream.size == 0


async def test_nobody_holds_on_to_what_was_sent():
    sent = []

    async def send(message):
        sent.append(message.get("body"))

    asked = Request({"method": "GET", "path": "/sse", "headers": []}, None, send)
    stream, event = Stream(), bytes(1000)
    stream.take_over("me")
    stream.put_raw(event)
    task = asyncio.create_task(pour(asked, stream, "me"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert event in sent
    sent.clear()
    assert sys.getrefcount(event) == 2, "it is here, and nowhere else"
    stream.end()
    await task


def test_what_was_read_is_not_kept():
    with served(tools=[function_tool(big, namespace="desk")]) as found:
        client = Older(found)
        with client.stream:
            answer = client.ask("tools/call", {"name": "desk__big", "arguments": {"size": 1_000_000}}, 1)
            assert len(answer["result"]["structuredContent"]["result"]) == 1_000_000
            (here,) = found.service.mcp.sse.values()
            assert until(lambda: here.stream.size == 0)


def reset(line):
    """Be gone at once, without a word."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def test_clients_that_are_gone_at_once_leave_nothing_behind(shared):
    with served(shared) as found:
        for _ in range(200):
            reset(opened(found))
        assert until(lambda: not found.service.mcp.sse)
        assert until(lambda: len(found.service.mcp.hub) == 0)
        assert until(lambda: found.service.records.all("mcp_sse") == [])


def test_a_client_that_hung_up_before_its_call_began_has_begun_nothing():
    ran = threading.Event()

    async def run() -> str:
        """Says that it ran."""
        ran.set()
        return "ran"

    with served(tools=[function_tool(run, namespace="desk")]) as found:
        face, held = found.service.mcp, threading.Event()
        real = face.catch_up

        async def late():
            held.set()
            await asyncio.to_thread(until, lambda: not found.connections.open)
            await real()

        face.catch_up = late
        body = json.dumps(request("tools/call", {"name": "desk__run", "_meta": META})).encode()
        head = (
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nmcp-method: tools/call\r\n"
            f"mcp-name: desk__run\r\nmcp-protocol-version: 2026-07-28\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        line = socket.create_connection(("127.0.0.1", found.port), timeout=SOON)
        line.sendall(head.encode() + body)
        assert held.wait(SOON)
        reset(line)
        assert until(lambda: not face.is_stale)
        face.catch_up = real
        assert result(Stateless(found).call("echo", {"text": "x"}))
        assert not ran.is_set()


def test_one_client_may_listen_only_so_often():
    with served() as found:
        client = Older(found)
        with client.stream:
            params = {"notifications": {"toolsListChanged": True}, "_meta": META}
            for number in range(17):
                client.post(request("subscriptions/listen", params, number))
            error = client.answer(16)["error"]
            assert (error["code"], "16 subscriptions" in error["message"]) == (-32000, True)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
            assert client.post(cancel).status == 202
            client.post(request("subscriptions/listen", params, 20))
            acknowledged = "notifications/subscriptions/acknowledged"
            assert until(lambda: [each.get("method") for each in client.stream.messages].count(acknowledged) == 17)


def test_messages_that_others_got_are_collected_once_for_all_streams(shared):
    with served(shared) as one, served(shared) as two:
        asked = []
        records = one.service.records
        real = records.aversion

        async def aversion(kind):
            asked.append(kind)
            return await real(kind)

        records.aversion = aversion
        clients = [Older(one) for _ in range(20)]
        assert until(lambda: asked.count("mcp_mail") >= 3)
        asked.clear()
        assert until(lambda: asked.count("mcp_mail") >= 5)
        # Looked at as often as anything else, not twenty times as often.
        assert asked.count("mcp_mail") <= 5 * asked.count("key") + 10
        for client in clients:
            client.found = two
            assert client.post(request("ping", number=7)).status == 202
        assert all(client.answer(7)["result"] == {} for client in clients)
        for client in clients:
            client.stream.close()
        assert until(lambda: one.service.records.all("mcp_sse") == [])


def test_streams_of_a_key_that_is_revoked_end(shared):
    with served(shared) as found:
        mine, other = found.key("*:*"), found.key("*:*")
        body = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META}, 7)
        headers = {**BOTH, "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        streams = [
            Session(found, token=mine).listen(),
            Older(found, mine).stream,
            Reading(found, "POST", "/mcp", body, headers, mine),
        ]
        with Session(found, token=other).listen() as kept:
            assert until(lambda: kept.body and all(each.body for each in streams))
            found.service.keys.revoke(found.service.keys.find(mine).key_id)
            assert until(lambda: all(each.over for each in streams))
            assert not kept.over
        for each in streams:
            each.close()


def test_a_store_that_fails_for_a_while_is_said_to_and_forgotten_when_it_is_back(shared):
    with served(shared) as one, served(shared) as two:
        client = Older(one)
        with client.stream:
            records, broken = one.service.records, threading.Event()
            real = records.aversion

            async def aversion(kind):
                if broken.is_set():
                    raise SessionError("the store does not answer")
                return await real(kind)

            records.aversion = aversion
            broken.set()
            assert until(lambda: one.service.failing.get("mcp") == "SessionError")
            client.found = two
            assert client.post(request("ping", number=7)).status == 202
            broken.clear()
            assert client.answer(7)["result"] == {}
            assert until(lambda: "mcp" not in one.service.failing)
