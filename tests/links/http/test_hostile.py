"""Hostile servers: each causes a clear error within the deadline and the limits."""

import contextlib
import gzip
import socket
import threading
import time
import tracemalloc
import zlib

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from waiting import SOON

from links.conftest import get, local, post
from links.fake_server import FakeServer, hang_up, respond, send_raw
from toolyard.links.http.addresses import Blocked
from toolyard.links.http.auth import ApiKeyCredential, Basic, Bearer
from toolyard.links.http.messages import Outgoing
from toolyard.model.errors import CallError, CallTimeout, ToolFailed, Unavailable

MIB = 1 << 20
TOKEN = "tok3nthatmustnotleave"


def drip(head, piece, pause=0.02):
    """The head at once, then piece after piece for ever."""

    def act(connection, request):
        connection.sendall(head)
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(piece)
                time.sleep(pause)
        return False

    return act


DRIPS = {
    "a byte of the status line": drip(b"", b"H"),
    "headers": drip(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    "informational answers": drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "a body of known length": drip(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x"),
    "a body in chunks": drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "a body without end": drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    "trailers": drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "nothing": drip(b"", b"", pause=0.2),
}


@pytest.mark.parametrize("drops", DRIPS)
def test_the_deadline_holds_for_a_server_that_sends_single_bytes(server, ask, drops):
    server.acts["POST", "/x"] = [DRIPS[drops]]
    with pytest.raises(CallTimeout, match=r"did not answer within 0\.[34]") as late:
        ask(local(), post(f"{server.url}/x", seconds=0.4))
    assert (late.value.info.effect, late.value.info.retryable) == ("unknown", True)


def test_the_deadline_holds_for_single_bytes_over_tls(tls_server, certificate, ask):
    tls_server.acts["GET", "/x"] = [DRIPS["a body in chunks"]]
    with pytest.raises(CallTimeout) as late:
        ask(local(verify=str(certificate[1])), get(f"{tls_server.url}/x", seconds=0.4))
    assert late.value.info.effect == "none"


def test_the_deadline_holds_while_nobody_reads_what_is_sent(ask):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(CallTimeout) as late:
            ask(local(), post(url, seconds=0.4, body=bytes(32 * MIB)))
    assert late.value.info.effect == "unknown"


def test_the_deadline_covers_all_redirects_together(server, ask):
    def slowly(connection, request):
        time.sleep(0.15)
        respond(302, b"", "Location: /x")(connection, request)

    server.acts["GET", "/x"] = [slowly] * 6
    with pytest.raises(CallTimeout):
        ask(local(), get(f"{server.url}/x", seconds=0.4))


ENDLESS = {
    "chunked": drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n", 0),
    "until closed": drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, 0),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_body_is_cut_at_the_limit(server, ask, kind):
    server.acts["POST", "/x"] = [ENDLESS[kind]]
    with pytest.raises(ToolFailed, match="larger than 100,000 bytes") as cut:
        ask(local(max_bytes=100_000), post(f"{server.url}/x", seconds=SOON))
    assert (cut.value.info.effect, cut.value.info.retryable) == ("unknown", False)


def test_a_body_in_too_many_small_chunks_is_refused(server, ask):
    act = drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\nxx\r\n" * 5000, 0)
    server.acts["GET", "/x"] = [act]
    with pytest.raises(ToolFailed, match="too many small pieces"):
        ask(local(), get(f"{server.url}/x", seconds=SOON))


def test_a_flood_of_informational_answers_is_refused(server, ask):
    server.acts["POST", "/x"] = [drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2000, 0)]
    with pytest.raises(ToolFailed, match="headers of the answer"):
        ask(local(), post(f"{server.url}/x", seconds=SOON))


def test_a_body_that_says_it_is_too_large_is_not_read(server, ask):
    server.acts["GET", "/x"] = [send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n")]
    with pytest.raises(CallError, match="larger than|does not answer") as cut:
        ask(local(), get(f"{server.url}/x", seconds=SOON))
    assert cut.value.info.effect == "none"


def test_the_limit_itself_is_allowed(server, ask):
    server.otherwise = lambda request: respond(200, b"x" * 1000)
    assert len(ask(local(max_bytes=1000), get(f"{server.url}/x")).body) == 1000


def encoded(data, encoding, *more):
    return respond(200, data, f"Content-Encoding: {encoding}", *more)


@pytest.mark.parametrize(
    ("encoding", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("GZIP", gzip.compress)]
)
def test_a_compressed_body_comes_decoded(server, ask, encoding, encode):
    server.otherwise = lambda request: encoded(encode(b"hello" * 99), encoding)
    assert ask(local(), get(f"{server.url}/x")).body == b"hello" * 99


def test_a_bomb_costs_no_more_than_the_limit(server, ask):
    maker = zlib.compressobj(1, wbits=31)
    bomb = b"".join(maker.compress(bytes(MIB)) for _ in range(50)) + maker.flush()
    server.acts["GET", "/x"] = [encoded(bomb, "gzip")]
    client, request = local(max_bytes=2 * MIB), get(f"{server.url}/x", seconds=SOON)
    tracemalloc.start()
    try:
        with pytest.raises(ToolFailed, match="larger than 2,097,152 bytes"):
            ask(client, request)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "encoding", "words"),
    [
        (gzip.compress(b"hello" * 99)[:-3], "gzip", "ends before it is whole"),
        (gzip.compress(b"hello" * 99)[:5], "gzip", "ends before it is whole"),
        (b"not gzip at all", "gzip", "not encoded as it says"),
        (gzip.compress(b"x") + b"tail", "gzip", "not encoded as it says"),
        (b"\x78\x9cgarbage", "deflate", "not encoded as it says"),
        (b"x", "br", "not encoded as it says"),
        (gzip.compress(gzip.compress(b"x")), "gzip, gzip", "not encoded as it says"),
    ],
    ids=["end cut", "head cut", "no gzip", "tail", "no deflate", "brotli", "twice"],
)
def test_a_body_that_cannot_be_decoded_is_refused(server, ask, data, encoding, words):
    server.acts["POST", "/x"] = [encoded(data, encoding)]
    with pytest.raises(ToolFailed, match=words) as failed:
        ask(local(), post(f"{server.url}/x", seconds=SOON))
    assert failed.value.info.effect == "unknown"


TRUNCATED = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
]


@pytest.mark.parametrize("data", TRUNCATED)
def test_a_truncated_body_is_not_taken_for_a_whole_one(server, ask, data):
    server.acts["POST", "/x"] = [send_raw(data)]
    with pytest.raises(ToolFailed, match="ends before it is whole") as failed:
        ask(local(), post(f"{server.url}/x", seconds=SOON))
    assert (failed.value.info.effect, failed.value.info.retryable) == ("unknown", True)


@pytest.mark.parametrize(
    "data", [b"zz\r\nab\r\n", b"-1\r\nab", b"2\r\nabXX0\r\n\r\n", b"ffffffffffffffffffffff\r\n", b"\r\n\r\n"]
)
def test_garbage_between_chunks_is_refused(server, ask, data):
    server.acts["POST", "/x"] = [send_raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data)]
    with pytest.raises(ToolFailed, match="not valid HTTP") as failed:
        ask(local(), post(f"{server.url}/x", seconds=SOON))
    assert failed.value.info.effect == "unknown"


NOT_HTTP = [
    b"nonsense\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"HTTP/1.1 abc OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\x00",
]


@pytest.mark.parametrize("data", NOT_HTTP)
def test_a_response_that_is_not_http_is_unavailable(server, ask, data):
    server.acts["POST", "/x"] = [send_raw(data)]
    with pytest.raises(Unavailable) as failed:
        ask(local(), post(f"{server.url}/x", seconds=SOON))
    assert failed.value.info.effect == "unknown"


@given(
    data=st.binary(max_size=60),
    head=st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", *TRUNCATED]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_a_server_sends_is_a_response_or_a_call_error(server, data, head):
    server.acts["GET", "/x"] = [send_raw(head + data)]
    with local() as client, contextlib.suppress(CallError):
        client.send(get(f"{server.url}/x", seconds=SOON))


@pytest.mark.parametrize("act", [hang_up, send_raw(b"HTTP/1.1 20"), send_raw(b"HTTP/1.1 200 OK\r\nA: b\r\n")])
def test_a_lost_connection_leaves_the_effect_unknown(server, ask, act):
    server.acts["POST", "/x"] = [act]
    with pytest.raises(Unavailable, match="lost the connection") as failed:
        ask(local(), post(f"{server.url}/x", seconds=SOON))
    assert (failed.value.info.effect, failed.value.info.retryable) == ("unknown", True)


def test_a_lost_reading_request_had_no_effect(server, ask):
    server.acts["GET", "/x"] = [hang_up]
    with pytest.raises(Unavailable, match="lost the connection") as failed:
        ask(local(), get(f"{server.url}/x", seconds=SOON))
    assert failed.value.info.effect == "none"


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * MIB + b"\r\n",
        b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(1000)),
        b"".join(b"X-%d: a\r\n" % number for number in range(9000)),
        b"X: " + b"a" * 70_000 + b"\r\n",
    ],
)
def test_headers_over_the_limit_are_refused(server, ask, head):
    server.acts["POST", "/x"] = [send_raw(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 0\r\n\r\n")]
    with pytest.raises(ToolFailed, match="headers .* larger than 65,536 bytes") as failed:
        ask(local(), post(f"{server.url}/x", seconds=SOON))
    assert failed.value.info.effect == "unknown"


CREDENTIALS = {
    "bearer": lambda origin: Bearer(origin, TOKEN),
    "basic": lambda origin: Basic(origin, "me", TOKEN),
    "header": lambda origin: ApiKeyCredential(origin, "header", "x-key", TOKEN),
    "query": lambda origin: ApiKeyCredential(origin, "query", "key", TOKEN),
    "cookie": lambda origin: ApiKeyCredential(origin, "cookie", "key", TOKEN),
}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", CREDENTIALS)
def test_a_redirect_to_another_origin_is_not_followed_and_takes_nothing_with_it(server, ask, kind, status):
    with FakeServer() as other:
        server.acts["GET", "/x"] = [respond(status, b"", f"Location: {other.url}/steal?key={TOKEN}")]
        request = get(f"{server.url}/x", credential=CREDENTIALS[kind](server.url), named=(f"127.0.0.1:{other.port}",))
        with pytest.raises(Blocked, match=f"redirects to {other.url}: redirects to another origin") as refused:
            ask(local(), request)
        assert other.connections == []
    assert refused.value.info.effect == "none" and TOKEN not in f"{refused.value.info}"


@pytest.mark.parametrize(
    "location",
    [
        *("https://127.0.0.1:{port}/", "http://localhost:{port}/", "//evil.example/", "http://127.0.0.1/", "ftp://x/"),
        *(
            "http://127.0.0.1:{port}@evil.example/",
            "http://evil.example\\@127.0.0.1:{port}/",
            "http://169.254.169.254/",
        ),
        *(
            "http:\\\\evil.example",
            "http://[::1]:{port}/",
            "http://2130706433:{port}/",
            "http://127.1:{port}/",
            "file:///x",
        ),
    ],
)
def test_no_spelling_of_another_origin_is_followed(server, ask, location):
    server.acts["GET", "/x"] = [respond(302, b"", f"Location: {location.format(port=server.port)}")]
    with pytest.raises(CallError):
        answer = ask(local(), get(f"{server.url}/x", credential=Bearer(server.url, TOKEN)))
        # What is read as a path of the same server may be asked for there.
        assert answer.url.startswith(server.url) and "evil" in server.requests[1].target
        raise Blocked("same origin")
    assert all(request.headers.get("host") == f"127.0.0.1:{server.port}" for request in server.requests)


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_a_redirect_within_the_origin_keeps_the_credential_and_hides_it(server, ask, kind):
    server.acts["GET", "/x"] = [respond(302, b"", f"Location: /y?a=1&key={TOKEN}")]
    answer = ask(local(), get(f"{server.url}/x", credential=CREDENTIALS[kind](server.url)))
    first, second = server.requests
    for name in ("authorization", "x-key", "cookie"):
        assert first.headers.get(name) == second.headers.get(name)
    assert second.target.count(TOKEN) == 1
    if kind == "query":
        assert first.target == f"/x?key={TOKEN}" and answer.url == f"{server.url}/y?a=1"


def test_a_host_made_of_the_secret_is_not_shown(server, ask):
    server.acts["GET", "/x"] = [respond(302, b"", f"Location: http://{TOKEN}.evil.example/")]
    with pytest.raises(Blocked) as refused:
        ask(local(), get(f"{server.url}/x", credential=Bearer(server.url, TOKEN)))
    assert TOKEN not in f"{refused.value.info}"


def test_a_loop_of_redirects_ends(server, ask):
    server.otherwise = lambda request: respond(302, b"", "Location: /x")
    with pytest.raises(ToolFailed, match="redirects more than 5 times") as failed:
        ask(local(), get(f"{server.url}/x", seconds=SOON))
    assert failed.value.info.effect == "none" and len(server.requests) == 6


def test_five_redirects_are_followed_and_head_stays_head(server, ask):
    for number in range(5):
        server.acts["HEAD", f"/{number}"] = [
            send_raw(f"HTTP/1.1 307 X\r\nLocation: {number + 1}\r\nContent-Length: 0\r\n\r\n".encode())
        ]
    server.acts["HEAD", "/5"] = [send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")]
    answer = ask(local(), Outgoing(method="HEAD", url=f"{server.url}/0"))
    assert (answer.status, answer.url) == (200, f"{server.url}/5")


@pytest.mark.parametrize("status", [302, 303, 307, 308])
def test_a_redirect_of_anything_but_reading_is_handed_back(server, ask, status):
    server.acts["POST", "/x"] = [respond(status, b"", "Location: http://evil.example/")]
    assert ask(local(), post(f"{server.url}/x")).status == status
    assert len(server.requests) == 1


def test_a_redirect_without_location_is_an_answer(server, ask):
    server.acts["GET", "/x"] = [respond(302)]
    assert ask(local(), get(f"{server.url}/x")).status == 302


def test_a_body_that_was_cut_does_not_reach_the_next_answer(server, ask):
    server.acts["GET", "/x"] = [respond(200, b"x" * 5000)]
    server.acts["GET", "/y"] = [respond(200, b"fine")]
    client = local(max_bytes=1000)
    with pytest.raises(ToolFailed):
        client.send(get(f"{server.url}/x", seconds=SOON))
    assert ask(client, get(f"{server.url}/y", seconds=SOON)).body == b"fine"
    assert len(server.connections) == 2


def test_more_than_the_answer_is_not_taken_for_the_next_one(server, ask):
    def two(connection, request):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
        connection.sendall(answer + answer.replace(b"first", b"forge"))

    server.acts["GET", "/x"] = [two]
    server.acts["GET", "/y"] = [respond(200, b"second")]
    answers = ask(local(), get(f"{server.url}/x", seconds=SOON), get(f"{server.url}/y", seconds=SOON))
    assert [answer.body for answer in answers] == [b"first", b"second"]
    assert len(server.connections) == 2


def test_many_threads_meet_their_own_deadlines(server):
    release = threading.Event()
    server.otherwise = lambda request: lambda connection, request: release.wait(SOON) and False
    faults = []
    with local() as client:

        def work(seconds):
            try:
                client.send(post(f"{server.url}/x", seconds=seconds))
            except CallError as error:
                faults.append(type(error))

        threads = [threading.Thread(target=work, args=(0.1 + number / 50,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
    release.set()
    assert faults == [CallTimeout] * 10
