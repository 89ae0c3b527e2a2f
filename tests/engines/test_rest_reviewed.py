"""What a review of the REST engine found, and must not come back."""

import threading
import time

import pytest

from engines.http.echo_server import EchoServer
from engines.test_rest import ask, engine_for, tool_at
from toolyard import ConfigError, Effects, Toolyard
from toolyard.model.bindings import RestParameter
from toolyard.model.errors import SessionError

TOKEN = b'{"access_token": "TOKEN-abcdef123", "token_type": "Bearer", "expires_in": 600}'


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


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("/l/{a}", {"a": ["a/../../admin"]}),
        ("/l/{a}", {"a": ["..\\x"]}),
        ("/cmp/{a}..{b}", {"a": "x/", "b": "/admin"}),
    ],
)
def test_no_value_leads_upwards_however_it_is_composed(echo, path, arguments):
    places = [RestParameter(argument=name, name=name, location="path") for name in arguments]
    with engine_for(tool_at(echo, "GET", path, *places)) as engine:
        assert ask(engine, arguments).error_info.code == "tool.invalid_args"
    assert echo.received == []


def test_a_method_that_changes_things_is_not_simulated_whatever_its_label(echo):
    with engine_for(tool_at(echo, "DELETE", effects=Effects.READ)) as engine:
        assert ask(engine, mode="simulate").error_info.code == "tool.denied"
    assert echo.received == []


def test_one_callers_lack_of_time_is_not_the_others(echo, other):
    asked, slow = [], threading.Event()

    def answer(got):
        asked.append(got)
        if len(asked) == 1:
            slow.wait(2)
        return (200, "application/json", TOKEN)

    other.answer = answer
    with engine_for(tool_at(echo), auth=oauth(other), retries=0) as engine:
        engine.setup("hasty")
        results = []
        hasty = threading.Thread(
            target=lambda: results.append(engine.execute("hasty", [_call()], timeout=0.3)[0].error_info.code)
        )
        hasty.start()
        while not asked:
            time.sleep(0.005)
        patient = ask(engine)
        slow.set()
        hasty.join()
    assert results == ["tool.timeout"]
    assert not patient.is_error


def _call():
    from toolyard import ToolCall

    return ToolCall("n::t")


def test_a_token_server_in_trouble_does_not_close_the_api(echo, other):
    other.answer = lambda got: (429, "text/plain", b"later")
    with engine_for(tool_at(echo), auth=oauth(other), retries=0, breaker_failures=2) as engine:
        for _ in range(4):
            assert "no access token" in ask(engine).error
        other.answer = lambda got: (200, "application/json", TOKEN)
        assert not ask(engine).is_error


def test_no_session_loses_its_credentials_to_another(echo, monkeypatch):
    monkeypatch.setattr("toolyard.engines.rest._MAX_SESSIONS", 1)
    with engine_for(tool_at(echo)) as engine:
        engine.set_credentials("a", {"type": "bearer", "token": "of-a"})
        with pytest.raises(SessionError, match="the most allowed"):
            engine.set_credentials("b", {"type": "bearer", "token": "of-b"})
        engine.set_credentials("a", {"type": "bearer", "token": "newer"})


def test_simulate_with_that_is_no_name_is_a_clear_error():
    config = {
        "tools": {
            "registry": [{"type": "inline", "namespace": "n", "tools": [], "engine": "web"}],
            "engines": {"web": {"type": "rest", "simulate_with": ["a"]}},
        }
    }
    with pytest.raises(ConfigError, match="simulate_with"):
        Toolyard.from_config(config)
