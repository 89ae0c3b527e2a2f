"""The pending requests of a connection."""

import asyncio
import socket
import time

from toolyard.links.mcp import Handlers, LinkLimits
from toolyard.links.mcp.peer import Peer
from toolyard.links.mcp.wire import Mailbox, Request


async def test_an_answer_that_came_in_time_counts_although_the_loop_was_busy_past_the_deadline():
    loop, told = asyncio.get_running_loop(), []
    mailbox = Mailbox(Peer("busy", Handlers(), LinkLimits(), None), told.append)
    ours, theirs = socket.socketpair()

    def answer_and_stay_busy():
        theirs.send(b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}')
        time.sleep(0.1)

    def send(request, future):
        request.sent = True
        loop.add_reader(ours, lambda: mailbox.deliver(ours.recv(1000)))
        loop.call_soon(answer_and_stay_busy)

    with ours, theirs:
        reply = await mailbox.exchange(Request(1, "tools/call", {}, loop.time() + 0.05), send)
        loop.remove_reader(ours)
    assert reply.result == {"content": []} and told == []
