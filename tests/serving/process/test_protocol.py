"""Connections as hostile or hapless clients use them: real sockets, bytes by hand."""

import asyncio
import socket
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, strategies as st
from waiting import SOON, until

from serving.service_support import served
from serving.wire_support import Echo, answer, closed, early, read_answer, read_answers, running
from toolyard.serving.process.protocol import MAX_HEAD_BYTES, MAX_PIPELINED

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body, *headers, path=b"/"):
    head = b"".join(b"%s\r\n" % header for header in headers)
    return b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (path, head, len(body), body)


@pytest.fixture(scope="module")
def echo():
    app = Echo()
    with running(app) as server:
        server.app = app
        yield server


@pytest.fixture(scope="module")
def hasty():
    """A server whose patience is short."""
    app = Echo()
    with running(app, header_timeout=0.3, body_timeout=0.3, idle_timeout=0.4) as server:
        server.app = app
        yield server


def test_requests_follow_each_other_on_one_connection(echo):
    with echo.dial() as line:
        for body in (b"one", b"", b"x" * 300_000, b"four"):
            line.sendall(post(body))
            assert read_answer(line).body == body


def test_a_body_may_come_byte_by_byte(echo):
    with echo.dial() as line:
        for byte in post(b"slowly"):
            line.sendall(bytes([byte]))
        assert read_answer(line).body == b"slowly"
        line.sendall(GET)
        assert read_answer(line).status == 200


def test_pipelined_requests_are_answered_in_order(echo):
    with echo.dial() as line:
        line.sendall(b"".join(post(b"%d" % number) for number in range(50)))
        assert [answer.body for answer in read_answers(line, 50)] == [b"%d" % number for number in range(50)]


def test_too_many_pipelined_requests_end_the_connection_after_those_that_were_taken(echo):
    with echo.dial() as line:
        line.sendall(GET * 1000)
        answers = read_answers(line, 1000)
        assert [answer.status for answer in answers] == [200] * (MAX_PIPELINED + 1) + [400]
        assert "pipelined requests" in answers[-1].error["message"]


INVALID = {
    "negative length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "no number": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "signed length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
    "endless length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "length list": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 4\r\n\r\nabcd",
    "length and chunks": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "chunked not last": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "bad chunk size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: x\n\n",
    "bare LF in header": b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "NUL": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no such version": b"GET / HTTP/3.0\r\n\r\n",
    "no such method": b"FETCH / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tunnel": b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "not ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("kind", INVALID)
def test_what_is_no_clean_request_is_answered_with_400_and_an_end(echo, kind):
    with echo.dial() as line:
        line.sendall(INVALID[kind])
        answer = read_answer(line)
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_http")
        assert answer.headers[b"connection"] == b"close"
        assert answer.headers[b"content-type"] == b"application/json; charset=utf-8"
        assert answer.headers[b"x-request-id"]
        assert closed(line) == b""


def test_a_broken_request_behind_a_good_one_is_refused_in_its_turn(echo):
    with echo.dial() as line:
        line.sendall(post(b"good") + INVALID["negative length"])
        first, second = read_answers(line, 2)
        assert (first.status, first.body, second.status) == (200, b"good", 400)


def test_a_broken_body_behind_a_good_request_is_refused_in_its_turn(echo):
    with echo.dial() as line:
        line.sendall(post(b"good") + INVALID["bad chunk size"])
        assert [answer.status for answer in read_answers(line, 2)] == [200, 400]


@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes_are_answered_or_waited_for_and_hurt_nobody(echo, noise, keep):
    with echo.dial() as line:
        line.sendall(post(b"", b"X-A: b")[:keep] + noise)
        line.shutdown(socket.SHUT_WR)
        said = closed(line)
        assert said == b"" or said.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400")), said


def test_a_head_that_is_too_large_is_refused_however_it_comes(echo):
    big = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (MAX_HEAD_BYTES + 10) + b"\r\n\r\n"
    for pieces in ([big], [big[:20_000], big[20_000:]], [big[:-4]]):
        with echo.dial() as line:
            for piece in pieces:
                line.sendall(piece)
                time.sleep(0.01)
            answer = read_answer(line)
            assert (answer.status, answer.error["code"]) == (431, "request.headers_too_large")
            assert closed(line) == b""
    assert echo.ask(b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n").status == 431


def test_too_many_headers_are_refused(echo):
    many = b"".join(b"X-%d: y\r\n" % number for number in range(101))
    assert echo.ask(b"GET / HTTP/1.1\r\n" + many + b"\r\n").status == 431
    few = b"".join(b"X-%d: y\r\n" % number for number in range(100))
    assert echo.ask(b"GET / HTTP/1.1\r\n" + few + b"\r\n").status == 200


def test_trailers_are_no_headers_and_are_not_endless(echo):
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
    assert echo.ask(chunked + b"Authorization: Bearer x\r\n\r\n").body == b"abc"
    assert b"authorization" not in dict(echo.app.seen[-1]["headers"])
    with echo.dial() as line:
        line.sendall(chunked + b"X: ")
        try:
            for _ in range(40):
                line.sendall(b"a" * 10_000)
                time.sleep(0.001)
        except OSError:
            pass
        assert read_answer(line).status == 400


def test_a_body_in_very_small_chunks_with_long_framing_is_refused(echo):
    before = len(echo.app.seen)
    with echo.dial() as line:
        line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        # What comes in one read with the head is not counted; a busy server would read it all at once.
        until(lambda: len(echo.app.seen) > before)
        try:
            for _ in range(400):
                line.sendall(b"1;" + b"x" * 400 + b"\r\na\r\n")
        except OSError:
            pass
        assert read_answer(line).status == 400


def test_a_head_that_drips_in_is_cut_off(hasty):
    with hasty.dial() as line:
        done = threading.Event()

        def drip():
            for byte in b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"a" * 1000:
                if done.wait(0.02):
                    return
                try:
                    line.sendall(bytes([byte]))
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        answer = read_answer(line)
        done.set()
        thread.join()
        assert (answer.status, answer.error["code"]) == (408, "request.timeout")
        assert answer.error["retryable"] is True


def test_a_body_that_stops_is_cut_off_with_the_id_of_its_request(hasty):
    lost = hasty.app.lost
    with hasty.dial() as line:
        line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine-7\r\nContent-Length: 100\r\n\r\n{")
        answer = read_answer(line)
        assert (answer.status, answer.error["code"]) == (408, "request.timeout")
        assert answer.headers[b"x-request-id"] == b"mine-7"
        assert closed(line) == b""
    until(lambda: hasty.app.lost == lost + 1)


def test_a_large_body_that_keeps_coming_has_more_time(hasty):
    with hasty.dial() as line:
        body = b"x" * 60_000
        whole = post(body)
        for start in range(0, len(whole), 4000):
            line.sendall(whole[start : start + 4000])
            time.sleep(0.05)
        assert read_answer(line).body == body


def test_a_connection_without_a_request_is_closed_silently(hasty):
    with hasty.dial() as line:
        assert closed(line) == b""
    with hasty.dial() as line:
        line.sendall(GET)
        assert read_answer(line).status == 200
        assert closed(line) == b""
    with hasty.dial() as line:
        line.sendall(b"\r\n\r\n")
        assert closed(line) == b""


def test_an_answer_that_is_never_read_does_not_stay_for_ever():
    for size in (50_000_000, 3_000_000):

        async def generous(scope, receive, send, size=size):
            await answer(send, 200, b"x" * size)

        with running(generous, idle_timeout=0.3) as server, server.dial() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.sendall(GET)
            until(lambda: server.limit.open)
            assert until(lambda: not server.limit.open)


def test_an_answer_that_is_read_slowly_but_surely_arrives(hasty):
    body = b"x" * 3_000_000
    with hasty.dial() as line:
        line.sendall(post(body))
        line.settimeout(SOON)
        got = 0
        while got < len(body):
            piece = line.recv(200_000)
            assert piece, "the connection was ended before the answer was whole"
            got += len(piece)
            time.sleep(0.03)


def test_a_body_that_was_answered_before_it_came_is_skipped(echo):
    with running(early) as server, server.dial() as line:
        for _ in range(3):
            line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
            assert read_answer(line).status == 401
            line.sendall(b"12345")
        line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
        assert read_answer(line).status == 401
        try:
            for _ in range(50):
                line.sendall(b"x" * 1_000_000)
        except OSError:
            pass
        assert closed(line) == b""


def test_whoever_asks_before_sending_is_told_to_go_on_or_refused_at_once(echo):
    asking = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with echo.dial() as line:
        line.sendall(asking)
        assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.sendall(b"12345")
        assert read_answer(line).body == b"12345"
    with running(early) as server, server.dial() as line:
        line.sendall(asking)
        assert read_answer(line).status == 401
        assert closed(line) == b"", "what came next could be the body or another request"


UPGRADES = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: upgrade\r\nConnection: close\r\nUpgrade: x\r\n",
)
FRAMES = {
    "length": lambda body: b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
    "padded length": lambda body: b"Content-Length:  %d \r\n\r\n%s" % (len(body), body),
    "chunks": lambda body: b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
    "chunks in other words": lambda body: (
        b"Transfer-encoding: x, CHUNKED\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    ),
}


@pytest.mark.parametrize("upgrade", UPGRADES)
def test_an_upgrade_is_not_taken_up_and_nothing_after_it_is_a_request(echo, upgrade):
    seen = len(echo.app.seen)
    with echo.dial() as line:
        line.sendall(b"GET /asked HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\n" + post(b"next", path=b"/hidden"))
        got = read_answer(line)
        assert (got.status, got.headers[b"connection"]) == (200, b"close")
        line.sendall(GET)
        assert closed(line) == b""
    assert [scope["path"] for scope in echo.app.seen[seen:]] == ["/asked"]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("upgrade", UPGRADES)
def test_the_body_of_a_request_that_asks_for_an_upgrade_is_never_the_next_request(echo, upgrade, frame):
    seen = len(echo.app.seen)
    with echo.dial() as line:
        line.sendall(b"POST /outer HTTP/1.1\r\nHost: x\r\n" + upgrade + FRAMES[frame](post(b"in", path=b"/inner")))
        got = read_answer(line)
        assert (got.status, got.error["code"]) == (400, "request.invalid_http")
        assert got.headers[b"connection"] == b"close"
        assert closed(line) == b""
    assert len(echo.app.seen) == seen


def test_an_upgrade_with_an_empty_body_is_served_after_what_was_asked_before(echo):
    ask = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n"
    with echo.dial() as line:
        line.sendall(post(b"first") + ask + post(b"never"))
        assert [got.body for got in read_answers(line, 3)] == [b"first", b""]


@pytest.mark.parametrize("target", [b"example.org:443", b"/v1/version", b"http://x/"])
def test_a_tunnel_is_refused_whatever_its_target(echo, target):
    seen = len(echo.app.seen)
    with echo.dial() as line:
        line.sendall(b"CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n" % target + GET)
        assert read_answer(line).status == 400
        assert closed(line) == b""
    assert len(echo.app.seen) == seen


def test_http_1_0_is_answered_and_closed(echo):
    with echo.dial() as line:
        line.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert read_answer(line).status == 200
        assert closed(line) == b""


def test_a_head_request_and_an_absolute_target_are_served(echo):
    with echo.dial() as line:
        line.sendall(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(line, head=True).status == 200
        line.sendall(b"GET http://x/some/path?q=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(line).status == 200
        assert echo.app.seen[-1]["path"] == "/some/path"


def test_the_longest_idle_connection_makes_room_for_a_newcomer():
    with running(Echo(), max_connections=3) as server:
        lines = [server.dial() for _ in range(3)]
        for line in lines:
            line.sendall(GET)
            assert read_answer(line).status == 200
        lines[0].sendall(GET)
        assert read_answer(lines[0]).status == 200
        with server.dial() as newcomer:
            newcomer.sendall(GET)
            assert read_answer(newcomer).status == 200
            assert closed(lines[1]) == b""
            for line in (lines[0], lines[2]):
                line.sendall(GET)
                assert read_answer(line).status == 200
            assert len(server.limit.open) == 3
        for line in lines:
            line.close()


def test_a_connection_at_work_is_not_closed_for_a_newcomer():
    began, gate = threading.Event(), threading.Event()

    async def working(scope, receive, send):
        began.set()
        await asyncio.get_running_loop().run_in_executor(None, gate.wait)
        await answer(send, 200, b"done")

    with running(working, max_connections=1) as server, server.dial() as busy:
        busy.sendall(GET)
        assert began.wait(SOON)
        assert server.ask(b"").error["code"] == "server.overloaded"
        gate.set()
        assert read_answer(busy).body == b"done"
        assert server.ask(GET).status == 200


def test_slow_heads_and_bodies_do_not_keep_newcomers_out():
    with running(Echo(), max_connections=20) as server:
        heads = [server.dial() for _ in range(30)]
        for line in heads:
            line.sendall(b"GET / HTTP/1.1\r\nHo")
        bodies = [server.dial() for _ in range(30)]
        for line in bodies:
            line.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
        for _ in range(5):
            assert server.ask(GET).status == 200
        for line in heads + bodies:
            line.close()


def test_a_client_that_goes_away_is_told_of_to_the_app_which_may_finish():
    events = []

    async def finishing(scope, receive, send):
        await receive()
        events.append("began")
        events.append((await receive())["type"])
        await asyncio.sleep(0.01)
        await answer(send, 200, b"nobody reads this")
        events.append("ended")

    with running(finishing) as server:
        with server.dial() as line:
            line.sendall(GET)
            until(lambda: events == ["began"])
        assert until(lambda: events == ["began", "http.disconnect", "ended"])


CROWD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
lines = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print("there", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_thousands_of_idle_connections_leave_newcomers_alone():
    with running(Echo(), max_connections=1000, header_timeout=60) as server:
        crowd = subprocess.Popen(
            [sys.executable, "-c", CROWD, str(server.port), "3000"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert crowd.stdout.readline() == b"there\n"
            until(lambda: len(server.limit.open) == 1000)
            for _ in range(20):
                assert server.ask(post(b"hello")).body == b"hello"
            assert len(server.limit.open) <= 1000
        finally:
            crowd.stdin.close()
            crowd.wait(SOON)
            crowd.stdout.close()
        until(lambda: not server.limit.open)


def test_an_app_that_fails_is_answered_for_and_the_server_goes_on(caplog):
    async def failing(scope, receive, send):
        raise RuntimeError("on purpose")

    with running(failing) as server:
        assert server.ask(GET).status == 500
        assert server.ask(GET).status == 500


def test_a_head_alone_is_sent_and_a_long_body_is_not_copied():
    async def plain(scope, receive, send):
        size = 300_000 if scope["path"] == "/long" else 0
        await answer(send, 200 if size else 204, b"x" * size)

    with running(plain) as server, server.dial() as line:
        for _ in range(2):
            line.sendall(b"HEAD /long HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answer(line, head=True).headers[b"content-length"] == b"300000"
            line.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            assert len(read_answer(line).body) == 300_000
            line.sendall(GET)
            assert read_answer(line).status == 204


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://evil.example/v1/health", b"localhost", 421),
        (b"HTTP://Evil.example:80/v1/health", b"localhost", 421),
        (b"http://localhost/v1/health", b"localhost", 200),
        (b"http://[::1]:80/v1/health", b"evil.example", 200),
        (b"http://localhost@evil.example/v1/health", b"localhost", 400),
        (b"http://evil.example@localhost/v1/health", b"localhost", 400),
        (b"ftp://localhost/v1/health", b"localhost", 400),
        (b"http://localhost/v1/health", None, 400),
    ],
)
def test_the_host_of_an_absolute_target_is_the_one_that_is_checked(target, host, status):
    with served() as yard:
        head = b"" if host is None else b"Host: %s\r\n" % host
        assert yard.raw(b"GET %s HTTP/1.1\r\n%s\r\n" % (target, head)).status == status
