"""OAuth for MCP servers: a person logs in, tokens are renewed and kept, and nothing secret is shown."""

import asyncio
import builtins
import json
import os
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from waiting import SOON, until

from links.fake_server import respond
from links.mcp.conftest import free_port, text_of
from links.mcp.web_server import WebServer, stream
from toolyard.links.mcp import McpLink, authorization
from toolyard.links.mcp.authorization import LoginAnswer, LoopbackLogin, TokenFile
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, CallTimeout, ConfigError, Denied, Unavailable


class OAuthServer(WebServer):
    """An MCP server that is its own authorization server."""

    def __init__(self):
        self.valid = None
        self.issued = 0
        self.expires_in = 3600
        self.refuses_refresh = False
        super().__init__()

    def choose(self, request):
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            return respond(200, {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]})
        if request.path == "/.well-known/oauth-authorization-server":
            metadata = {
                "issuer": self.url,
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
            return respond(200, metadata | {f"{n}_endpoint": f"{self.url}/{p}" for n, p in
                         (("authorization", "authorize"), ("token", "token"), ("registration", "register"))})  # fmt: skip
        if request.path == "/register":
            return respond(201, {**request.json, "client_id": "c1", "client_secret": "registered-secret"})
        if request.path == "/authorize":
            query = {"code": "the-code", "state": request.query["state"], "iss": self.url}
            return respond(302, b"", f"Location: {request.query['redirect_uri']}?{urlencode(query)}")
        if request.path == "/token":
            return self.token(dict(parse_qsl(request.body.decode())))
        if request.headers.get("authorization") != f"Bearer {self.valid}" and request.path == "/mcp":
            where = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
            return respond(401, b"", f"WWW-Authenticate: {where}")
        return super().choose(request)

    def token(self, form):
        if form["grant_type"] == "refresh_token" and self.refuses_refresh:
            return respond(400, {"error": "invalid_grant"})
        self.issued += 1
        self.valid = f"access-token-{self.issued}"
        answer = {"access_token": self.valid, "token_type": "Bearer", "expires_in": self.expires_in}
        return respond(200, {**answer, "refresh_token": f"refresh-token-{self.issued}"})

    def grants(self):
        return [parse_qs(request.body.decode())["grant_type"][0] for request in self.asked("POST", "/token")]


class Browser(LoopbackLogin):
    """A person who agrees at once."""

    def __init__(self):
        self.shown = []

    async def show(self, url):
        self.shown.append(url)
        threading.Thread(target=lambda: urllib.request.urlopen(url).read()).start()


class Quiet(LoopbackLogin):
    """Says nothing."""

    async def show(self, url):
        assert url == ""


@pytest.fixture
def browser(monkeypatch):
    made = Browser()
    monkeypatch.setattr(authorization, "LOGIN", made)
    return made


@pytest.fixture
def oauth():
    with OAuthServer() as server:
        yield server


def server_at(oauth, **fields):
    fields = {"type": "oauth", "redirect_uri": f"http://127.0.0.1:{free_port()}/callback", **fields}
    return McpServer(name="oauth", url=f"{oauth.url}/mcp", auth=tuple(fields.items()))


def call(server):
    with McpLink(server) as link:
        return text_of(link.call("echo", {"text": "in"}))


def test_a_person_logs_in_once_and_the_token_goes_with_every_request(oauth, browser):
    assert call(server_at(oauth)) == "in"
    assert len(browser.shown) == 1
    assert oauth.grants() == ["authorization_code"]


def test_tokens_are_kept_in_a_file_for_the_owner_only(oauth, browser, tmp_path):
    store = tmp_path / "deep" / "tokens.json"
    server = server_at(oauth, store=str(store))
    call(server)
    assert store.stat().st_mode & 0o777 == 0o600
    call(server)
    assert len(browser.shown) == 1


def test_an_expired_token_is_renewed_without_a_person(oauth, browser, tmp_path):
    store = tmp_path / "tokens.json"
    server = server_at(oauth, store=str(store))
    call(server)
    content = json.loads(store.read_bytes())
    content[server.url]["tokens"]["expires_at"] = time.time() - 10
    store.write_text(json.dumps(content))
    assert call(server) == "in"
    assert oauth.grants() == ["authorization_code", "refresh_token"]
    assert len(browser.shown) == 1


def test_a_token_that_is_refused_is_renewed_without_a_person(oauth, browser):
    with McpLink(server_at(oauth)) as link:
        link.list_tools()
        oauth.valid = "somebody revoked it"
        assert text_of(link.call("echo", {"text": "on"})) == "on"
    assert oauth.grants() == ["authorization_code", "refresh_token"]


def test_where_renewing_is_refused_a_person_is_asked_again(oauth, browser):
    with McpLink(server_at(oauth)) as link:
        link.list_tools()
        oauth.valid, oauth.refuses_refresh = "somebody revoked it", True
        assert text_of(link.call("echo", {"text": "on"})) == "on"
    assert len(browser.shown) == 2


@pytest.mark.parametrize("refuses_refresh", [True, False])
def test_a_stream_of_notifications_that_is_refused_asks_nobody_to_log_in(oauth, browser, refuses_refresh):
    oauth.modern, oauth.refuses_refresh, go_on = False, refuses_refresh, threading.Event()

    def end_later(connection, request):
        go_on.wait(SOON)
        connection.sendall(b"0\r\n\r\n")

    oauth.get = stream(b"retry: 10\n\n", end=end_later)
    with McpLink(server_at(oauth)) as link:
        link.watch(lambda _: None)
        link.list_tools()
        until(lambda: oauth.asked("GET", "/mcp"))
        oauth.valid = "somebody revoked it"
        go_on.set()
        until(lambda: oauth.grants()[-1] == "refresh_token")
        until(lambda: len(oauth.asked("GET", "/mcp")) >= (2 if refuses_refresh else 4))
        assert len(browser.shown) == 1
        assert text_of(link.call("echo", {"text": "on"})) == "on"
        until(lambda: len(oauth.asked("GET", "/mcp")) >= 4)  # on after being refused, too
    assert len(browser.shown) == (2 if refuses_refresh else 1)


def test_closing_asks_nobody_to_log_in(oauth, browser):
    oauth.modern = False
    with McpLink(server_at(oauth)) as link:
        link.list_tools()
        oauth.valid, oauth.refuses_refresh = "somebody revoked it", True
    assert len(browser.shown) == 1
    assert [request.headers["mcp-session-id"] for request in oauth.asked("DELETE", "/mcp")] == ["s-1"]


def test_a_refused_login_is_an_error(oauth, browser):
    oauth.acts["GET", "/authorize"] = [
        lambda connection, request: respond(302, b"", f"Location: {request.query['redirect_uri']}?error=access_denied")(
            connection, request
        )
    ]
    with McpLink(server_at(oauth)) as link, pytest.raises(Denied, match="refused: 'access_denied'"):
        link.list_tools()


def test_a_failed_exchange_is_said_without_secrets(oauth, browser):
    oauth.acts["POST", "/token"] = [respond(400, {"error": "invalid_client", "seen": "registered-secret"})]
    with McpLink(server_at(oauth)) as link:
        with pytest.raises(Denied, match="authorization for .* failed") as caught:
            link.list_tools()
        assert "registered-secret" not in str(caught.value) + str(link.error) + repr(link)


def test_an_authorization_server_on_a_private_address_that_nobody_named_is_not_asked(oauth, browser):
    with OAuthServer() as other:
        oauth.acts["GET", "/.well-known/oauth-protected-resource/mcp"] = [
            respond(200, {"resource": f"{oauth.url}/mcp", "authorization_servers": [other.url]})
        ]
        with McpLink(server_at(oauth)) as link, pytest.raises(Denied, match="may not be called"):
            link.list_tools()
        assert other.requests == []


def test_without_the_sdk_the_remedy_is_named(oauth, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **options):
        if name.partition(".")[0] == "mcp":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"pip install 'toolyard\[mcp\]'"):
        McpLink(server_at(oauth))


def test_a_token_file_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text("{}")
    os.chmod(path, 0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        TokenFile(str(path), "x")


@pytest.mark.parametrize("content", ["{", "\0"])
def test_an_invalid_token_file_is_an_error(tmp_path, content):
    path = tmp_path / "tokens.json"
    path.write_text(content)
    os.chmod(path, 0o600)
    with pytest.raises(ConfigError, match="is not one"):
        TokenFile(str(path), "x")


def test_several_servers_share_a_token_file(tmp_path):
    path = str(tmp_path / "tokens.json")
    first, second = TokenFile(path, "a"), TokenFile(path, "b")
    first.save(tokens={"access_token": "1"})
    second.save(tokens={"access_token": "2"})
    assert TokenFile(path, "a").tokens == {"access_token": "1"}
    assert "access_token" not in repr(first)


def is_listened_at(port):
    """Told by the system: a connection would be taken for the browser's."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


async def test_the_login_answers_404_to_other_requests():
    port = free_port()
    redirect = f"http://127.0.0.1:{port}/back"
    waiting = asyncio.create_task(Quiet().log_in("", redirect, SOON))
    await asyncio.to_thread(until, lambda: is_listened_at(port))

    def fetch(path):
        try:
            return urllib.request.urlopen(f"http://{urlsplit(redirect).netloc}{path}").status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert await asyncio.to_thread(fetch, "/favicon.ico") == 404
    assert await asyncio.to_thread(fetch, "/back?nothing=1") == 404
    assert await asyncio.to_thread(fetch, "/back?code=c&state=s&iss=i") == 200
    answer = await waiting
    assert answer == LoginAnswer("c", "s", "i")
    assert "c" not in repr(answer).replace("LoginAnswer", "")


async def test_the_login_ends_in_time_and_only_on_this_machine():
    with pytest.raises(CallTimeout, match="no login within"):
        await Quiet().log_in("", f"http://127.0.0.1:{free_port()}/", 0.05)
    with pytest.raises(Denied, match="no address on this machine"):
        await Quiet().log_in("", "http://example.com/back", 1)
    port = free_port()
    waiting = asyncio.create_task(Quiet().log_in("", f"http://127.0.0.1:{port}/", SOON))
    await asyncio.to_thread(until, lambda: is_listened_at(port))
    with pytest.raises(Unavailable, match="cannot wait for the login"):
        await Quiet().log_in("", f"http://127.0.0.1:{port}/", 5)
    waiting.cancel()


async def test_the_login_prints_the_url(capsys, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    await LoopbackLogin().show("https://auth.example/login")
    assert "https://auth.example/login" in capsys.readouterr().err


def test_stores_of_many_servers_in_one_file_keep_every_token(tmp_path):
    path = tmp_path / "new" / "tokens.json"
    stores = [TokenFile(str(path), f"s{number}") for number in range(8)]
    together = threading.Barrier(len(stores))

    def save(store):
        together.wait(SOON)
        for number in range(5):
            store.save(tokens={"access_token": str(number)})

    threads = [threading.Thread(target=save, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    found = json.loads(path.read_text())
    assert found == {f"s{number}": {"tokens": {"access_token": "4"}} for number in range(8)}


def test_a_redirect_that_is_no_url_is_told_when_it_is_configured():
    with pytest.raises(ConfigError, match="redirect_uris is not valid"):
        McpLink(
            McpServer(name="a", url="http://127.0.0.1:9/mcp", auth=(("type", "oauth"), ("redirect_uri", "http://[")))
        )


def test_a_store_that_cannot_be_changed_is_an_error_of_the_call(tmp_path):
    path = tmp_path / "tokens.json"
    store = TokenFile(str(path), "a")
    path.write_text("{")
    os.chmod(path, 0o600)
    with pytest.raises(CallError, match="is not one"):
        store.save(tokens={"access_token": "hidden-one"})
    path.unlink()
    path.mkdir()
    with pytest.raises(CallError, match="token store") as raised:
        store.save(tokens={"access_token": "hidden-one"})
    assert "hidden-one" not in str(raised.value)
    assert raised.value.info.hint
    with pytest.raises(ConfigError):
        TokenFile(str(path), "b")  # said when it is configured, not with the first call
