"""Credentials of `RESTToolEngine`: which goes where, and that none is ever shown."""

import base64
import json
import logging
import threading

import pytest
from waiting import SOON, until

from engines.rest.echo_server import EchoServer
from engines.rest.test_engine import ask, engine_for, tool_at
from toolyard import MultiToolEngine, ToolCall, ToolRegistry
from toolyard.engines.rest.operation import RestOperation, make_error
from toolyard.links.http.auth_entry import read_auth
from toolyard.links.http.messages import Incoming
from toolyard.model.bindings import RestBinding, RestScheme
from toolyard.model.errors import ConfigError, SessionError

SECRET = "s3cr3t-value-of-mine"
TOKEN = b'{"access_token": "TOKEN-abcdef123", "token_type": "Bearer", "expires_in": 600}'
BEARER = {"type": "bearer", "token": SECRET}


@pytest.fixture
def echo():
    server = EchoServer()
    yield server
    server.close()


@pytest.fixture
def other():
    server = EchoServer()
    yield server
    server.close()


def last(echo):
    return echo.received[-1]


@pytest.mark.parametrize(
    ("auth", "where"),
    [
        (BEARER, lambda got: got.headers["authorization"] == f"Bearer {SECRET}"),
        (
            {"type": "basic", "user": "me", "password": SECRET},
            lambda got: got.headers["authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode(),
        ),
        (
            {"type": "api_key", "in": "header", "name": "X-Key", "value": SECRET},
            lambda got: got.headers["x-key"] == SECRET,
        ),
        (
            {"type": "api_key", "in": "query", "name": "key", "value": SECRET},
            lambda got: got.target == f"/pets?key={SECRET}",
        ),
        (
            {"type": "api_key", "in": "cookie", "name": "sid", "value": SECRET},
            lambda got: got.cookies()["sid"] == SECRET,
        ),
    ],
)
def test_a_credential_goes_where_the_operator_said_that_tools_are(echo, auth, where):
    with engine_for(tool_at(echo), auth=auth) as engine:
        assert not ask(engine).is_error and where(last(echo))
    with engine_for(tool_at(echo), auth={**auth, "origin": echo.url}) as engine:
        assert not ask(engine).is_error and where(last(echo))


def test_a_refusal_says_of_a_credential_that_was_not_sent_how_it_would_be(echo):
    echo.answer = lambda got: (401, "text/plain", b"no")
    options = {"auth": BEARER, "allow_networks": ["127.0.0.0/8"]}
    with engine_for(tool_at(echo, named=()), **options) as engine:
        assert f"has to say that it is for {echo.url}, by `origin`" in ask(engine).error_info.hint
    with engine_for(tool_at(echo, named=()), **{**options, "auth": None}) as engine:
        assert "no credential was sent: the operator sets the variable" in ask(engine).error_info.hint
    with engine_for(tool_at(echo), **options) as engine:
        assert "is refused" in ask(engine).error_info.hint


def test_a_credential_never_goes_where_only_a_specification_says(echo, other):
    options = {"auth": BEARER, "headers": {"X-Mine": SECRET}, "allow_networks": ["127.0.0.0/8"]}
    for tool in (tool_at(echo, named=()), tool_at(echo, named=other.named), tool_at(echo, named=("127.0.0.1",))):
        with engine_for(tool, **options) as engine:
            assert not ask(engine).is_error
            assert last(echo).headers["authorization"] is None and last(echo).headers["x-mine"] is None
    with engine_for(tool_at(echo), **options) as engine:
        ask(engine)
        assert (last(echo).headers["authorization"], last(echo).headers["x-mine"]) == (f"Bearer {SECRET}", SECRET)
    with engine_for(tool_at(echo), auth={**BEARER, "origin": other.url}) as engine:
        ask(engine)
        assert last(echo).headers["authorization"] is None


def test_a_redirect_to_another_origin_gets_nothing(echo, other):
    echo.answer = lambda received: (302, "", b"", ("Location", other.url + "/x"))
    with engine_for(tool_at(echo), auth=BEARER, allow_networks=["127.0.0.0/8"], retries=0) as engine:
        info = ask(engine).error_info
    assert info.code == "tool.denied" and other.url in info.message and other.received == []


SCHEMES = {
    "token": RestScheme(type="bearer"),
    "login": RestScheme(type="basic"),
    "key": RestScheme(type="api_key", location="header", name="X-Key"),
    "oauth": RestScheme(type="oauth2"),
}
ENTRIES = [
    {"type": "api_key", "in": "header", "name": "x-key", "value": "the-key"},
    {"type": "bearer", "token": "the-token"},
    {"type": "basic", "user": "u", "password": "p"},
    {"type": "bearer", "token": "named", "scheme": "special"},
]


@pytest.mark.parametrize(
    ("security", "authorization", "key"),
    [
        ((("token",),), "Bearer the-token", None),
        ((("login",),), "Basic dTpw", None),
        ((("key",),), None, "the-key"),
        ((("key", "token"),), "Bearer the-token", "the-key"),
        ((("oauth",),), "Bearer the-token", None),
        ((("special",),), "Bearer named", None),
        ((("unknown",), ("login",)), "Basic dTpw", None),
        (((), ("login",)), "Basic dTpw", None),
        ((), "Bearer the-token", "the-key"),
        ((("unknown",),), "Bearer the-token", "the-key"),
    ],
)
def test_a_credential_is_chosen_by_what_the_specification_asks_for(echo, security, authorization, key):
    with engine_for(tool_at(echo, security=security, schemes=SCHEMES), auth=ENTRIES) as engine:
        assert not ask(engine).is_error
    assert (last(echo).headers["authorization"], last(echo).headers["x-key"]) == (authorization, key)


def test_oauth2_fetches_a_token_once_from_a_place_the_operator_named(echo, other):
    other.answer = lambda got: (
        200,
        "application/json",
        b'{"access_token": "fetched-token", "token_type": "Bearer", "expires_in": 600}',
    )
    auth = {
        "type": "oauth2",
        "token_url": f"{other.url}/token",
        "client_id": "me",
        "client_secret": SECRET,
        "scopes": ["a", "b"],
    }
    with engine_for(tool_at(echo), auth=auth) as engine:
        assert [ask(engine).is_error for _ in range(3)] == [False] * 3
    assert {got.headers["authorization"] for got in echo.received} == {"Bearer fetched-token"}
    [asked] = other.received
    assert asked.form()[0].to_dict() == {"grant_type": "client_credentials", "scope": "a b"}


def test_sessions_have_credentials_of_their_own_until_they_end(echo):
    with engine_for(tool_at(echo), auth=BEARER) as engine:
        engine.setup("mine")
        engine.set_credentials("mine", {"type": "bearer", "token": "of-session"})
        engine.execute("mine", [ToolCall("n::t")])
        assert last(echo).headers["authorization"] == "Bearer of-session"
        ask(engine)
        assert last(echo).headers["authorization"] == f"Bearer {SECRET}"
        engine.teardown("mine")
        engine.setup("mine")
        engine.execute("mine", [ToolCall("n::t")])
        assert last(echo).headers["authorization"] == f"Bearer {SECRET}"
        engine.setup("owned", owner="me")
        engine.set_credentials("owned", {"type": "bearer", "token": "of-owner"}, owner="me")
        engine.execute("owned", [ToolCall("n::t")], owner="me")
        assert last(echo).headers["authorization"] == "Bearer of-owner"


def test_credentials_of_a_session_that_several_engines_share_end_with_it(echo):
    tool = tool_at(echo)
    rest = engine_for(tool)
    with MultiToolEngine(ToolRegistry([tool]), {"n": rest}) as engine:
        engine.setup("s")
        engine.part("rest").set_credentials("s", BEARER)
        ask(engine)
        assert last(echo).headers["authorization"] == f"Bearer {SECRET}"
        engine.teardown("s")
        engine.setup("s")
        ask(engine)
        assert last(echo).headers["authorization"] is None


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize(
    "auth",
    [
        BEARER,
        {"type": "basic", "user": "me", "password": SECRET},
        {"type": "api_key", "in": "query", "name": "key", "value": SECRET},
        {"type": "api_key", "in": "header", "name": "X-Key", "value": SECRET},
    ],
)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_server_that_repeats_a_credential_does_not_get_it_into_an_error_or_a_log(
    echo, auth, in_session, status, caplog
):
    caplog.set_level(logging.DEBUG)

    def repeat(got):
        said = {
            "message": f"bad {got.target} {got.headers['authorization']} {got.headers['x-key']} {SECRET}" + "x" * 3000
        }
        return (status, "application/json", json.dumps(said).encode()[:-1])

    echo.answer = repeat
    with engine_for(tool_at(echo), auth=None if in_session else auth, retries=0) as engine:
        if in_session:
            engine.set_credentials("s", auth)
        result = ask(engine)
        shown = f"{result!r} {engine!r} {vars(engine)!r} {engine.get_session_state('s')}"
    assert result.is_error and "bad" in result.error_info.details["body"]
    encoded = base64.b64encode(f"me:{SECRET}".encode()).decode()
    for text in (shown, caplog.text):
        assert SECRET not in text and encoded not in text


def test_which_of_several_services_a_credential_without_origin_is_for_is_not_guessed(echo, other):
    import msgspec

    first = tool_at(echo)
    second = msgspec.structs.replace(tool_at(other), name="u")
    for options in ({"auth": BEARER}, {"headers": {"X-Mine": SECRET}}):
        with engine_for(first, second, **options) as engine:
            for name in ("n::t", "n::u"):
                info = ask(engine, name=name).error_info
                assert info.code == "tool.denied" and "origin" in info.hint
    assert echo.received == other.received == []
    with engine_for(first, second, auth={**BEARER, "origin": echo.url}) as engine:
        assert not ask(engine).is_error and not ask(engine, name="n::u").is_error
    assert (last(echo).headers["authorization"], last(other).headers["authorization"]) == (f"Bearer {SECRET}", None)
    routed = {"n": engine_for(first, auth=BEARER), "m": engine_for(name="second")}
    elsewhere = msgspec.structs.replace(second, namespace="m")
    with MultiToolEngine(ToolRegistry([first, elsewhere]), routed) as engine:
        engine.setup("s")
        assert not ask(engine).is_error and not ask(engine, name="m::u").is_error
    assert (last(echo).headers["authorization"], last(other).headers["authorization"]) == (f"Bearer {SECRET}", None)


def test_secrets_of_sessions_are_hidden_while_there_are_such_sessions(echo):
    with engine_for(tool_at(echo)) as engine:
        redactor = engine._path.redactor
        for session in ("a", "b"):
            engine.set_credentials(session, BEARER)
        engine.set_credentials("a", None)
        assert SECRET not in redactor.text(f"x {SECRET}")
        engine.teardown("b")
        assert redactor.text(f"x {SECRET}") == f"x {SECRET}"


def test_a_refusal_says_what_the_specification_asks_for(echo):
    echo.answer = lambda received: (401, "", b"")
    with engine_for(tool_at(echo, security=(("key", "token"), ("login",)), schemes=SCHEMES)) as engine:
        assert "key with token or login" in ask(engine).error_info.hint


def oauth(other):
    return {"type": "oauth2", "token_url": f"{other.url}/token", "client_id": "me", "client_secret": "s3cret-of-mine"}


def test_a_token_that_was_refused_is_not_shown(echo, other):
    other.answer = lambda got: (200, "application/json", TOKEN)
    echo.answer = lambda got: (401, "text/plain", b"bad token TOKEN-abcdef123")
    with engine_for(tool_at(echo), auth=oauth(other), retries=0) as engine:
        for _ in range(2):
            result = ask(engine)
            assert result.error_info.details["status"] == 401
            assert "TOKEN-abcdef123" not in str(result.to_dict())


def test_values_of_the_engines_headers_are_not_shown(echo):
    echo.answer = lambda got: (418, "text/plain", b"you said HEADER-98765")
    with engine_for(tool_at(echo), headers={"x-key": "HEADER-98765"}, retries=0) as engine:
        result = ask(engine)
        assert result.is_error
        assert "HEADER-98765" not in str(result.to_dict())


def test_one_callers_lack_of_time_is_not_the_others(echo, other):
    asked, slow = [], threading.Event()

    def answer(got):
        asked.append(got)
        if len(asked) == 1:
            slow.wait(SOON)
        return (200, "application/json", TOKEN)

    other.answer = answer
    with engine_for(tool_at(echo), auth=oauth(other), retries=0) as engine:
        engine.setup("hasty")
        results = []
        hasty = threading.Thread(
            target=lambda: results.append(engine.execute("hasty", [ToolCall("n::t")], timeout=0.3)[0].error_info.code)
        )
        hasty.start()
        until(lambda: asked)
        patient = ask(engine)
        slow.set()
        hasty.join()
    assert results == ["tool.timeout"]
    assert not patient.is_error


def test_a_token_server_in_trouble_does_not_close_the_api(echo, other):
    other.answer = lambda got: (429, "text/plain", b"later")
    with engine_for(tool_at(echo), auth=oauth(other), retries=0, breaker_failures=2) as engine:
        for _ in range(4):
            assert "no access token" in ask(engine).error
        other.answer = lambda got: (200, "application/json", TOKEN)
        assert not ask(engine).is_error


def test_no_session_loses_its_credentials_to_another(echo, monkeypatch):
    monkeypatch.setattr("toolyard.engines.rest.engine._MAX_SESSIONS", 1)
    with engine_for(tool_at(echo)) as engine:
        engine.set_credentials("a", {"type": "bearer", "token": "of-a"})
        with pytest.raises(SessionError, match="the maximum"):
            engine.set_credentials("b", {"type": "bearer", "token": "of-b"})
        engine.set_credentials("a", {"type": "bearer", "token": "newer"})


@pytest.mark.parametrize("name", ["X-${HOME}", "x" * 5_000])
def test_a_hint_repeats_no_line_of_a_specification_that_would_be_harmful_or_long(name):
    schemes = {"s": RestScheme(type="api_key", location="query", name=name)}
    operation = RestOperation(RestBinding("GET", "/", "https://x.example", security=(("s",),), schemes=schemes))
    refused = Incoming(status=401, headers=(), body=b"", url="https://x.example")
    hint = make_error(refused, operation, (), 0.0).info.hint
    assert "no credential was sent" in hint and "${" not in hint and len(hint) < 500


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "token": ""},
        {"type": "basic", "user": "", "password": ""},
        {"type": "api_key", "in": "header", "name": "X-Key", "value": ""},
        {"type": "oauth2", "token_url": "https://x.example/t", "client_id": "", "client_secret": ""},
    ],
    ids=lambda auth: auth["type"],
)
def test_a_credential_with_nothing_in_it_is_none_but_its_keys_are_looked_at(auth):
    assert read_auth(auth, "auth") == () == read_auth([auth], "auth")
    with pytest.raises(ConfigError, match="unknown key 'orign'"):
        read_auth({**auth, "orign": "https://x.example"}, "auth")


def test_a_password_may_be_empty_and_the_user_is_the_secret_then():
    [entry] = read_auth({"type": "basic", "user": "sk_live_abc", "password": ""}, "auth")
    assert "sk_live_abc" in entry.secrets and "" not in entry.secrets


def test_an_empty_key_of_another_kind_hides_no_token():
    with pytest.raises(ConfigError, match="unknown key 'password'"):
        read_auth({"type": "bearer", "token": "abcdefgh", "password": ""}, "auth")
