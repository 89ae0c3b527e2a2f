"""`HttpLink`: one HTTP server that this process talks to."""

import asyncio
import contextlib
import logging
import socket
import threading
import traceback

import pytest
from hypothesis import given, strategies as st
from waiting import SOON, until

from conftest import chosen_way, ways_to_try
from links.fake_server import hang_up, respond, send_raw
from toolyard.links.http.addresses import read_base_url
from toolyard.links.http.client import HttpLink
from toolyard.model.errors import CallTimeout, ConfigError, MalformedSource, ToolyardError, Unavailable

GET = {"method": "GET", "path": "/x"}
POST = {"method": "POST", "path": "/x", "body": b"{}"}
SECRET = "ty_abc_verysecret"


@pytest.fixture(params=ways_to_try("sync", "async"))
def send(request):
    """Send by one of the two ways; both must behave alike."""

    def sync(link, message):
        with link:
            return link.send(**message)

    def on_a_loop(link, message):
        async def main():
            async with link:
                return await link.asend(**message)

        return asyncio.run(main())

    return sync if chosen_way(request) == "sync" else on_a_loop


def test_an_answer_comes_whole_with_lower_case_headers(server, send):
    server.acts["GET", "/x"] = [respond(201, {"a": 1}, "X-Thing: 7")]
    answer = send(HttpLink(server.url), GET)
    assert (answer.status, answer.json(), answer.header("x-thing")) == (201, {"a": 1}, "7")


def test_paths_and_queries_arrive_as_they_were_written(server, send):
    request = {"method": "GET", "path": "/a%2Fb/%2E%2E/%25", "query": (("q", "ä &/+"), ("q", "2"))}
    send(HttpLink(server.url + "/base/"), request)
    assert server.requests[0].target == "/base/a%2Fb/%2E%2E/%25?q=%C3%A4+%26%2F%2B&q=2"


def test_redirects_are_not_followed_and_cookies_not_kept(server):
    server.acts["GET", "/x"] = [respond(302, b"", "Location: /elsewhere", "Set-Cookie: a=1; Path=/")]
    with HttpLink(server.url) as link:
        assert link.send(**GET).status == 302
        link.send(**GET)
    assert [request.path for request in server.requests] == ["/x", "/x"]
    assert "cookie" not in server.requests[1].headers


def test_an_answer_over_the_limit_is_refused_while_it_comes(server, send):
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n"
    server.acts["GET", "/x"] = [send_raw(endless * 1)]
    server.acts["POST", "/x"] = [respond(200, b"x" * 2000)]
    with pytest.raises(Unavailable, match="larger than 1,000 bytes") as refused:
        send(HttpLink(server.url, max_bytes=1000), GET)
    assert (refused.value.info.effect, refused.value.info.retryable) == ("none", False)
    with pytest.raises(Unavailable, match="larger than 1,000 bytes") as refused:
        send(HttpLink(server.url, max_bytes=1000), POST)
    assert refused.value.info.effect == "unknown"


def test_no_compressed_answer_is_asked_for_and_one_that_is_none_is_refused(server, send):
    server.acts["GET", "/x"] = [respond(200, b"??", "Content-Encoding: gzip")]
    with pytest.raises(Unavailable, match="not encoded as it says"):
        send(HttpLink(server.url), GET)
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_a_server_that_never_accepts_had_nothing_sent_to_it(send):
    with socket.socket() as listening, contextlib.ExitStack() as queue:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):  # fills the queue of those who wait to be accepted
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        with pytest.raises(Unavailable, match="no connection to .* within 1.8 s") as failed:
            send(HttpLink(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=2), POST)
    assert (failed.value.info.effect, failed.value.info.retryable) == ("none", True)


def test_a_requests_own_limit_goes_before_the_links(server, send):
    release = threading.Event()
    server.acts["GET", "/x"] = [lambda connection, request: release.wait(SOON) and False]
    try:
        with pytest.raises(CallTimeout, match="within 0.1 s"):
            send(HttpLink(server.url, timeout=SOON), {"method": "GET", "path": "/x", "timeout": 0.1})
    finally:
        release.set()


def test_json_is_read_strictly(server, send):
    server.acts["GET", "/x"] = [respond(200, b'{"a": 1, "a": 2}')]
    answer = send(HttpLink(server.url), GET)
    with pytest.raises(MalformedSource, match="twice"):
        answer.json()


@pytest.mark.parametrize(
    "url",
    [
        *("", "127.0.0.1:8000", "ftp://x", "http://", "http://a b", "http://h:99999", "http://h:x", "http://[::1"),
        *("http://u:p@h", "http://h/?a=1", "http://h/#f", None, 7, "http://h\n"),
    ],
)
def test_an_invalid_url_is_a_config_error_that_shows_no_password(url):
    with pytest.raises(ConfigError) as wrong:
        HttpLink(url)
    assert "u:p" not in str(wrong.value)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_config_error(text):
    for url in (text, f"http://{text}", f"http://h/{text}"):
        try:
            address = read_base_url(url, "url")
        except ConfigError:
            continue
        assert read_base_url(address, "url") == address


def test_secrets_are_in_no_text_of_the_link_its_errors_or_its_logs(server, send, caplog):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    acts = [hang_up, send_raw(b"nonsense\r\n\r\n"), respond(401, {"error": "no"})]
    link = HttpLink(server.url, headers={"authorization": f"Bearer {SECRET}"})
    assert SECRET not in repr(link)
    for act in acts:
        server.acts["GET", "/x"] = [act]
        link = HttpLink(server.url, headers={"authorization": f"Bearer {SECRET}"})
        try:
            send(link, GET)
        except ToolyardError as error:
            told = "".join(traceback.TracebackException.from_exception(error, capture_locals=False).format())
            assert SECRET not in told + repr(error)
            assert error.__cause__ is None and error.__context__ is None
    assert len(server.requests) == 3
    assert all(request.headers["authorization"] == f"Bearer {SECRET}" for request in server.requests)
    assert SECRET not in caplog.text


def test_loops_in_several_threads_use_one_link_at_once(server):
    link = HttpLink(server.url)
    statuses = []

    def work():
        async def main():
            answers = await asyncio.gather(*(link.asend(**GET) for _ in range(10)))
            statuses.extend(answer.status for answer in answers)

        asyncio.run(main())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    link.close()
    assert statuses == [200] * 40


def test_closing_from_another_thread_closes_the_pool_of_a_running_loop(server):
    link = HttpLink(server.url)
    used, closed = threading.Event(), threading.Event()

    async def main():
        await link.asend(**GET)
        used.set()
        await asyncio.to_thread(closed.wait, SOON)
        await asyncio.to_thread(until, lambda: all(map(_is_closed, server.connections)))

    thread = threading.Thread(target=lambda: asyncio.run(asyncio.wait_for(main(), SOON)))
    thread.start()
    assert used.wait(SOON)
    link.close()
    closed.set()
    thread.join()
    assert all(_is_closed(connection) for connection in server.connections)


async def test_a_closed_link_says_so(server):
    link = HttpLink(server.url)
    await link.aclose()
    link.close()
    with pytest.raises(ToolyardError, match="is closed"):
        await link.asend(**GET)
    with pytest.raises(ToolyardError, match="is closed"):
        link.send(**GET)


def test_a_certificate_is_trusted_by_file_or_unseen_if_so_asked(tls_server, certificate, send):
    assert send(HttpLink(tls_server.url, verify=str(certificate[1])), GET).status == 200
    assert send(HttpLink(tls_server.url, verify=False), GET).status == 200


@pytest.mark.parametrize(
    "url", ["http://example.org", "http://192.0.2.1:8000/x", "http://[2001:db8::1]", "http://localhost.org"]
)
@pytest.mark.parametrize("header", ["authorization", "X-API-Key"])
def test_a_credential_sent_unencrypted_to_another_host_logs_one_warning(url, header, caplog):
    with caplog.at_level(logging.WARNING, "toolyard.links"), HttpLink(url, headers={header: SECRET}) as link:
        [record] = caplog.records
        assert link.url in record.getMessage() and "https://" in record.getMessage()
        assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("http://example.org", {}),
        ("http://example.org", {"accept": "text/plain"}),
        ("https://example.org", {"authorization": SECRET}),
        ("http://127.8.9.1:8000", {"authorization": SECRET}),
        ("http://[::1]", {"authorization": SECRET}),
        ("http://localhost:8000/yard", {"authorization": SECRET}),
        ("http://Yard.localhost.", {"authorization": SECRET}),
    ],
)
def test_no_warning_is_logged_without_an_exposed_credential(url, headers, caplog):
    HttpLink(url, headers=headers).close()
    assert caplog.records == []


def test_the_warning_comes_once_however_many_requests_there_are(server, caplog, monkeypatch):
    monkeypatch.setattr("toolyard.links.http.addresses.Target.is_exposed", True)
    with HttpLink(server.url, headers={"authorization": SECRET}) as link:
        for _ in range(3):
            link.send(**GET)
    assert [record.levelname for record in caplog.records if record.name == "toolyard.links.http.link"] == ["WARNING"]


def _is_closed(connection):
    """True once the other side has hung up, or this one."""
    if connection.fileno() < 0:
        return True
    try:
        connection.setblocking(False)
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        with contextlib.suppress(OSError):
            connection.setblocking(True)
