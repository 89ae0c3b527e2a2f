"""The light connections, where answers are at the edge of what HTTP allows."""

import asyncio
import socket
import threading

import pytest

from links.conftest import get, local, post
from links.fake_server import raw
from links.test_streaming import HEAD, read
from toolyard.links.client import Outgoing
from toolyard.links.swift_line import MOST_EMPTY, MOST_WAITING
from toolyard.model.errors import ToolFailed, Unavailable


async def lines(client):
    pool = await client._swift.here()
    return list(pool._lines)


@pytest.mark.parametrize("endless", ["trailer", "extension"])
async def test_what_comes_beside_the_body_has_an_end(server, endless):
    sent = [0]

    def act(connection, request):
        tail = b"2\r\nok\r\n0\r\nx: " if endless == "trailer" else b"2\r\nok\r\n5;x="
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n" + tail)
        try:
            while sent[0] < 100 * MOST_EMPTY:
                sent[0] += connection.send(b"a" * 65536)
        except OSError:
            return False

    server.acts["POST", "/t"] = [act]
    async with local() as client:
        with pytest.raises(ToolFailed, match="no HTTP"):
            await read(client, post(f"{server.url}/t"))
        assert (await read(client, get(f"{server.url}/x")))[0] == 200
    assert sent[0] < 100 * MOST_EMPTY


async def test_tiny_chunks_are_no_such_thing(server):
    count = MOST_EMPTY // 4

    def act(connection, request):
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * count + b"0\r\n\r\n")

    server.acts["POST", "/t"] = [act]
    async with local() as client, client.astream(post(f"{server.url}/t")) as flow:
        assert sum([len(piece) async for piece in flow.chunks()]) == count


async def test_a_connection_where_reading_is_paused_is_not_used_again(server):
    go_on = threading.Event()

    def act(connection, request):
        connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % (MOST_WAITING + 10) + b"x" * MOST_WAITING)
        assert go_on.wait(10)
        connection.sendall(b"x" * 10)  # the end of it, and too much to go on reading

    server.acts["POST", "/big"] = [act]
    async with local() as client:
        async with asyncio.timeout(10), client.astream(post(f"{server.url}/big")):
            (line,) = await lines(client)
            while not line.is_whole:
                if line._waiting == MOST_WAITING:
                    go_on.set()
                await asyncio.sleep(0.001)
            assert line._is_paused
        assert not line.is_usable
        assert (await read(client, get(f"{server.url}/x")))[0] == 200
    assert len(server.connections) == 2


async def test_head_has_no_body_whatever_length_it_tells(server):
    answer = HEAD + b"content-length: 5\r\n\r\n"
    server.acts["HEAD", "/h"] = [lambda connection, request: connection.sendall(answer)] * 2
    async with local() as client:
        for _ in range(2):
            assert await read(client, Outgoing(method="HEAD", url=f"{server.url}/h")) == (200, b"")
    assert len(server.connections) == 1


async def test_a_status_that_is_none_is_no_http(server):
    server.acts["POST", "/s"] = [raw(b"HTTP/1.1 000 OK\r\ncontent-length: 2\r\n\r\nok")]
    async with local() as client:
        with pytest.raises(Unavailable, match="does not answer in HTTP"):
            await read(client, post(f"{server.url}/s"))


async def test_the_same_length_told_twice_is_one_and_two_lengths_are_none(server):
    def told(*lengths):
        fields = b"".join(b"Content-Length: %d\r\n" % length for length in lengths)
        return lambda connection, request: connection.sendall(HEAD + fields + b"\r\nok")

    server.acts["POST", "/l"] = [told(2, 2), told(2, 2, 2), told(2, 3)]
    async with local() as client:
        for _ in range(2):
            assert await read(client, post(f"{server.url}/l")) == (200, b"ok")
        with pytest.raises(Unavailable, match="does not answer in HTTP"):
            await read(client, post(f"{server.url}/l"))


async def test_a_peer_that_is_gone_without_a_word_is_found_out_by_the_system(server):
    async with local() as client:
        await read(client, get(f"{server.url}/x"))
        (line,) = await lines(client)
        there = line._transport.get_extra_info("socket")
        assert there.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert there.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
