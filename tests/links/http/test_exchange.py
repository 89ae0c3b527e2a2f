"""`GuardedClient.astream`: answers read while they come, with the same guards."""

import asyncio
import gzip
import socket
import threading
import zlib

import pytest
from waiting import SOON

from links.conftest import get, local, post
from links.fake_server import FakeServer, respond, send_raw
from toolyard.links.http.addresses import Blocked
from toolyard.links.http.auth import Bearer
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Outgoing
from toolyard.model.errors import CallTimeout, Denied, InvalidArguments, ToolFailed, ToolyardError, Unavailable

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


async def test_one_connection_serves_one_exchange_after_the_other(server):
    async with local() as client:
        for number in range(5):
            assert await read(client, post(f"{server.url}/{number}")) == (200, b'{"path": "/%d"}' % number)
    assert len(server.connections) == 1
    assert server.requests[0].headers["host"] == server.url.removeprefix("http://")


async def test_exchanges_at_once_have_connections_of_their_own(server):
    async with local(pool=3) as client:
        await asyncio.gather(*[read(client, get(f"{server.url}/{n}")) for n in range(12)])
    assert 1 < len(server.connections) <= 3


async def test_a_body_without_a_length_ends_with_the_connection(server):
    server.acts["GET", "/c"] = [send_raw(HEAD + b"\r\nall of it")]
    async with local() as client:
        assert await read(client, get(f"{server.url}/c")) == (200, b"all of it")
        assert (await read(client, get(f"{server.url}/x")))[0] == 200


async def test_what_was_sent_beyond_the_answer_is_not_taken_for_the_next(server):
    smuggled = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
    good = HEAD + b"content-length: 4\r\n\r\ngood"
    server.acts["GET", "/a"] = [lambda connection, request: connection.sendall(good + smuggled)]
    async with local() as client:
        assert await read(client, get(f"{server.url}/a")) == (200, b"good")
        assert await read(client, get(f"{server.url}/b")) == (200, b'{"path": "/b"}')
    assert len(server.connections) == 2


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
        (b"nonsense\r\n\r\n", Unavailable, "does not answer in HTTP"),
        (b"", Unavailable, "lost the connection"),
        (HEAD + b"content-length: 10\r\n\r\nshort", ToolFailed, "ends before"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nab", ToolFailed, "ends before"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", ToolFailed, "not valid HTTP"),
        (HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nx", Unavailable, "does not answer in HTTP"),
        (HEAD + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\nx", Unavailable, "does not answer in HTTP"),
        (b"HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Unavailable, "does not answer in HTTP"),
        (HEAD + b"x: " + b"y" * 70_000 + b"\r\ncontent-length: 0\r\n\r\n", ToolFailed, "headers .* larger than"),
        (HEAD + b"x: " + b"y" * 400_000, ToolFailed, "headers .* larger than"),
        (b"HTTP/1.1 103 E\r\n\r\n" * 30_000, ToolFailed, "headers .* larger than"),
        (HEAD + b"content-encoding: br\r\ncontent-length: 1\r\n\r\nx", ToolFailed, "not encoded as it says"),
        (HEAD + b"content-encoding: gzip\r\ncontent-length: 3\r\n\r\nxyz", ToolFailed, "not encoded as it says"),
    ],
)
async def test_malformed_responses_become_call_errors(server, answer, kind, match):
    server.acts["POST", "/bad"] = [send_raw(answer)]
    async with local() as client:
        with pytest.raises(kind, match=match) as caught:
            await read(client, post(f"{server.url}/bad", 10))
        assert caught.value.info.effect == "unknown"
        assert (await read(client, get(f"{server.url}/good")))[0] == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_encoded_answers_are_decoded_as_they_come(server, encoding):
    text = b"hello " * 10_000
    data = gzip.compress(text) if encoding == "gzip" else zlib.compress(text)
    server.acts["GET", "/z"] = [respond(200, data, f"content-encoding: {encoding}")]
    async with local() as client:
        assert await read(client, get(f"{server.url}/z")) == (200, text)


async def test_a_truncated_encoded_body_is_an_error(server):
    server.acts["GET", "/z"] = [respond(200, gzip.compress(b"x" * 1000)[:-6], "content-encoding: gzip")]
    async with local() as client:
        with pytest.raises(ToolFailed, match="ends before"):
            await read(client, get(f"{server.url}/z"))


async def test_a_body_that_decodes_to_too_much_is_refused(server):
    server.acts["GET", "/b"] = [respond(200, b"x" * 2000)]
    server.acts["GET", "/z"] = [respond(200, gzip.compress(b"x" * 1_000_000, 1), "content-encoding: gzip")]
    async with local() as client:
        with pytest.raises(ToolFailed, match="larger than 1,000 bytes"):
            await read(client, get(f"{server.url}/b"), 1000)
        with pytest.raises(ToolFailed, match="larger than 1,000 bytes"):
            await read(client, get(f"{server.url}/z"), 1000)


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


async def test_private_addresses_are_not_connected_to_unless_named(server):
    host = server.url.removeprefix("http://")
    async with GuardedClient() as client:
        with pytest.raises(Blocked):
            await read(client, get(f"{server.url}/"))
        with pytest.raises(Blocked):
            await read(client, get(f"{server.url}/".replace("127.0.0.1", "localhost")))
        assert server.connections == []
        assert (await read(client, get(f"{server.url}/", named=(host,))))[0] == 200
        # The connection that a named request left is not there for one that is not.
        with pytest.raises(Blocked):
            await read(client, get(f"{server.url}/"))


async def test_redirects_are_followed_within_the_origin_for_reading_only(server):
    with FakeServer() as other:
        server.acts["GET", "/r"] = [respond(302, b"", "location: /there")]
        server.acts["GET", "/out"] = [respond(302, b"", f"location: {other.url}/")]
        server.acts["POST", "/r"] = [respond(307, b"", "location: /there")]
        async with local() as client:
            assert await read(client, get(f"{server.url}/r")) == (200, b'{"path": "/there"}')
            assert (await read(client, post(f"{server.url}/r")))[0] == 307
            with pytest.raises(Denied, match="another origin"):
                await read(client, get(f"{server.url}/out"))
        assert other.connections == []


async def test_credentials_and_headers_are_those_of_every_other_request(server):
    async with local() as client:
        await read(client, get(f"{server.url}/", credential=Bearer(server.url, "tok"), headers=(("x-a", "ü"),)))
        headers = server.requests[0].headers
        assert headers["authorization"] == "Bearer tok"
        assert headers["user-agent"].startswith("toolyard/")
        with pytest.raises(InvalidArguments):
            await read(client, get(f"{server.url}/", headers=(("x", "a\r\nb: c"),)))
        with pytest.raises(InvalidArguments):
            await read(client, get(f"{server.url}/", headers=(("content-length", "5"),)))


async def test_certificates_are_judged(tls_server, certificate):
    async with local() as client:
        with pytest.raises(Unavailable, match="certificate is not trusted"):
            await read(client, get(f"{tls_server.url}/"))
    for verify in (str(certificate[1]), False):
        async with local(verify=verify) as client:
            assert (await read(client, get(f"{tls_server.url}/")))[0] == 200
            assert (await read(client, get(f"{tls_server.url}/")))[0] == 200


async def test_nobody_listening_is_unavailable(server):
    server.stop_listening()
    async with local() as client:
        with pytest.raises(Unavailable, match="connection refused") as caught:
            await read(client, post(f"{server.url}/"))
        assert caught.value.info.effect == "none"


async def test_a_cancelled_task_hangs_up_and_frees_its_place(server):
    stop = threading.Event()
    server.acts["GET", "/s"] = [lambda connection, request: stop.wait(SOON)]
    async with local(pool=1) as client:
        task = asyncio.create_task(read(client, get(f"{server.url}/s")))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await read(client, get(f"{server.url}/t", 5)))[0] == 200
    stop.set()


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
    count = MANY_BYTES // 4

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
