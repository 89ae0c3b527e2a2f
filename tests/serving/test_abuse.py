"""What hostile clients cannot do to the others. `soak_abuse.py` has the real numbers."""

import socket
import struct
import threading

import pytest
from waiting import until

from serving.abuse_support import Line, connections, drip, guarded, light, send_nonsense, was_ended

pytestmark = pytest.mark.process

BUSY = {"max_connections": 80, "header_timeout": 1.0, "body_timeout": 1.0, "idle_timeout": 2.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("abuse"), **BUSY, rate=100, burst=100) as running:
        yield running


def assert_served(server):
    with Line(server.address) as line:
        assert line.ask(server.invocation(server.light))[0] == 200


def test_heads_that_come_a_byte_at_a_time_are_ended_and_keep_nobody_out(server):
    head = server.head("GET", "/v1/tools", None, server.flood)
    with connections(server.address, 60, head[:5]) as slow:
        for _ in range(3):
            drip(slow, 0.2, head[5:], every=0.1)
            assert_served(server)
        assert until(lambda: all(map(was_ended, slow)))


def test_bodies_that_come_a_byte_at_a_time_are_ended_and_keep_nobody_out(server):
    head = server.head("POST", "/v1/tools/bench::echo:invoke", 1000, server.flood)
    with connections(server.address, 60, head + b"{") as slow:
        for _ in range(3):
            drip(slow, 0.2, b" ", every=0.1)
            assert_served(server)
        assert until(lambda: all(map(was_ended, slow)))


def test_idle_connections_give_way_to_newcomers(server):
    with connections(server.address, 500) as idle:
        assert_served(server)
        until(lambda: sum(map(was_ended, idle)) >= 420)
        assert_served(server)
        assert until(lambda: all(map(was_ended, idle)))


def test_malformed_requests_are_refused_and_the_server_goes_on(server):
    seen = send_nonsense(server, 220)
    assert not any(status >= 500 for status in seen), seen
    assert seen[400] > 50, seen
    assert seen[413] and seen[431] and seen[414], seen
    assert_served(server)


def test_a_flood_of_one_key_is_refused_and_another_key_is_served(server):
    ended, statuses = threading.Event(), []

    def flood():
        with Line(server.address) as line:
            while not ended.is_set():
                statuses.append(line.ask(server.invocation(server.flood))[0])

    threads = [threading.Thread(target=flood) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        with Line(server.address) as line:
            until(lambda: 429 in statuses)
            assert len(light(server, 1, line)) == 20
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {200, 429}


def test_a_body_of_very_many_values_is_too_large_and_one_of_many_commas_is_not(server):
    assert until(lambda: _status(server, b'{"args":{"text":"%s"}}' % (b"," * 300_000)) == 200)
    assert until(lambda: _status(server, b'{"args":{"text":[%s]}}' % b",".join([b"0"] * 150_000)) == 413)


def _status(server, body):
    with Line(server.address) as line:
        return line.ask(server.invocation(server.light, body))[0]


def test_clients_that_vanish_while_they_are_refused_are_no_errors(tmp_path):
    with guarded(tmp_path) as running:
        head = running.head("POST", "/v1/tools/bench::echo:invoke", 5 * 1024 * 1024, running.flood)
        for _ in range(100):
            with socket.create_connection(running.address, 10) as each:
                # Closing sends a reset instead of an end.
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.sendall(head + b"x" * 100_000)
        assert_served(running)
        _, said = running.server.stop()
    assert "Traceback" not in said, said
