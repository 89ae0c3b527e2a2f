"""Credentials, each bound to one origin."""

import asyncio
import base64
import copy
import json
import pickle
import threading

import pytest
from waiting import SOON, Clock, until

from links.conftest import get, local, post
from links.fake_server import FakeServer, hang_up, respond
from toolyard.links.http.auth import ApiKeyCredential, Basic, Bearer, ClientCredentials, CombinedCredential
from toolyard.links.http.messages import Credential
from toolyard.model.errors import CallError, CallTimeout, ConfigError, Unavailable

SECRET = "verysecretvalue"
ORIGIN = "https://api.example.com"


def every(origin=ORIGIN):
    return [
        Bearer(origin, SECRET),
        Basic(origin, "me", SECRET),
        ApiKeyCredential(origin, "header", "X-Key", SECRET),
        ApiKeyCredential(origin, "query", "key", SECRET),
        ApiKeyCredential(origin, "cookie", "sid", SECRET),
        ClientCredentials(origin, f"{origin}/token", "me", SECRET, ["a", "b"]),
        CombinedCredential(Bearer(origin, SECRET), ApiKeyCredential(origin, "query", "key", SECRET)),
    ]


@pytest.mark.parametrize("credential", every(), ids=lambda item: type(item).__name__)
def test_a_credential_shows_its_kind_and_origin_only(credential):
    shown = f"{credential!r} {credential} {[credential]}"
    assert SECRET not in shown and ORIGIN in shown and type(credential).__name__ in shown
    assert base64.b64encode(f"me:{SECRET}".encode()).decode() not in shown


@pytest.mark.parametrize("credential", every(), ids=lambda item: type(item).__name__)
def test_a_credential_is_neither_pickled_nor_copied(credential):
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            attempt(credential)


@pytest.mark.parametrize("credential", every(), ids=lambda item: type(item).__name__)
def test_a_credential_tells_what_must_be_hidden(credential):
    assert SECRET in credential.secrets


def test_each_kind_goes_where_it_belongs(server, ask):
    requests = [
        get(f"{server.url}/x?a=1", credential=credential, headers=(("cookie", "own=1"), ("Authorization", "mine")))
        for credential in every(server.url)
        if not isinstance(credential, ClientCredentials)
    ]
    ask(local(), *requests)
    bearer, basic, header, query, cookie, together = server.requests
    assert bearer.headers["authorization"] == f"Bearer {SECRET}"
    assert basic.headers["authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert (header.headers["x-key"], header.headers["authorization"]) == (SECRET, "mine")
    assert query.target == f"/x?a=1&key={SECRET}"
    assert cookie.headers["cookie"] == f"own=1; sid={SECRET}"
    assert (together.headers["authorization"], together.target) == (f"Bearer {SECRET}", f"/x?a=1&key={SECRET}")


@pytest.mark.parametrize("origin", ["https://127.0.0.1:{port}", "http://127.0.0.1", "http://localhost:{port}", ORIGIN])
def test_a_credential_does_not_go_to_another_origin(server, ask, origin):
    for credential in every(origin.format(port=server.port)):
        ask(local(), get(f"{server.url}/x", credential=credential))
    for request in server.requests:
        assert SECRET not in f"{request.target} {request.headers}"


def test_the_origin_has_many_spellings(server, ask):
    ask(local(), get(f"{server.url}/x", credential=Bearer(f"HTTP://127.0.0.1.:{server.port}/", SECRET)))
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def test_the_query_key_is_not_in_what_comes_back(server, ask):
    answer = ask(local(), get(f"{server.url}/x?a=1", credential=ApiKeyCredential(server.url, "query", "key", SECRET)))
    assert answer.url == f"{server.url}/x?a=1"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bearer("api.example.com", SECRET),
        lambda: Bearer(ORIGIN + "/path", SECRET),
        lambda: Bearer(ORIGIN, SECRET + "\r\nX: 1"),
        lambda: Bearer(ORIGIN, ""),
        lambda: Bearer(ORIGIN, SECRET + "\u00e4"),
        lambda: Basic(ORIGIN, "me:too", SECRET),
        lambda: ApiKeyCredential(ORIGIN, "body", "k", SECRET),
        lambda: ApiKeyCredential(ORIGIN, "header", "a b", SECRET),
        lambda: ApiKeyCredential(ORIGIN, "header", "a", SECRET + "\n"),
        lambda: ApiKeyCredential(ORIGIN, "cookie", "a", SECRET + "; b=1"),
        lambda: ApiKeyCredential(ORIGIN, "query", "", SECRET),
        lambda: ClientCredentials(ORIGIN, f"https://me:{SECRET}@login.example/", "me", SECRET),
        lambda: ClientCredentials(ORIGIN, "login.example", "me", SECRET),
        lambda: CombinedCredential(),
        lambda: CombinedCredential(Bearer(ORIGIN, SECRET), Bearer("https://other.example", SECRET)),
    ],
)
def test_what_could_not_be_sent_is_a_config_error_that_does_not_show_it(make):
    with pytest.raises(ConfigError) as refused:
        make()
    assert SECRET not in str(refused.value)


def test_credential_itself_is_abstract():
    with pytest.raises(TypeError):
        Credential(ORIGIN)


@pytest.fixture
def issuer():
    """A server that hands out tokens: t1, t2, ..."""
    with FakeServer() as fake:
        fake.otherwise = lambda request: respond(
            200, {"access_token": f"t{len(fake.requests)}", "token_type": "Bearer", "expires_in": 100}
        )
        yield fake


def client_credentials(server, issuer, **options):
    return ClientCredentials(server.url, f"{issuer.url}/token", "me", SECRET, ["read", "write"], **options)


def sent(server):
    return [request.headers.get("authorization") for request in server.requests]


def test_a_token_is_fetched_once_and_used_until_it_runs_out(server, issuer, ask):
    clock = Clock()
    credential = client_credentials(server, issuer, clock=clock)
    request = get(f"{server.url}/x", credential=credential, seconds=SOON)
    client = local()
    client.send(request)
    clock.now += 80
    client.send(request)
    clock.now += 15
    ask(client, request)
    assert sent(server) == ["Bearer t1", "Bearer t1", "Bearer t2"]
    [first, _] = issuer.requests
    assert (first.method, first.body) == ("POST", b"grant_type=client_credentials&scope=read+write")
    assert first.headers["authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert "t2" in credential.secrets


def test_the_secret_goes_into_the_form_if_so_asked(server, issuer, ask):
    ask(local(), get(f"{server.url}/x", credential=client_credentials(server, issuer, in_body=True)))
    assert f"client_id=me&client_secret={SECRET}".encode() in issuer.requests[0].body
    assert "authorization" not in issuer.requests[0].headers


def test_a_refused_token_is_fetched_anew_by_the_next_call(server, issuer, ask):
    server.acts["GET", "/x"] = [respond(401), respond(200)]
    request = get(f"{server.url}/x", credential=client_credentials(server, issuer))
    assert [answer.status for answer in ask(local(), request, request)] == [401, 200]
    assert sent(server) == ["Bearer t1", "Bearer t2"]


def test_many_threads_wait_for_one_fetch(server, issuer):
    release = threading.Event()
    issuer.acts["POST", "/token"] = [
        lambda connection, request: release.wait(SOON) and respond(200, {"access_token": "t1"})(connection, request)
    ]
    request = get(f"{server.url}/x", credential=client_credentials(server, issuer), seconds=SOON)
    with local() as client:
        threads = [threading.Thread(target=client.send, args=(request,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: issuer.requests)
        release.set()
        for thread in threads:
            thread.join(SOON)
    assert sent(server) == ["Bearer t1"] * 8 and len(issuer.requests) == 1


async def test_threads_and_tasks_wait_for_the_same_fetch_and_a_cancelled_one_is_made_again(server, issuer):
    release = threading.Event()

    def slowly(connection, request):
        release.wait(SOON)
        return False

    issuer.acts["POST", "/token"] = [slowly]
    request = get(f"{server.url}/x", credential=client_credentials(server, issuer), seconds=SOON)
    async with local() as client:
        first = asyncio.create_task(client.asend(request))
        await asyncio.to_thread(until, lambda: issuer.requests)
        others = [asyncio.create_task(client.asend(request)) for _ in range(4)]
        thread = asyncio.create_task(asyncio.to_thread(client.send, request))
        gone = asyncio.create_task(client.asend(request))
        await asyncio.sleep(0.05)
        for task in (gone, first):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        answers = await asyncio.gather(*others, thread)
    release.set()
    assert [answer.status for answer in answers] == [200] * 5
    assert len(issuer.requests) == 2 and set(sent(server)) == {"Bearer t2"}


@pytest.mark.parametrize(
    ("act", "words", "retryable"),
    [
        (respond(401, {"error": "invalid_client"}), r"answered 401 \(invalid_client\)", False),
        (respond(400, {"error": SECRET + "!"}), "answered 400", False),
        (respond(503, b"<html>"), "answered 503", True),
        (respond(429), "answered 429", True),
        (respond(302, b"", "Location: /elsewhere"), "answered 302", False),
        (respond(200, b"not json"), "without a bearer token", False),
        (respond(200, {"access_token": "a\r\nX: 1"}), "without a bearer token", False),
        (respond(200, {"access_token": 7}), "without a bearer token", False),
        (respond(200, {"access_token": "t", "token_type": "mac"}), "without a bearer token", False),
        (respond(200, [1]), "without a bearer token", False),
        (hang_up, "lost the connection", True),
    ],
)
def test_without_a_token_nothing_is_sent(server, issuer, ask, act, words, retryable):
    issuer.acts["POST", "/token"] = [act]
    with pytest.raises(Unavailable, match=f"no access token for {server.url}: .*{words}") as failed:
        ask(local(), post(f"{server.url}/x", credential=client_credentials(server, issuer), seconds=SOON))
    assert (failed.value.info.effect, failed.value.info.retryable) == ("none", retryable)
    assert SECRET not in f"{failed.value} {failed.value.info}" and server.requests == []


@pytest.mark.parametrize("expires", [None, "3600", 0, -5, 10**400, True, "soon", 1e308])
def test_any_lifetime_is_understood_or_guessed(server, issuer, ask, expires):
    body = json.dumps({"access_token": "t", "expires_in": expires}).encode()
    issuer.acts["POST", "/token"] = [respond(200, body)]
    ask(local(), get(f"{server.url}/x", credential=client_credentials(server, issuer)))
    assert sent(server) == ["Bearer t"]


def test_the_deadline_covers_the_fetch(server, issuer, ask):
    release = threading.Event()
    issuer.acts["POST", "/token"] = [lambda connection, request: release.wait(SOON) and False]
    with pytest.raises(CallTimeout, match="no access token") as late:
        ask(local(), post(f"{server.url}/x", credential=client_credentials(server, issuer), seconds=0.3))
    release.set()
    assert late.value.info.effect == "none" and server.requests == []


def test_the_deadline_covers_waiting_for_the_fetch_of_another(server, issuer, ask):
    release = threading.Event()
    issuer.acts["POST", "/token"] = [lambda connection, request: release.wait(SOON) and False]
    credential, faults = client_credentials(server, issuer), []

    def work():
        with local() as client:
            try:
                client.send(get(f"{server.url}/x", credential=credential, seconds=SOON))
            except CallError as error:
                faults.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: issuer.requests)
    with pytest.raises(CallTimeout, match="no access token .* in time"):
        ask(local(), get(f"{server.url}/x", credential=credential, seconds=0.2))
    release.set()
    thread.join(SOON)
    assert len(faults) == 1 and len(issuer.requests) == 1


def test_a_token_is_not_fetched_for_another_origin(server, issuer, ask):
    credential = ClientCredentials(ORIGIN, f"{issuer.url}/token", "me", SECRET)
    assert ask(local(), get(f"{server.url}/x", credential=credential)).status == 200
    assert issuer.connections == []
