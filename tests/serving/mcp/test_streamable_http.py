"""One path for all versions."""

import asyncio
import json
import socket
import struct
import threading

import pytest
from waiting import SOON, until

from serving.mcp.mcp_support import META, Session, Stateless, make_request, read_events, read_result
from serving.service_support import desk_tools, served
from toolyard import function_tool


def reset(line):
    """Be gone at once, without a word."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def test_a_call_whose_client_disconnects_before_it_begins_is_not_run():
    ran = threading.Event()

    async def run() -> str:
        """Says that it ran."""
        ran.set()
        return "ran"

    with served(tools=[function_tool(run, namespace="desk")]) as found:
        face, held = found.service.mcp, threading.Event()
        real = face.current_names

        async def late():
            held.set()
            await asyncio.to_thread(until, lambda: not found.limit.open)
            return await real()

        face.current_names = late
        body = json.dumps(make_request("tools/call", {"name": "desk__run", "_meta": META})).encode()
        head = (
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nmcp-method: tools/call\r\n"
            f"mcp-name: desk__run\r\nmcp-protocol-version: 2026-07-28\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        line = socket.create_connection(("127.0.0.1", found.port), timeout=SOON)
        line.sendall(head.encode() + body)
        assert held.wait(SOON)
        reset(line)
        assert until(lambda: not face.is_stale)
        face.current_names = real
        assert read_result(Stateless(found).call("echo", {"text": "x"}))
        assert not ran.is_set()


@pytest.mark.parametrize("takes", ["application/json, text/event-stream", "text/event-stream"])
def test_a_conflict_of_idempotency_keys_is_the_answer_to_the_request(takes):
    with served(tools=desk_tools()) as found:
        client = Session(found)
        meta = {"_meta": {"toolyard/idempotency_key": "once"}}
        accept = {"accept": takes}
        client.send("tools/call", {"name": "desk__add", "arguments": {"a": 1, "b": 1}, **meta})
        params = {"name": "desk__add", "arguments": {"a": 2, "b": 1}, **meta}
        other = client.send("tools/call", params, number=9, headers=accept)
        told = other.json if "json" in other.headers["content-type"] else read_events(other.body)[-1]
        assert (other.status, told["jsonrpc"], told["id"], told["error"]["code"]) == (200, "2.0", 9, -32000)
        assert told["error"]["data"]["error"]["code"] == "request.conflict"
