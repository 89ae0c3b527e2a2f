"""Whose connections are read from next, on real sockets and the system's own epoll."""

import os
import resource
import selectors
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest
from service_support import CORE, served
from waiting import SOON, until
from wire_support import read_answer, read_answers, running

from toolyard.serving.lane_loop import LaneSelector
from toolyard.serving.lanes import NEWCOMERS
from toolyard.serving.protocol import BELONG
from toolyard.serving.turns import Turns

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Crowd:
    """A selector, and connections by name that have something to read until somebody does."""

    def __init__(self, stack):
        self._stack = stack
        self.selector = stack.enter_context(LaneSelector())
        self.lanes = self.selector.lanes
        self.names = {}

    def come(self, name, lane=None, ready=True):
        """A connection of that lane; without one, a file like any other."""
        ours, theirs = (self._stack.enter_context(each) for each in socket.socketpair())
        if lane is not None:
            self.lanes.assign(ours.fileno(), lane)
        self.selector.register(ours.fileno(), READ, (ours, theirs))
        self.names[ours.fileno()] = name
        if ready:
            theirs.send(b".")
        return ours

    def turn(self):
        """Read from whoever it is the turn of; their names."""
        found = []
        for key, events in self.selector.select(0):
            assert events == READ
            key.data[0].recv(1)
            found.append(self.names[key.fd])
        return found

    def turns(self, count):
        """The names of so many turns, in one list."""
        return [name for _ in range(count) for name in self.turn()]


@pytest.fixture
def crowd():
    with ExitStack() as stack:
        yield Crowd(stack)


def test_one_connection_among_many_of_another_key_is_read_from_at_once(crowd):
    for number in range(200):
        crowd.come(number, "many")
    first = crowd.turn()
    crowd.come("one", "one")
    assert len(first) == 16
    assert "one" in crowd.turn()


def test_while_several_keys_are_there_each_is_read_from_once_in_a_pass(crowd):
    for number in range(10):
        crowd.come(("a", number), "a")
        crowd.come(("b", number), "b")
    passes = [crowd.turn() for _ in range(10)]
    assert [sorted(names) for names in passes] == [[("a", number), ("b", number)] for number in range(10)]


def test_a_key_that_was_read_from_just_now_lets_another_go_first(crowd):
    for _ in range(10):
        crowd.come("many", "many")
    crowd.come("quiet", "one", ready=False)
    assert crowd.turn() == ["many"]
    crowd.come("one", "one")
    assert crowd.turn() == ["one"]
    assert crowd.turn() == ["many"]


def test_a_connection_that_always_has_more_does_not_keep_its_lane_to_itself(crowd):
    endless = crowd.come("endless", "a")
    crowd.come("quiet", "b", ready=False)
    crowd.selector.get_key(endless.fileno()).data[1].send(b"." * 100)
    for _ in range(5):
        crowd.come("short", "a")
    seen = crowd.turns(12)
    assert seen.count("short") == 5


def test_no_lane_is_left_out_for_ever_however_many_there_are(crowd):
    for number in range(40):
        crowd.selector.get_key(crowd.come(number, f"key {number}").fileno()).data[1].send(b"." * 100)
    seen = crowd.turns(20)
    assert set(seen) == set(range(40))


def test_other_files_are_found_in_every_pass_beside_lanes_and_without(crowd):
    crowd.come("file")
    assert crowd.turn() == ["file"]
    for _ in range(3):
        crowd.come("file")
        crowd.come("connection", "a")
    assert sorted(crowd.turn()) == ["connection"] * 3 + ["file"] * 3


def test_a_connection_that_shows_a_key_is_found_in_its_new_lane_and_only_there(crowd):
    moved = crowd.come("moved", NEWCOMERS)
    for _ in range(100):
        crowd.come("newcomer", NEWCOMERS)
    crowd.lanes.assign(moved.fileno(), "key")
    assert crowd.turn() == ["moved", "newcomer", "newcomer"]
    assert crowd.turn() == ["newcomer", "newcomer"]


def test_one_that_is_not_waited_for_keeps_its_lane_until_it_is(crowd):
    paused = crowd.come("paused", "a")
    key = crowd.selector.unregister(paused.fileno())
    crowd.lanes.assign(paused.fileno(), "b")
    crowd.come("other", "a")
    assert crowd.turn() == ["other"]
    crowd.selector.register(paused.fileno(), READ, key.data)
    assert crowd.lanes.shared
    assert crowd.turn() == ["paused"]


def test_what_is_waited_for_can_change_while_it_is_in_a_lane(crowd):
    both = crowd.come("both", "a")
    crowd.selector.modify(both.fileno(), READ | WRITE, None)
    assert [events for _, events in crowd.selector.select(0)] == [READ | WRITE]
    crowd.lanes.assign(both.fileno(), "b")
    assert [events for _, events in crowd.selector.select(0)] == [READ | WRITE]


def test_a_lane_ends_with_its_last_connection_and_numbers_may_come_again(crowd):
    gone = crowd.come("gone", "a")
    crowd.come("stays", "b", ready=False)
    assert crowd.lanes.shared
    crowd.selector.unregister(gone.fileno())
    crowd.lanes.forget(gone.fileno())
    assert not crowd.lanes.shared
    crowd.selector.register(gone.fileno(), READ, (gone, None))
    assert crowd.turn() == ["gone"]


def test_one_that_is_forgotten_while_it_is_waited_for_is_not_found_again(crowd):
    crowd.lanes.forget(crowd.come("gone", "a").fileno())
    assert crowd.turn() == []
    crowd.lanes.forget(10_000)
    closed = crowd.come("closed", "a")
    number = closed.fileno()
    closed.close()
    crowd.lanes.forget(number)
    assert not crowd.lanes._named


def test_more_keys_than_there_can_be_lanes_share_a_few(crowd):
    for number in range(1000):
        crowd.come(number, f"key {number}")
    seen = crowd.turns(300)
    assert sorted(seen) == list(range(1000))
    assert 64 < len(crowd.lanes._named) <= 80


def test_keys_that_share_a_lane_do_not_wait_for_newcomers(crowd):
    for number in range(64):
        crowd.come(number, f"key {number}", ready=False)
    for _ in range(200):
        crowd.come("newcomer", NEWCOMERS)
    crowd.come("late", "late key")
    assert "late" in crowd.turns(2)


def test_a_key_that_shares_a_lane_gets_its_own_when_there_is_room(crowd):
    early = [crowd.come(number, f"key {number}", ready=False).fileno() for number in range(64)]
    late = crowd.come("late", "late")
    assert crowd.lanes.assign(late.fileno(), "late") != "late"
    crowd.lanes.forget(early[0])
    assert crowd.lanes.assign(late.fileno(), "late") != "late"
    crowd.lanes.forget(early[1])
    assert crowd.lanes.assign(late.fileno(), "late") == "late"
    assert crowd.turn() == ["late"]


def test_a_file_that_is_waited_for_already_can_be_given_a_lane(crowd):
    plain = crowd.come("plain")
    assert crowd.lanes.assign(plain.fileno(), "a") == "a"
    assert crowd.turn() == ["plain"]
    crowd.selector.modify(plain.fileno(), READ | WRITE, None)
    assert [events for _, events in crowd.selector.select(0)] == [WRITE]
    crowd.selector.unregister(plain.fileno())
    assert crowd.selector.select(0) == []


@contextmanager
def no_more_files():
    """Nothing can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
    try:
        with suppress(OSError):
            while True:
                held.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in held:
            os.close(number)


def test_without_files_for_lanes_connections_stay_where_they_are(crowd):
    newcomer, plain = crowd.come("newcomer", NEWCOMERS), crowd.come("plain")
    with no_more_files():
        assert crowd.lanes.assign(newcomer.fileno(), "key") == NEWCOMERS
        assert crowd.lanes.assign(plain.fileno(), "key") is None
        assert sorted(crowd.turn()) == ["newcomer", "plain"]
    assert crowd.lanes.assign(newcomer.fileno(), "key") == "key"
    assert crowd.lanes.assign(plain.fileno(), "key") == "key"
    assert list(crowd.lanes._named) == ["key"]


def test_a_request_is_answered_when_there_is_no_file_for_its_lane():
    async def app(scope, receive, send):
        scope["extensions"][BELONG]("key")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    seen = []
    with running(app) as server, server.dial() as line:
        assert until(lambda: server.shared.lanes._named)
        with no_more_files():
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            seen.append((read_answer(line).status, *server.shared.lanes._named))
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        seen.append((read_answer(line).status, *server.shared.lanes._named))
    assert seen == [(200, NEWCOMERS), (200, "key")]


def test_a_served_connection_stands_in_the_lane_of_the_key_that_it_showed_last(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as yard:
        tokens = [yard.key("*:*", name=name) for name in ("one", "two")]
        with socket.create_connection(("127.0.0.1", yard.port), SOON) as line:
            lanes = yard.connections.lanes
            assert until(lambda: list(lanes._named) == [NEWCOMERS])
            seen = []
            for token in ("ty_no", *tokens, "ty_no"):
                line.sendall(f"GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {token}\r\n\r\n".encode())
                seen.append((read_answer(line).status, *lanes._named))
            one, two = (token.split("_")[1] for token in tokens)
            assert seen == [(401, NEWCOMERS), (200, one), (200, two), (401, two)]
        assert until(lambda: not lanes._named)


def test_a_request_whose_connection_is_gone_takes_no_place_in_a_lane():
    ended = threading.Event()

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        scope["extensions"][BELONG]("late")
        ended.set()

    with running(app) as server:
        with server.dial() as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert until(lambda: server.shared.lanes._named)
        assert ended.wait(SOON)
        assert not server.shared.lanes._named


def test_requests_that_were_sent_ahead_begin_in_turn_and_others_of_a_known_key_at_once():
    taken = []

    class Seen(Turns):
        def take(self, loop, headers, start):
            taken.append(dict(headers)[b"x-number"])
            super().take(loop, headers, start)

    async def app(scope, receive, send):
        headers = dict(scope["headers"])
        scope["extensions"][BELONG](headers[b"host"].decode())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    def request(host, number):
        return f"GET / HTTP/1.1\r\nHost: {host}\r\nX-Number: {number}\r\n\r\n".encode()

    with running(app) as server, server.dial() as one, server.dial() as other:
        server.shared.turns = Seen(bool)
        for line, host in ((one, "one"), (other, "other")):
            line.sendall(request(host, "first"))
            assert read_answer(line).status == 200
        assert server.shared.lanes.shared
        one.sendall(b"".join(request("one", number) for number in range(4)))
        assert [answer.status for answer in read_answers(one, 4)] == [200] * 4
    assert taken == [b"first", b"first", b"1", b"2", b"3"]
