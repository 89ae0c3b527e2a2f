"""HTTP/2, where a server offers it, has the same guards as HTTP/1.1."""

import asyncio
import logging
import threading
import time

import pytest
from waiting import SOON, until

from links.conftest import get, local, post
from links.http.h2_server import H2Server, whole
from toolyard.links.http.auth import ApiKeyCredential, Bearer
from toolyard.model.errors import CallError, CallTimeout, ToolFailed, Unavailable

SECRET = "verysecretvalue"


@pytest.fixture
def server(certificate):
    with H2Server(certificate, whole(200, b"hello", ("x-a", "1"))) as fake:
        yield fake


@pytest.fixture
def client(certificate):
    return lambda **options: local(verify=str(certificate[1]), **options)


def test_http2_is_used_where_the_server_offers_it_and_connections_are_kept(server, client, ask):
    answers = ask(client(), get(f"{server.url}/a?b=1"), *[post(f"{server.url}/x", body=b"x" * 100_000)] * 3)
    assert {(answer.status, answer.body, answer.header("x-a")) for answer in answers} == {(200, b"hello", "1")}
    assert [number for number, _, _ in server.requests] == [1, 1, 1, 1]
    assert server.requests[0][1][b":path"] == b"/a?b=1" and server.requests[1][2] == b"x" * 100_000


def test_http2_is_not_used_if_disabled_or_not_offered(server, tls_server, client, ask):
    with pytest.raises(CallError):
        ask(client(http2=False), get(f"{server.url}/x", seconds=SOON))
    assert server.requests == []
    assert ask(client(), get(f"{tls_server.url}/x")).status == 200


def test_a_credential_reaches_its_origin_and_no_log(server, client, ask, caplog):
    caplog.set_level(logging.DEBUG)
    ask(client(), get(f"{server.url}/x", credential=Bearer(server.url, SECRET)))
    ask(client(), get(f"{server.url}/x", credential=ApiKeyCredential(server.url, "header", "x-key", SECRET)))
    assert server.requests[0][1][b"authorization"] == f"Bearer {SECRET}".encode()
    assert server.requests[1][1][b"x-key"] == SECRET.encode()
    assert SECRET not in caplog.text


async def test_requests_at_the_same_time_do_not_share_a_connection(server, client):
    barrier = threading.Barrier(4)

    def together(connection, state, stream):
        barrier.wait(SOON)
        return whole(200)(connection, state, stream)

    server.act = together
    async with client() as one:
        await asyncio.gather(*(one.asend(get(f"{server.url}/x", seconds=SOON)) for _ in range(4)))
    assert sorted(number for number, _, _ in server.requests) == [1, 2, 3, 4]


def drip(piece, head=True):
    def act(connection, state, stream):
        if head:
            state.send_headers(stream, [(":status", "200")])
        for _ in range(200):
            if piece is not None:
                state.send_data(stream, piece)
            else:
                state.ping(b"12345678")
            connection.sendall(state.data_to_send())
            time.sleep(0.02)

    return act


@pytest.mark.parametrize("act", [drip(b"x"), drip(None), drip(None, head=False), drip(b"")])
def test_the_deadline_holds(server, client, ask, act):
    server.act = act
    with pytest.raises(CallTimeout) as late:
        ask(client(), post(f"{server.url}/x", seconds=0.4))
    assert late.value.info.effect == "unknown"


def test_each_of_many_threads_has_its_own_deadline(server, client):
    release = threading.Event()
    server.act = lambda connection, state, stream: release.wait(SOON) and False
    faults = []
    with client() as shared:

        def work(seconds):
            try:
                shared.send(get(f"{server.url}/x", seconds=seconds))
            except CallError as error:
                faults.append((seconds, type(error)))

        threads = [threading.Thread(target=work, args=(seconds,)) for seconds in (0.3, 0.6, 0.9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
    release.set()
    assert faults == [(seconds, CallTimeout) for seconds in (0.3, 0.6, 0.9)]


def endless(connection, state, stream):
    state.send_headers(stream, [(":status", "200")])
    for _ in range(10):
        state.send_data(stream, b"x" * 1000)
    connection.sendall(state.data_to_send())


def test_a_connection_whose_answer_was_cut_is_not_used_again(server, client):
    with client(max_bytes=2000) as one:
        server.act = endless
        with pytest.raises(ToolFailed, match="larger than 2,000"):
            one.send(get(f"{server.url}/x", seconds=SOON))
        server.act = whole(200, b"fine")
        assert one.send(get(f"{server.url}/x", seconds=SOON)).body == b"fine"
    assert [number for number, _, _ in server.requests] == [1, 2]


async def test_the_same_holds_on_an_event_loop(server, client):
    async with client(max_bytes=2000) as one:
        server.act = endless
        with pytest.raises(ToolFailed, match="larger than 2,000"):
            await one.asend(get(f"{server.url}/x", seconds=SOON))
        server.act = whole(200, b"fine")
        assert (await one.asend(get(f"{server.url}/x", seconds=SOON))).body == b"fine"
    assert [number for number, _, _ in server.requests] == [1, 2]


async def test_a_cancelled_request_takes_its_connection_with_it(server, client):
    async with client(pool=1) as one:
        server.act = lambda connection, state, stream: None
        task = asyncio.create_task(one.asend(get(f"{server.url}/x")))
        await asyncio.to_thread(until, lambda: server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.act = whole(200, b"fine")
        assert (await one.asend(get(f"{server.url}/x", seconds=SOON))).body == b"fine"
    assert [number for number, _, _ in server.requests] == [1, 2]


def reset(connection, state, stream):
    state.reset_stream(stream)


def goodbye(connection, state, stream):
    state.close_connection(last_stream_id=stream)


def garbage(connection, state, stream):
    connection.sendall(b"\x00\x00\x05\x01\x04" + stream.to_bytes(4) + b"\xff\xff\xff\xff\xff")


def bad_status(connection, state, stream):
    state.send_headers(stream, [(":status", "x")], end_stream=True)


def short(connection, state, stream):
    state.send_headers(stream, [(":status", "200"), ("content-length", "10")])
    state.send_data(stream, b"abc", end_stream=True)


def half(connection, state, stream):
    state.send_headers(stream, [(":status", "200")])
    state.send_data(stream, b"abc")
    connection.sendall(state.data_to_send())
    return False


@pytest.mark.parametrize("act", [reset, goodbye, garbage, bad_status, short, half, lambda *_: False])
def test_library_exceptions_become_call_errors(server, client, ask, act):
    server.act = act
    with pytest.raises((Unavailable, ToolFailed)) as failed:
        ask(client(), post(f"{server.url}/x", seconds=SOON))
    assert failed.value.info.effect == "unknown"
    assert failed.value.__cause__ is None and failed.value.__context__ is None


def test_headers_over_the_limit_are_refused(server, client, ask):
    server.act = whole(200, b"", *((f"x-{number}", "a" * 1000) for number in range(70)))
    with pytest.raises((ToolFailed, Unavailable)):
        ask(client(), post(f"{server.url}/x", seconds=SOON))
    server.act = whole(200, b"", *((f"x-{number}", "a" * 1000) for number in range(300)))
    with pytest.raises((ToolFailed, Unavailable)):
        ask(client(), post(f"{server.url}/x", seconds=SOON))


def test_closing_ends_what_is_under_way(server, client):
    server.act = lambda connection, state, stream: None
    one, faults = client(), []

    def work():
        try:
            one.send(post(f"{server.url}/x"))
        except CallError as error:
            faults.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: server.requests)
    one.close()
    thread.join(SOON)
    assert [type(fault) for fault in faults] == [Unavailable]
