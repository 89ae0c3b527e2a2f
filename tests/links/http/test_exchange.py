"""`GuardedClient.astream`: answers read while they come, and what connections carry after them."""

import asyncio
import socket
import threading

import pytest
from waiting import SOON

from links.conftest import get, local, post
from links.fake_server import respond, send_raw
from toolyard.links.http.messages import Outgoing
from toolyard.model.errors import CallTimeout, ToolFailed, ToolyardError, Unavailable

MANY_BYTES = 256 * 1024
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


async def read(client, outgoing, limit=1_000_000):
    async with client.astream(outgoing) as flow:
        return flow.status, await flow.read_all(limit)


async def test_chunks_can_be_read_before_the_body_is_complete(server):
    go_on = threading.Event()

    def act(connection, request):
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        assert go_on.wait(SOON)
        connection.sendall(b"3\r\ntwo\r\n0\r\n\r\n")

    server.acts["GET", "/s"] = [act]
    seen = []
    async with local() as client, client.astream(get(f"{server.url}/s")) as flow:
        assert (flow.status, flow.header("content-type")) == (200, "text/plain")
        async for chunk in flow.chunks():
            seen.append(chunk)
            go_on.set()
    assert seen == [b"one", b"two"]


async def test_a_body_without_a_length_ends_with_the_connection(server):
    server.acts["GET", "/c"] = [send_raw(HEAD + b"\r\nall of it")]
    async with local() as client:
        assert await read(client, get(f"{server.url}/c")) == (200, b"all of it")
        assert (await read(client, get(f"{server.url}/x")))[0] == 200


async def test_a_connection_left_before_its_end_is_hung_up(server):
    server.acts["GET", "/a"] = [respond(200, b"x" * 3_000_000)]
    async with local() as client:
        async with client.astream(get(f"{server.url}/a")):
            pass
        assert (await read(client, get(f"{server.url}/b")))[0] == 200
    assert len(server.connections) == 2


async def test_a_kept_connection_that_was_closed_is_replaced_for_what_can_be_repeated(server):
    def once(connection, request):
        respond(200, b"1")(connection, request)
        return False

    server.acts["GET", "/a"] = [once]
    async with local() as client:
        await read(client, get(f"{server.url}/a"))
        assert (await read(client, get(f"{server.url}/b")))[0] == 200


async def test_informational_responses_are_skipped(server):
    server.acts["GET", "/a"] = [
        send_raw(b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + HEAD + b"content-length: 2\r\n\r\nok")
    ]
    async with local() as client, client.astream(get(f"{server.url}/a")) as flow:
        assert (flow.status, await flow.read_all(10), flow.header("link")) == (200, b"ok", "")


@pytest.mark.parametrize(
    ("answer", "kind", "match"),
    [
        (HEAD + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\nx", Unavailable, "does not answer in HTTP"),
        (HEAD + b"x: " + b"y" * 400_000, ToolFailed, "headers .* larger than"),
    ],
)
async def test_malformed_responses_become_call_errors(server, answer, kind, match):
    server.acts["POST", "/bad"] = [send_raw(answer)]
    async with local() as client:
        with pytest.raises(kind, match=match) as caught:
            await read(client, post(f"{server.url}/bad", 10))
        assert caught.value.info.effect == "unknown"
        assert (await read(client, get(f"{server.url}/good")))[0] == 200


async def test_a_body_that_is_not_read_makes_the_server_wait(server):
    sent = []

    def endless(connection, request):
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(200):
            connection.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
            sent.append(1)

    server.acts["GET", "/e"] = [endless]
    async with local() as client, client.astream(get(f"{server.url}/e")) as flow:
        await asyncio.sleep(0.5)
        assert len(sent) < 50
        async for _ in flow.chunks():
            break


async def test_the_deadline_ends_the_block_too(server):
    server.acts["GET", "/s"] = [lambda connection, request: connection.sendall(HEAD + b"content-length: 9\r\n\r\nx")]
    async with local() as client:
        with pytest.raises(CallTimeout, match="did not answer within"):
            async with client.astream(get(f"{server.url}/s", 0.2)) as flow:
                async for _ in flow.chunks():
                    pass


async def test_errors_of_the_block_are_its_own(server):
    async with local() as client:
        for error in (RuntimeError, TimeoutError, OSError):
            with pytest.raises(error, match="mine"):
                async with client.astream(get(f"{server.url}/s", 5)):
                    raise error("mine")


async def test_closing_ends_a_stream_that_is_being_read(server):
    stop = threading.Event()

    def act(connection, request):
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        stop.wait(SOON)

    server.acts["GET", "/s"] = [act]
    client = local()
    with pytest.raises(Unavailable, match="client was closed"):
        async with client.astream(get(f"{server.url}/s")) as flow:
            async for _ in flow.chunks():
                await client.aclose()
    with pytest.raises(ToolyardError, match="is closed"):
        await read(client, Outgoing(method="GET", url=server.url))
    stop.set()


@pytest.mark.parametrize("endless", ["trailer", "extension"])
async def test_trailers_and_chunk_extensions_are_limited(server, endless):
    sent = [0]

    def act(connection, request):
        tail = b"2\r\nok\r\n0\r\nx: " if endless == "trailer" else b"2\r\nok\r\n5;x="
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n" + tail)
        try:
            while sent[0] < 100 * MANY_BYTES:
                sent[0] += connection.send(b"a" * 65536)
        except OSError:
            return False

    server.acts["POST", "/t"] = [act]
    async with local() as client:
        with pytest.raises(ToolFailed, match="not valid HTTP"):
            await read(client, post(f"{server.url}/t"))
        assert (await read(client, get(f"{server.url}/x")))[0] == 200
    assert sent[0] < 100 * MANY_BYTES


async def test_small_chunks_do_not_count_as_trailers(server):
    count = MANY_BYTES // 5

    def act(connection, request):
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * count + b"0\r\n\r\n")

    server.acts["POST", "/t"] = [act]
    async with local() as client, client.astream(post(f"{server.url}/t")) as flow:
        assert sum([len(piece) async for piece in flow.chunks()]) == count


async def test_a_head_response_has_no_body_whatever_its_content_length(server):
    answer = HEAD + b"content-length: 5\r\n\r\n"
    server.acts["HEAD", "/h"] = [lambda connection, request: connection.sendall(answer)] * 2
    async with local() as client:
        for _ in range(2):
            assert await read(client, Outgoing(method="HEAD", url=f"{server.url}/h")) == (200, b"")
    assert len(server.connections) == 1


async def test_an_invalid_status_is_not_http(server):
    server.acts["POST", "/s"] = [send_raw(b"HTTP/1.1 000 OK\r\ncontent-length: 2\r\n\r\nok")]
    async with local() as client:
        with pytest.raises(Unavailable, match="does not answer in HTTP"):
            await read(client, post(f"{server.url}/s"))


async def test_equal_content_lengths_are_accepted_and_different_ones_refused(server):
    def told(*lengths):
        fields = b"".join(b"Content-Length: %d\r\n" % length for length in lengths)
        return lambda connection, request: connection.sendall(HEAD + fields + b"\r\nok")

    server.acts["POST", "/l"] = [told(2, 2), told(2, 2, 2), told(2, 3)]
    async with local() as client:
        for _ in range(2):
            assert await read(client, post(f"{server.url}/l")) == (200, b"ok")
        with pytest.raises(Unavailable, match="does not answer in HTTP"):
            await read(client, post(f"{server.url}/l"))


async def test_a_vanished_peer_is_detected_by_keepalive_probes(server):
    async with local() as client:
        await read(client, get(f"{server.url}/x"))
        (connection,) = (await client._pools.get()).connections
        there = connection._connection._network_stream.get_extra_info("socket")
        assert there.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert there.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
