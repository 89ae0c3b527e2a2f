"""`GuardedClient`: requests, responses and connections."""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import traceback
import warnings

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from waiting import SOON, until

from links.conftest import LOCAL, get, local, post
from links.fake_server import FakeServer, hang_up, respond, send_raw
from toolyard.links.http.auth import Bearer
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Outgoing
from toolyard.model.errors import CallError, CallTimeout, ConfigError, InvalidArguments, ToolyardError, Unavailable

SECRET = "verysecretvalue"


def test_an_answer_comes_whole_with_lower_case_headers_in_their_order(server, ask):
    server.acts["GET", "/x"] = [respond(201, {"a": 1}, "X-Thing: 7", "Set-Cookie: a=1", "x-thing: 8")]
    answer = ask(local(), get(f"{server.url}/x"))
    assert (answer.status, answer.body, answer.url) == (201, b'{"a": 1}', f"{server.url}/x")
    assert [value for name, value in answer.headers if name == "x-thing"] == ["7", "8"]
    assert (answer.header("x-thing"), answer.header("nothing", "none")) == ("7", "none")


def test_a_request_arrives_as_it_was_written(server, ask):
    request = Outgoing(
        method="PATCH",
        url=f"{server.url}/a%2Fb/%2E%2E/%25?q=%C3%A4+1",
        headers=(("X-A", "1"), ("accept", "x/y")),
        body=b"\0\xff",
    )
    ask(local(), request)
    [seen] = server.requests
    assert (seen.method, seen.target, seen.body) == ("PATCH", "/a%2Fb/%2E%2E/%25?q=%C3%A4+1", b"\0\xff")
    assert (seen.headers["x-a"], seen.headers["accept"], seen.headers["content-length"]) == ("1", "x/y", "2")
    assert seen.headers["accept-encoding"] == "gzip, deflate" and seen.headers["host"] == f"127.0.0.1:{server.port}"
    assert seen.headers["user-agent"].startswith("toolyard/")


def test_only_requests_that_usually_have_a_body_say_that_they_have_none(server, ask):
    ask(local(), Outgoing(method="POST", url=server.url), Outgoing(method="DELETE", url=server.url))
    assert [request.headers.get("content-length") for request in server.requests] == ["0", None]


@pytest.mark.parametrize("status", [200, 204, 304, 400, 404, 429, 500, 503])
def test_every_status_is_an_answer(server, ask, status):
    server.acts["GET", "/x"] = [respond(status)]
    assert ask(local(), get(f"{server.url}/x")).status == status


def test_an_answer_to_head_has_headers_only(server, ask):
    server.acts["HEAD", "/x"] = [
        send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\nContent-Encoding: gzip\r\n\r\n")
    ]
    answer = ask(local(), Outgoing(method="HEAD", url=f"{server.url}/x"))
    assert (answer.body, answer.header("content-length")) == (b"", "99999999999")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "a\x7f", " a", "a ", "\ud800", "a\x1bb"])
def test_a_header_value_that_would_be_more_than_one_is_refused(server, ask, value):
    with pytest.raises(InvalidArguments, match="value of header 'x-a'") as refused:
        ask(local(), get(f"{server.url}/x", headers=(("x-a", value),)))
    assert refused.value.info.effect == "none" and "Evil" not in str(refused.value)
    assert server.connections == []


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "\u00e4", ":authority", "a\0"])
def test_an_invalid_header_name_is_refused(server, ask, name):
    with pytest.raises(InvalidArguments, match="name of a header"):
        ask(local(), get(f"{server.url}/x", headers=((name, "1"),)))
    assert server.connections == []


@pytest.mark.parametrize(
    "name", ["Host", "Content-Length", "transfer-encoding", "Connection", "Upgrade", "TE", "Expect"]
)
def test_a_header_that_frames_the_message_is_not_the_callers(server, ask, name):
    with pytest.raises(InvalidArguments, match=f"'{name}' is not the caller's"):
        ask(local(), get(f"{server.url}/x", headers=((name, "1"),)))


@pytest.mark.parametrize("method", ["", "GET /x", "CONNECT", "connect", "G\r\nX", "G\u00cbT"])
def test_an_invalid_method_is_refused(server, ask, method):
    with pytest.raises(InvalidArguments, match="method"):
        ask(local(), Outgoing(method=method, url=server.url))
    assert server.connections == []


@given(headers=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=12)), max_size=4), path=st.text(max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_it_is_given_one_request_is_sent_or_none(server, headers, path):
    before = len(server.requests)
    with local() as client:
        try:
            client.send(get(f"{server.url}/{path}", seconds=SOON, headers=tuple(headers)))
        except CallError as error:
            assert error.info.effect == "none"
            assert len(server.requests) == before
        else:
            [request] = server.requests[before:]
            assert request.target == f"/{path}"
            assert set(request.headers) <= {name.lower() for name, _ in headers} | {
                *("host", "accept", "accept-encoding", "user-agent")
            }


def test_cookies_are_neither_kept_nor_sent(server, ask):
    server.acts["GET", "/x"] = [respond(200, {}, "Set-Cookie: a=1; Path=/")]
    ask(local(), get(f"{server.url}/x"), get(f"{server.url}/x"))
    assert "cookie" not in server.requests[1].headers


def test_connections_are_kept_and_used_again(server, ask):
    ask(local(), *[get(f"{server.url}/x", seconds=SOON) for _ in range(5)])
    assert len(server.connections) == 1
    until(lambda: all(map(_is_closed, server.connections)))


def test_a_connection_is_used_again_after_an_error_status_too(server, ask):
    server.acts["POST", "/x"] = [respond(500), respond(404)]
    ask(local(), *[post(f"{server.url}/x") for _ in range(3)])
    assert len(server.connections) == 1


def test_the_pool_is_bounded_and_a_request_without_a_connection_has_no_effect(server):
    release = threading.Event()
    server.otherwise = lambda request: (
        lambda connection, request: release.wait(SOON) and respond(200)(connection, request)
    )
    with local(pool=2) as client:
        threads = [threading.Thread(target=client.send, args=(get(f"{server.url}/x"),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: len(server.requests) == 2)
        with pytest.raises(CallTimeout, match="no connection for http://127.0.0.1:.* became free") as late:
            client.send(post(f"{server.url}/x", seconds=0.2))
        release.set()
        for thread in threads:
            thread.join(SOON)
        assert client.send(get(f"{server.url}/x")).status == 200
    assert late.value.info.effect == "none" and len(server.connections) == 2


async def test_tasks_wait_for_a_free_connection(server):
    async with local(pool=2) as client:
        answers = await asyncio.gather(
            *(client.asend(get(f"{server.url}/{number}", seconds=SOON)) for number in range(20))
        )
    assert [answer.body for answer in answers] == [b'{"path": "/%d"}' % number for number in range(20)]
    assert len(server.connections) == 2


def test_many_threads_share_a_client(server):
    seen = []
    with local(pool=4) as client:

        def work(number):
            for step in range(20):
                seen.append(client.send(get(f"{server.url}/{number}/{step}", seconds=SOON)).body)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(seen) == sorted(b'{"path": "/%d/%d"}' % (n, step) for n in range(16) for step in range(20))
    assert len(server.connections) <= 4


def test_every_loop_has_a_pool_of_its_own_that_ends_with_it(server):
    client = local()

    async def main():
        return [(await client.asend(get(f"{server.url}/x"))).status for _ in range(3)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [asyncio.run(main()) for _ in range(3)] == [[200] * 3] * 3
        gc.collect()
    assert len(server.connections) == 3
    until(lambda: all(map(_is_closed, server.connections)))
    client.close()


async def test_a_cancelled_request_gives_its_connection_up(server):
    release = threading.Event()
    server.acts["GET", "/x"] = [lambda connection, request: release.wait(SOON) and False]
    async with local(pool=1) as client:
        task = asyncio.create_task(client.asend(get(f"{server.url}/x")))
        await asyncio.to_thread(until, lambda: server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.asend(get(f"{server.url}/x", seconds=SOON))).status == 200
    release.set()


async def test_a_request_cancelled_while_its_body_comes_gives_its_connection_up(server):
    release = threading.Event()

    def half(connection, request):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        release.wait(SOON)
        return False

    server.acts["GET", "/x"] = [half]
    async with local(pool=1) as client:
        task = asyncio.create_task(client.asend(get(f"{server.url}/x")))
        await asyncio.to_thread(until, lambda: server.requests)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.asend(get(f"{server.url}/x", seconds=SOON))).status == 200
    release.set()


def test_closing_ends_what_is_under_way_in_other_threads(server):
    release = threading.Event()
    server.acts["POST", "/x"] = [lambda connection, request: release.wait(3 * SOON) and False] * 8
    client, faults = local(), []

    def work():
        try:
            client.send(post(f"{server.url}/x"))
        except ToolyardError as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: len(server.requests) == 8)
    client.close()
    for thread in threads:
        thread.join(SOON)
    assert not any(thread.is_alive() for thread in threads)
    release.set()
    assert {(type(fault), fault.info.effect, fault.info.retryable) for fault in faults} == {
        (Unavailable, "unknown", False)
    }
    assert len(faults) == 8


def test_closing_ends_what_waits_for_a_connection(server):
    release = threading.Event()
    server.otherwise = lambda request: lambda connection, request: release.wait(SOON) and False
    client, faults = local(pool=1), []

    def work():
        try:
            client.send(post(f"{server.url}/x"))
        except ToolyardError as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(server.requests) == 1)
    client.close()
    for thread in threads:
        thread.join(SOON)
    release.set()
    assert not any(thread.is_alive() for thread in threads) and len(server.connections) == 1
    # On a busy machine one may come when it is closed already, and is told so before anything is asked.
    effects = [fault.info.effect if isinstance(fault, CallError) else "none" for fault in faults]
    assert sorted(effects) == ["none", "none", "none", "unknown"]


async def test_closing_ends_what_is_under_way_in_other_tasks(server):
    release = threading.Event()
    server.acts["POST", "/x"] = [lambda connection, request: release.wait(SOON) and False]
    client = local()
    task = asyncio.create_task(client.asend(post(f"{server.url}/x")))
    await asyncio.to_thread(until, lambda: server.requests)
    await client.aclose()
    with pytest.raises(Unavailable, match="closed while") as fault:
        await task
    release.set()
    assert fault.value.info.effect == "unknown"


async def test_a_closed_client_says_so(server):
    client = local()
    await client.aclose()
    client.close()
    for attempt in (client.asend(get(server.url)), asyncio.to_thread(client.send, get(server.url))):
        with pytest.raises(ToolyardError, match="is closed"):
            await attempt


def test_a_client_closed_while_it_connects_sends_nothing(server, ask):
    def resolve(host, port):
        client.close()
        return ["127.0.0.1"]

    client = GuardedClient(LOCAL, resolve=resolve)
    with pytest.raises(Unavailable, match="closed while") as failed:
        ask(client, post(f"http://localhost:{server.port}/x", seconds=SOON))
    assert failed.value.info.effect == "none" and server.requests == []


def test_a_deadline_that_has_passed_sends_nothing(server, ask):
    with pytest.raises(CallTimeout) as late:
        ask(local(), post(f"{server.url}/x", seconds=-1))
    assert late.value.info.effect == "none" and server.connections == []


@pytest.mark.parametrize(
    "act", [hang_up, send_raw(b"nonsense\r\n\r\n"), send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")]
)
def test_no_error_shows_or_chains_a_secret(server, ask, act, caplog):
    caplog.set_level(logging.DEBUG)
    server.acts["POST", "/x"] = [act]
    request = post(
        f"{server.url}/x?key={SECRET}",
        body=SECRET.encode(),
        headers=(("x-key", SECRET),),
        credential=Bearer(server.url, SECRET),
    )
    with pytest.raises(CallError) as failed:
        ask(local(), request)
    assert failed.value.__cause__ is None and failed.value.__context__ is None
    shown = "".join(traceback.format_exception(failed.value)) + repr(failed.value.info) + repr(request) + caplog.text
    assert SECRET not in shown


@pytest.mark.parametrize(
    "options",
    [
        {"max_bytes": 0},
        {"max_bytes": True},
        {"pool": 0},
        {"pool": 1.5},
        {"max_bytes": "1"},
    ],
)
def test_invalid_limits_are_config_errors(options):
    with pytest.raises(ConfigError, match="whole number"):
        GuardedClient(**options)


def test_an_unknown_certificate_is_refused_before_anything_is_sent(tls_server, ask):
    with pytest.raises(Unavailable, match="certificate is not trusted") as refused:
        ask(local(), post(f"{tls_server.url}/x"))
    assert (refused.value.info.effect, refused.value.info.retryable) == ("none", False)
    assert tls_server.requests == []


def test_a_certificate_is_judged_by_the_name_not_by_the_address(tls_server, certificate, ask):
    def client():
        return GuardedClient(LOCAL, verify=str(certificate[1]), resolve=lambda host, port: ["127.0.0.1"])

    assert ask(client(), get(f"https://localhost:{tls_server.port}/x")).status == 200
    with pytest.raises(Unavailable, match="certificate is not trusted"):
        ask(client(), get(f"https://other.example:{tls_server.port}/x", named=("other.example",)))


def test_a_certificate_is_trusted_by_file_or_unseen_if_so_asked(tls_server, certificate, ask):
    assert ask(local(verify=str(certificate[1])), get(f"{tls_server.url}/x")).status == 200
    assert ask(local(verify=False), get(f"{tls_server.url}/x")).status == 200


def test_invalid_certificate_files_are_config_errors(tmp_path, certificate):
    (tmp_path / "empty.pem").write_text("nothing")
    for path in ("empty.pem", "missing.pem"):
        with pytest.raises(ConfigError, match=r"verify='.*\.pem'"):
            local(verify=str(tmp_path / path))
        with pytest.raises(ConfigError, match=r"cert='.*\.pem'"):
            local(cert=str(tmp_path / path))


def test_a_client_certificate_is_sent_to_a_server_that_requests_one(certificate, ask):
    key, cert = map(str, certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.load_verify_locations(cert)
    context.verify_mode = ssl.CERT_REQUIRED
    with FakeServer(context) as fake:
        fake.otherwise = lambda request: respond(200, {})
        assert ask(local(verify=cert, cert=(cert, key)), get(f"{fake.url}/x", seconds=SOON)).status == 200
        with pytest.raises(Unavailable):
            ask(local(verify=cert), get(f"{fake.url}/x", seconds=SOON))


@pytest.mark.process
def test_a_key_with_a_password_needs_it(certificate, tmp_path):
    key, cert = map(str, certificate)
    locked = str(tmp_path / "locked.pem")
    subprocess.run(["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:open", "-out", locked], check=True)
    local(cert=(cert, locked, "open")).close()
    with pytest.raises(ConfigError, match="needs a password"):
        local(cert=(cert, locked))
    with pytest.raises(ConfigError, match="is no client certificate"):
        local(cert=(cert, locked, "wrong"))


def test_no_tls_where_tls_is_expected_is_unavailable(ask):
    def speak():
        connection, _ = plain.accept()
        with connection:
            connection.recv(9999)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as plain:
        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(Unavailable, match="TLS failed") as failed:
            ask(local(), post(f"https://127.0.0.1:{plain.getsockname()[1]}/x", seconds=SOON))
        thread.join()
    assert failed.value.info.effect == "none"


def test_a_reading_request_is_repeated_if_a_kept_connection_is_gone(server, ask):
    server.acts["GET", "/x"] = [respond(200), hang_up, respond(200), hang_up]
    server.acts["POST", "/x"] = [hang_up]
    url = f"{server.url}/x"
    assert [answer.status for answer in ask(local(), *[get(url, seconds=SOON)] * 2)] == [200, 200]
    assert (len(server.requests), len(server.connections)) == (3, 2)
    with pytest.raises(Unavailable, match="lost the connection"):
        ask(local(), get(url, seconds=SOON))
    with pytest.raises(Unavailable, match="lost the connection") as failed:
        ask(local(), get(url, seconds=SOON), post(url, seconds=SOON))
    assert failed.value.info.effect == "unknown" and len(server.asked("POST", "/x")) == 1


def test_the_deadline_holds_in_the_middle_of_a_handshake(ask):
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(CallTimeout) as late:
        ask(local(), post(f"https://127.0.0.1:{silent.getsockname()[1]}/x", seconds=0.3))
    assert late.value.info.effect == "none"


async def test_a_handshake_given_up_hangs_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SOON)
        async with local() as client:
            request = post(f"https://127.0.0.1:{silent.getsockname()[1]}/x")
            task = asyncio.create_task(client.asend(request))
            connection, _ = await asyncio.to_thread(silent.accept)
            with connection:
                connection.settimeout(SOON)
                assert await asyncio.to_thread(connection.recv, 9999)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await asyncio.to_thread(connection.recv, 9999) == b""


@pytest.mark.process
def test_the_http_library_is_imported_with_the_first_request():
    code = "import toolyard.links.http.client, toolyard.links.http.auth, toolyard.loop.pacing, sys\n"
    code += "toolyard.links.http.client.HttpLink('http://127.0.0.1:1')\nassert not {'httpx2', 'httpcore2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})


@pytest.mark.process
def test_the_first_request_names_all_the_time_it_had():
    code = """if True:
        from toolyard.links.http.client import HttpLink
        try:
            HttpLink("http://127.0.0.1:1", timeout=0.02).send("GET", "/x")  # the import alone takes longer
        except Exception as error:
            assert "within 0.0" in str(error), error
        else:
            raise AssertionError
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})


def test_a_request_shows_only_what_may_be_seen():
    request = Outgoing(
        method="GET",
        url=f"https://a.org/{SECRET}",
        headers=(("a", SECRET),),
        credential=Bearer("https://a.org", SECRET),
    )
    assert SECRET not in repr(request) and "https://a.org" in repr(request)


def _is_closed(connection):
    """True once the other side has hung up, or this one."""
    if connection.fileno() < 0:
        return True
    with contextlib.suppress(BlockingIOError):
        try:
            return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except OSError as error:
            return not isinstance(error, BlockingIOError)
    return False
