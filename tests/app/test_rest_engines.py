"""A config with REST tools: who answers them, and what simulate does."""

import logging

import pytest
from engines.rest.echo_server import EchoServer

from toolyard import ConfigError, RestBinding, Tool, ToolCall, ToolEngine, Toolyard, register_tool_engine


@register_tool_engine("played_for_tests")
class Played(ToolEngine):
    """Answers in the place of a service."""

    type_name = "played"

    def answer(self, invocation):
        return "played"


SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "x", "version": "1"},
    "paths": {
        "/pets": {
            "get": {"operationId": "list", "responses": {"200": {"description": "x"}}},
            "post": {"operationId": "create", "responses": {"200": {"description": "x"}}},
        }
    },
}


@pytest.fixture
def echo():
    server = EchoServer()
    server.answer = lambda received: (200, "application/json", b'"real"')
    yield server
    server.close()


@pytest.fixture
def source(tmp_path, echo):
    import json

    path = tmp_path / "spec.json"
    path.write_text(json.dumps(SPEC))
    return {"type": "rest", "spec": str(path), "namespace": "pets", "base_url": echo.url}


def asked(yard, name, mode="execute"):
    if yard.tool_engine.get_session_state("s") is None:
        yard.tool_engine.setup("s")
    [result] = getattr(yard.tool_engine, mode)("s", [ToolCall(name)])
    return result


def test_rest_tools_are_answered_without_an_engine_in_the_config(source):
    with Toolyard.from_config({"tools": [source]}) as yard:
        assert asked(yard, "pets::list").result == asked(yard, "pets::create").result == "real"
        assert asked(yard, "pets::list", "simulate").result == "real"
        assert asked(yard, "pets::create", "simulate").error_info.code == "tool.denied"


def test_python_tools_beside_them_are_answered_too(source):
    core = {"type": "domains", "domains": ["core"]}
    with Toolyard.from_config({"tools": [source, core]}) as yard:
        yard.tool_engine.setup("s")
        [result] = yard.tool_engine.execute("s", [ToolCall("core::time_now")])
        assert not result.is_error
        assert asked(yard, "pets::list").result == "real"


def test_an_engine_stands_in_for_another_when_simulating(source, caplog):
    engines = {
        "api": {"type": "rest", "simulate_with": "fake", "timeout": 20},
        "fake": {"type": "played_for_tests"},
    }
    config = {"tools": {"registry": [{**source, "engine": "api"}], "engines": engines}}
    with caplog.at_level(logging.WARNING), Toolyard.from_config(config) as yard:
        assert asked(yard, "pets::create", "simulate").result == "played"
        assert asked(yard, "pets::list", "simulate").result == "real"
        assert asked(yard, "pets::create").result == "real"
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"simulate_with": "faek"}, "api.simulate_with: no engine is called 'faek'; did you mean 'fake'"),
        ({"simulate_with": "other"}, "has effects itself"),
        ({"simulate_with": 3}, "no engine is called 3"),
        ({"simulate": "never"}, "read, live"),
        ({"timeot": 3}, "did you mean 'timeout'"),
        ({"auth": {"type": "bearer", "tokn": "abc"}}, "did you mean 'token'"),
        ({"ca": "nowhere.pem"}, "nowhere.pem"),
    ],
)
def test_a_wrong_option_says_where_and_what_was_meant(source, options, said):
    engines = {"api": {"type": "rest", **options}, "fake": {"type": "played_for_tests"}, "other": {"type": "rest"}}
    with pytest.raises(ConfigError, match=said) as refused:
        Toolyard.from_config({"tools": {"registry": [{**source, "engine": "api"}], "engines": engines}})
    assert "tools.engines.api" in str(refused.value)


def test_an_engine_called_rest_answers_rest_tools_whose_source_names_none(source, echo):
    engines = {"rest": {"type": "rest", "auth": {"type": "bearer", "token": "abcdef"}}}
    with Toolyard.from_config({"tools": {"registry": [source], "engines": engines}}) as yard:
        assert asked(yard, "pets::list").result == "real"
    assert echo.received[0].headers["authorization"] == "Bearer abcdef"


def test_a_tool_that_is_added_later_reaches_public_addresses_only(source, echo):
    for config in (
        {"tools": []},
        {"tools": {"registry": [{**source, "engine": "a"}], "engines": {"a": {"type": "rest"}}}},
    ):
        with Toolyard.from_config(config) as yard:
            yard.tool_registry.add(Tool("late", "n", binding=RestBinding("GET", "/x", echo.url)))
            assert asked(yard, "n::late").error_info.code == "tool.denied"
            assert yard.tool_engine.takes(yard.tool_registry.get("n::late")[0])
            assert yard.tool_engine.part("rest").name == "rest"
    assert echo.received == []
