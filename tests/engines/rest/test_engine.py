"""`RESTToolEngine`: calls, answers and failures, against a real server on loopback."""

import asyncio
import base64
import json

import pytest
from waiting import SOON

from engines.rest.echo_server import EchoServer
from toolyard import (
    ConfigError,
    Effects,
    RestBinding,
    RESTToolEngine,
    Tool,
    ToolCall,
    ToolEngine,
    ToolRegistry,
    Toolyard,
    get_tool_engine,
)
from toolyard.loop.pacing import Breaker
from toolyard.model.bindings import RestBody, RestParameter


@pytest.fixture
def echo():
    server = EchoServer()
    yield server
    server.close()


def tool_at(echo, method="GET", path="/pets", *parameters, effects=None, named=None, base=None, **binding):
    bound = RestBinding(
        method,
        path,
        base or echo.url,
        tuple(parameters),
        named=echo.named if named is None else named,
        origins=tuple(f"http://{name}" for name in (echo.named if named is None else named)),
        **binding,
    )
    read = Effects.READ if method in ("GET", "HEAD") else Effects.WRITE
    return Tool("t", "n", parameters={"type": "object"}, effects=effects or read, binding=bound)


def engine_for(*tools, **options):
    options = {"timeout": SOON, "retry_delay": 0.0, **options}
    engine = RESTToolEngine(ToolRegistry(tools), **options)
    engine.setup("s")
    return engine


def ask(engine, arguments=None, call_id=None, name="n::t", mode="execute"):
    run = engine.execute if mode == "execute" else engine.simulate
    [result] = run("s", [ToolCall(name, arguments or {}, call_id)])
    return result


def once(echo, answer, method="GET", *, twice=False, **options):
    """The result of one call that is answered so."""
    echo.answer = lambda received: answer
    with engine_for(tool_at(echo, method, accepts=options.pop("accepts", ())), **{"retries": 0, **options}) as engine:
        return ask(engine)


def path_parameter(name="id", **more):
    return RestParameter(argument=name, name=name, location="path", **more)


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        ("application/json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("application/problem+json; charset=utf-8", b'"x"', "x"),
        ("application/json; charset=utf-16", '{"a": "\u00e4"}'.encode("utf-16"), {"a": "\u00e4"}),
        ("text/plain", b"hello", "hello"),
        ("text/plain; charset=latin-1", "\u00e4".encode("latin-1"), "\u00e4"),
        ("application/xml", b"<a/>", "<a/>"),
        ("image/png", b"\x89PNG", {"media_type": "image/png", "base64": base64.b64encode(b"\x89PNG").decode()}),
        ("", b'{"a": 1}', {"a": 1}),
        ("", b"plain", "plain"),
        ("", b"\xff\x00", {"media_type": "application/octet-stream", "base64": "/wA="}),
        ("application/json", b"", None),
        ("text/plain; charset=zip", b"x", "x"),
    ],
)
def test_an_answer_is_read_by_its_content_type(echo, kind, body, value):
    result = once(echo, (200, kind, body))
    assert not result.is_error and result.result == value


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1, "a": 2}', "'a'"),
        (b"[" * 300 + b"]" * 300, "not JSON"),
        (b'{"a": [1, 2', "not JSON"),
        (b"<html>", "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_json_that_is_none_is_a_clear_error(echo, body, said, method):
    result = once(echo, (200, "application/json", body), method)
    info = result.error_info
    assert info.code == "tool.execution_error" and said in info.message and not info.retryable
    assert info.effect == ("none" if method == "GET" else "done") and info.details["status"] == 200


def test_a_page_where_json_was_promised_is_an_error_and_json_by_another_name_is_not(echo):
    page = once(echo, (200, "text/html", b"<html>log in</html>"), accepts=("application/json",))
    assert "text/html, not JSON" in page.error and "log in" in page.error_info.details["body"]
    assert once(echo, (200, "text/plain", b'{"a": 1}'), accepts=("application/json",)).result == {"a": 1}
    assert once(echo, (200, "text/html", b"<p>"), accepts=("application/json", "text/html")).result == "<p>"


@pytest.mark.parametrize(
    ("status", "code", "retryable", "effect"),
    [
        (400, "tool.execution_error", False, "none"),
        (401, "tool.execution_error", False, "none"),
        (404, "tool.execution_error", False, "none"),
        (408, "tool.unavailable", True, "none"),
        (409, "tool.execution_error", False, "none"),
        (425, "tool.unavailable", True, "none"),
        (429, "tool.unavailable", True, "none"),
        (500, "tool.execution_error", False, "unknown"),
        (502, "tool.unavailable", True, "unknown"),
        (503, "tool.unavailable", True, "unknown"),
        (504, "tool.unavailable", True, "unknown"),
        (599, "tool.execution_error", False, "unknown"),
        (303, "tool.execution_error", False, "done"),
        (307, "tool.execution_error", False, "none"),
    ],
)
def test_a_status_becomes_an_error_with_its_facts(echo, status, code, retryable, effect):
    result = once(echo, (status, "application/json", b'{"message": "no such  pet", "code": 7}'), "POST")
    info = result.error_info
    assert (info.code, info.retryable, info.effect) == (code, retryable, effect)
    assert info.details["status"] == status and info.details["body"] == '{"message": "no such  pet", "code": 7}'
    assert f"answered {status}" in info.message and info.message.endswith(": no such pet")


def test_a_failure_says_which_path_failed_and_none_of_the_values_in_it(echo):
    echo.answer = lambda received: (404, "text/plain", b"")
    with engine_for(tool_at(echo, "GET", "/pets/{id}", path_parameter())) as engine:
        message = ask(engine, {"id": "s3cret"}).error_info.message
    assert message.startswith("GET /pets/{id} at http://127.0.0.1:") and "answered 404 Not Found" in message
    assert "s3cret" not in message


def test_a_long_failure_is_cut_and_bytes_are_not_shown(echo):
    info = once(echo, (500, "text/plain", b"x" * 100_000)).error_info
    assert len(info.details["body"]) == 2051
    assert once(echo, (500, "image/png", b"\0" * 10)).error_info.details["body"] == "<10 bytes>"


def test_retry_after_is_told(echo):
    result = once(echo, (429, "", b"", ("Retry-After", "7")), "POST")
    assert result.error_info.retry_after == 7


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "../admin", "a/../../b", "..\\b", "./x", "x/.", None, [], [""], {}],
)
def test_a_path_value_that_leads_elsewhere_or_nowhere_is_refused_before_anything_is_sent(echo, value):
    with engine_for(tool_at(echo, "GET", "/a/{id}/b", path_parameter())) as engine:
        result = ask(engine, {"id": value})
    assert result.error_info.code == "tool.invalid_args" and echo.received == []


@pytest.mark.parametrize("style", ["simple", "label", "matrix"])
@pytest.mark.parametrize(
    "value",
    [
        "a/b",
        "%2e%2e",
        "%2e%2e%2f",
        "?x=1",
        "#x",
        "a?b#c",
        "//evil.example",
        "http://evil.example/",
        "@evil.example",
        ";a=b",
        "a\\b",
        "a\r\nHost: evil",
        "\x00",
        "\u2024\u2024/x",
        "\uff0e\uff0e",
        "...",
        "a%00b",
        " ",
        "a&b=c",
    ],
)
def test_a_path_value_stays_one_step_of_the_path(echo, value, style):
    from urllib.parse import unquote

    with engine_for(tool_at(echo, "GET", "/a/{id}/b", path_parameter(style=style))) as engine:
        result = ask(engine, {"id": value})
    assert not result.is_error, result.error
    [received] = echo.received
    head, first, step, last = received.target.split("/")
    assert (head, first, last) == ("", "a", "b") and unquote(step).endswith(value) and "?" not in received.target
    assert received.headers["host"] == f"127.0.0.1:{echo.port}"


def test_label_and_composed_steps_cannot_become_dots_either(echo):
    label = tool_at(echo, "GET", "/a/{id}", path_parameter(style="label"))
    composed = tool_at(echo, "GET", "/a/.{id}", path_parameter())
    for tool in (label, composed):
        with engine_for(tool) as engine:
            for value in (["."], [""]):
                assert ask(engine, {"id": value}).error_info.code == "tool.invalid_args"
    assert echo.received == []


@pytest.mark.parametrize("location", ["header", "cookie"])
@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "\x00", "\x7f", ["a", "b\n"], {"a\r": "b"}])
def test_headers_and_cookies_hold_no_controls(echo, location, value):
    style = "simple" if location == "header" else "form"
    parameter = RestParameter(argument="v", name="x-v", location=location, style=style)
    with engine_for(tool_at(echo, "GET", "/a", parameter)) as engine:
        assert ask(engine, {"v": value}).error_info.code == "tool.invalid_args"
    assert echo.received == []


def test_values_that_a_style_could_not_tell_apart_are_refused(echo):
    parameters = [
        RestParameter(argument="space", name="a", location="query", style="spaceDelimited"),
        RestParameter(argument="pipe", name="b", location="query", style="pipeDelimited"),
        RestParameter(argument="head", name="c", location="header", style="simple"),
    ]
    with engine_for(tool_at(echo, "GET", "/a", *parameters)) as engine:
        for argument, values in [("space", ["a b", "c"]), ("pipe", ["a|b"]), ("head", ["a,b"])]:
            info = ask(engine, {argument: values}).error_info
            assert info.code == "tool.invalid_args" and repr(argument) in info.message
    assert echo.received == []


def test_a_query_or_fragment_in_the_path_of_a_specification_is_kept_or_dropped(echo):
    parameter = RestParameter(argument="q", name="q", location="query", style="form")
    with engine_for(tool_at(echo, "GET", "/a b?Action=x#y", parameter)) as engine:
        ask(engine, {"q": 1})
    assert echo.received[0].target == "/a%20b?Action=x&q=1"


def test_base64_that_is_none_is_refused(echo):
    body = RestBody(media_type="application/octet-stream", argument="body", binary=True)
    with engine_for(tool_at(echo, "POST", "/a", body=body)) as engine:
        assert ask(engine, {"body": "not base64!"}).error_info.code == "tool.invalid_args"
        assert not ask(engine, {"body": "aGk"}).is_error
    assert [received.body for received in echo.received] == [b"hi"]


def test_what_is_accepted_is_asked_for(echo):
    with engine_for(tool_at(echo, accepts=("text/csv", "application/json")), user_agent="mine/1") as engine:
        ask(engine)
    [received] = echo.received
    assert received.headers["accept"] == "application/json, text/csv, */*;q=0.1"
    assert received.headers["user-agent"] == "mine/1"


async def test_async_code_gets_the_same_answers(echo):
    echo.answer = lambda received: (200, "application/json", json.dumps(received.target).encode())
    with engine_for(tool_at(echo, "GET", "/a/{id}", path_parameter())) as engine:
        answers = await asyncio.gather(*(engine.aexecute("s", [ToolCall("n::t", {"id": i})]) for i in range(5)))
        assert [result.result for [result] in answers] == [f"/a/{i}" for i in range(5)]
        # Sync code on a thread whose loop runs.
        assert ask(engine, {"id": 9}).result == "/a/9"


def test_what_only_reads_is_tried_again_and_what_writes_is_not(echo):
    answers = []
    echo.answer = lambda received: answers.pop(0)
    with engine_for(tool_at(echo), retries=2) as engine:
        answers[:] = [(503, "", b""), (429, "", b"", ("Retry-After", "0")), (200, "application/json", b"1")]
        result = ask(engine)
        assert (result.result, result.metadata["attempts"]) == (1, 3)
    with engine_for(tool_at(echo, "POST"), retries=2) as engine:
        answers[:] = [(503, "", b"")]
        assert ask(engine, call_id="c").error_info.retryable


def test_with_an_idempotency_header_calls_with_an_id_are_tried_again_under_one_key(echo):
    answers = [(503, "", b""), (200, "application/json", b"1"), (503, "", b"")]
    echo.answer = lambda received: answers.pop(0)
    with engine_for(tool_at(echo, "POST"), retries=2, idempotency_header="Idempotency-Key") as engine:
        assert ask(engine, call_id="c").result == 1
        assert ask(engine).error_info.retryable
    first, second, third = (received.headers["idempotency-key"] for received in echo.received)
    assert first == second and first and third is None


def test_a_server_that_keeps_failing_is_left_alone_and_asked_again_later(echo):
    now = [0.0]
    status = [500]
    echo.answer = lambda received: (status[0], "application/json", b"1")
    with engine_for(tool_at(echo), retries=0) as engine:
        engine._breaker = Breaker(lambda: now[0], 3, 30.0)
        status[0] = 429
        assert [ask(engine).error_info.details["status"] for _ in range(5)] == [429] * 5
        status[0] = 500
        assert [ask(engine).error_info.details["status"] for _ in range(3)] == [500] * 3
        seen = len(echo.received)
        left = ask(engine).error_info
        assert (left.code, left.retry_after, left.effect) == ("tool.unavailable", 30.0, "none") and len(
            echo.received
        ) == seen
        now[0], status[0] = 31.0, 200
        assert [ask(engine).result for _ in range(3)] == [1, 1, 1]


def test_a_server_that_is_not_there_says_so_and_nothing_was_done(echo):
    echo.close()
    with engine_for(tool_at(echo, "POST"), retries=0) as engine:
        info = ask(engine).error_info
    assert (info.code, info.effect, info.retryable) == ("tool.unavailable", "none", True)


def test_what_only_a_specification_names_must_be_public(echo):
    with engine_for(tool_at(echo, named=()), retries=0) as engine:
        info = ask(engine).error_info
    assert info.code == "tool.denied" and echo.received == []
    for options in ({"allow_hosts": ["127.0.0.1"]}, {"allow_networks": ["127.0.0.0/8"]}, {"base_url": echo.url}):
        with engine_for(tool_at(echo, named=()), **options) as engine:
            assert not ask(engine).is_error, options


def test_the_base_url_of_the_engine_stands_for_that_of_every_tool(echo):
    with engine_for(tool_at(echo, named=(), base="https://elsewhere.example/v9"), base_url=f"{echo.url}/v1/") as engine:
        ask(engine)
    assert echo.received[0].target == "/v1/pets"


def test_a_tool_of_another_kind_is_not_for_it(echo):
    with engine_for(Tool("t", "n")) as engine:
        assert ask(engine).error_info.code == "tool.no_engine"
        assert not engine.takes(Tool("t", "n")) and engine.takes(tool_at(echo))


@pytest.mark.parametrize("base", ["/v1", "ftp://x/", "http://a:b@x/", "http:///x", "http://x/?a=1"])
def test_a_tool_that_is_nowhere_says_what_to_do(echo, base):
    with engine_for(tool_at(echo, base=base)) as engine:
        info = ask(engine).error_info
    assert info.code == "tool.no_engine" and "base_url" in info.hint


class Played(ToolEngine):
    """Answers in the place of a service."""

    def answer(self, invocation):
        return {"played": invocation.tool.name}


class OwnStyle(ToolEngine):
    """The older style: an `execute` of its own."""

    def execute(self, session_id, tool_calls):
        from toolyard import ToolResult

        return [ToolResult(call.call_id, call.name, "own") for call in tool_calls]


def test_simulate_makes_only_calls_that_read(echo):
    echo.answer = lambda received: (200, "application/json", b'"real"')
    read, write = tool_at(echo), tool_at(echo, "POST")
    for tool in (write, tool_at(echo, effects=Effects.UNKNOWN)):
        with engine_for(tool) as engine:
            info = ask(engine, mode="simulate").error_info
            assert info.code == "tool.denied" and "simulate_with" in info.hint and "live" in info.hint
            assert echo.received == [] and engine.get_session_state("s")["tool_executions"] == []
    with engine_for(read) as engine:
        assert ask(engine, mode="simulate").result == "real"
    with engine_for(write, simulate="live") as engine:
        assert ask(engine, mode="simulate").result == "real"


@pytest.mark.parametrize(("stand_in", "value"), [(Played, {"played": "t"}), (OwnStyle, "own")])
async def test_another_engine_may_answer_what_is_simulated(echo, stand_in, value):
    echo.answer = lambda received: (200, "application/json", b'"real"')
    with engine_for(tool_at(echo, "POST"), simulate_with=stand_in(name="fake")) as engine:
        assert ask(engine, mode="simulate").result == value
        [result] = await engine.asimulate("s", [ToolCall("n::t", {})])
        assert result.result == value and echo.received == []
        assert ask(engine).result == "real"
        engine.teardown("s")


def test_what_stands_in_must_not_reach_outside_itself():
    with RESTToolEngine() as other, pytest.raises(ConfigError, match="has effects itself"):
        RESTToolEngine(simulate_with=other)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeuot": 3}, "did you mean 'timeout'"),
        ({"simulate": "yes"}, "read, live"),
        ({"simulate_with": "other"}, "give the engine itself"),
        ({"auth": {"type": "bearr", "token": "x"}}, "did you mean 'bearer'"),
        ({"auth": {"token": "x"}}, "needs a 'type'"),
        ({"auth": {"type": "bearer", "tokn": "x"}}, "did you mean 'token'"),
        ({"auth": [{"type": "basic", "user": "u"}]}, r"auth\[0\]: basic needs 'password'"),
        ({"auth": {"type": "api_key", "in": "body", "name": "k", "value": "verysecret"}}, "header, query, cookie"),
        ({"auth": {"type": "bearer", "token": "verysecret\n"}}, "fits into a header"),
        ({"auth": {"type": "bearer", "token": "t", "origin": "https://x/path"}}, "origin"),
        ({"auth": {"type": "oauth2", "token_url": "x", "client_id": "a", "client_secret": "verysecret"}}, "token_url"),
        ({"auth": "x"}, "mapping or a list"),
        ({"base_url": "x"}, "base_url"),
        ({"base_url": "http://x/?a"}, "base_url"),
        ({"allow_hosts": "localhost"}, "allow_hosts: must be a list"),
        ({"allow_networks": ["10.0.0.1/8"]}, "network"),
        ({"headers": {"a b": "c"}}, "name of a header"),
        ({"headers": {"a": "verysecret\r\nb"}}, "headers.a"),
        ({"breaker_failures": 0}, "breaker_failures"),
        ({"breaker_pause": -1}, "breaker_pause"),
        ({"verify": "no"}, "verify"),
        ({"verify": False, "ca": "x"}, "give one of them"),
        ({"ca": "/nowhere.pem"}, "nowhere.pem"),
        ({"cert": ["a"]}, "cert"),
        ({"max_response_bytes": 0}, "max_bytes"),
        ({"idempotency_header": "a b"}, "name of a header"),
    ],
)
def test_a_wrong_option_is_said_when_the_engine_is_made(options, said):
    with pytest.raises(ConfigError, match=said) as refused:
        get_tool_engine("rest", registry=ToolRegistry(), **options)
    assert "verysecret" not in str(refused.value)


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


def test_simulate_with_that_is_no_name_is_a_clear_error():
    config = {
        "tools": {
            "registry": [{"type": "inline", "namespace": "n", "tools": [], "engine": "web"}],
            "engines": {"web": {"type": "rest", "simulate_with": ["a"]}},
        }
    }
    with pytest.raises(ConfigError, match="simulate_with"):
        Toolyard.from_config(config)


TOKEN = "tok/en+9f3a77c1"


@pytest.mark.parametrize(
    "options",
    [
        {"auth": {"type": "bearer", "token": TOKEN}},
        {"auth": {"type": "basic", "user": "me", "password": TOKEN}},
        {"auth": {"type": "api_key", "in": "query", "name": "k", "value": TOKEN}},
        {"auth": {"type": "api_key", "in": "cookie", "name": "k", "value": TOKEN}},
        {"headers": {"X-Api-Key": TOKEN}},
        {"headers": {"Authorization": f"Bearer {TOKEN}"}},
    ],
    ids=["bearer", "basic", "query", "cookie", "key header", "authorization header"],
)
@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-16", "text/plain", "image/png"])
def test_a_service_that_echoes_its_request_tells_nobody_the_credential(echo, options, kind):
    def answer(received):
        told = {"target": received.target, **dict(received.headers.items())}
        values = [value.removeprefix("Bearer ").removeprefix("Basic ") for value in told.values()]
        text = json.dumps([told, values, dict.fromkeys(values, 1), "kept"])
        return 200, kind, text.encode("utf-16" if "utf-16" in kind else "utf-8")

    echo.answer = answer
    with engine_for(tool_at(echo, security=[]), **options) as engine:
        result, encoded = ask(engine), base64.b64encode(f"me:{TOKEN}".encode()).decode()
        shown = f"{result} {engine.get_session_state('s')}"
        assert result.error is None
        assert "[redacted]" in str(result)
        assert TOKEN not in shown and encoded not in shown and "9f3a77c1" not in shown


def test_a_sessions_own_credential_is_not_repeated_either(echo):
    echo.answer = lambda received: (200, "application/json", json.dumps(dict(received.headers.items())).encode())
    with engine_for(tool_at(echo)) as engine:
        engine.set_credentials("s", {"type": "bearer", "token": TOKEN})
        assert ask(engine).result["authorization"] == "Bearer [redacted]"


def test_an_answer_is_judged_by_its_schema_before_the_credential_is_taken_out(echo):
    echo.answer = lambda received: (200, "application/json", json.dumps({"you": TOKEN}).encode())
    schema = {"type": "object", "properties": {"you": {"type": "string", "pattern": "^tok"}}}
    tool = tool_at(echo).replace(output_parameters=schema)
    with engine_for(tool, auth={"type": "bearer", "token": TOKEN}, output_check="strict") as engine:
        assert ask(engine).result == {"you": "[redacted]"}


def test_headers_that_are_no_credentials_stay_data(echo):
    echo.answer = lambda received: (200, "application/json", b'{"tenant": "acme-corporation"}')
    with engine_for(tool_at(echo), headers={"X-Tenant": "acme-corporation"}) as engine:
        assert ask(engine).result == {"tenant": "acme-corporation"}
