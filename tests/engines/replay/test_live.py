"""Real HTTP on loopback: recorded through the cassette, played without the server, made unreliable on purpose."""

import pytest

from engines.rest.echo_server import EchoServer
from toolyard import MultiToolEngine, ReplayToolEngine, RestBinding, RESTToolEngine, Tool, ToolCall, ToolRegistry

TOKEN = "tok-en-1234567890"


@pytest.fixture
def echo():
    server = EchoServer()
    server.answer = lambda received: (200, "application/json", b'{"said": "%b", "ok": true}' % TOKEN.encode())
    yield server
    server.close()


def tools(*servers):
    found = []
    for number, server in enumerate(servers):
        for method in ("GET", "POST"):
            binding = RestBinding(method, "/x", server.url, named=server.named, origins=(server.url,))
            found.append(
                Tool(f"{method.lower()}{number}", "n", binding=binding, effects="read" if method == "GET" else "write")
            )
    return ToolRegistry(found)


def asked(engine, *names, mode="execute"):
    if engine.get_session_state("s") is None:
        engine.setup("s")
    return getattr(engine, mode)("s", [ToolCall(f"n::{name}") for name in names])


def live(registry, echo, **options):
    return RESTToolEngine(registry, auth={"type": "bearer", "token": TOKEN}, **options)


@pytest.mark.parametrize("joined", [False, True])
def test_credentials_reach_the_server_and_never_the_cassette(tmp_path, echo, joined):
    registry, tape = tools(echo), tmp_path / "tape.jsonl"
    taped = ReplayToolEngine(registry, cassette=tape, mode="record", engine=live(registry, echo), name="taped")
    with MultiToolEngine(registry, {"n": taped}) if joined else taped as engine:
        results = asked(engine, "get0", "post0")
    assert [result.result["ok"] for result in results] == [True, True]
    assert len(echo.received) == 2 and TOKEN in str(echo.received[0].headers)
    assert TOKEN not in tape.read_text() and "[redacted]" in tape.read_text()
    echo.close()
    with ReplayToolEngine(registry, cassette=tape) as engine:
        results = asked(engine, "get0", "post0", mode="simulate")
        assert [result.result["ok"] for result in results] == [True, True]


def test_a_secret_without_an_origin_is_still_not_guessed_at(tmp_path, echo):
    other = EchoServer()
    registry = tools(echo, other)
    taped = ReplayToolEngine(registry, cassette=tmp_path / "t.jsonl", mode="record", engine=live(registry, echo))
    try:
        with taped:
            (result,) = asked(taped, "get0")
    finally:
        other.close()
    assert result.error_info.code == "tool.denied" and "do not say whether" in result.error
    assert echo.received == []


def test_a_live_service_is_made_unreliable_on_purpose(echo):
    registry = tools(echo)
    faults = {
        "seed": 3,
        "rules": [{"type": "rate_limit", "every": 2, "retry_after": 9}, {"type": "partial_result", "every": 3}],
    }
    with live(registry, echo, faults=faults) as engine:
        results = asked(engine, *["get0"] * 6)
        told = [result.metadata.get("fault", {}).get("type") for result in results]
        assert told[:5] == [None, "rate_limit", "partial_result", "rate_limit", None]
        assert results[1].error_info.retry_after == 9 and results[1].error_info.retryable
        assert set(results[2].result) == {"said"}
        assert len(echo.received) == 6 - sum(kind == "rate_limit" for kind in told)
