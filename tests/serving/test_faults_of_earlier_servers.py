"""Twenty-three faults that earlier servers of this kind had, each of which must not come back."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from service_support import RAN, Served, desk_tools, served
from waiting import SOON, Hung

from toolyard import function_tool

INVOKE = "/arp/v1/tool-invocations"
HEAD = b"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools(), body_timeout=0.5) as server:
        yield server


@contextmanager
def serving(tmp_path, *arguments, **env):
    """`toolyard serve` as a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolyard", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), **env},
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Served(None, json.loads(line)["port"]), json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def refused(tmp_path, *arguments, **env):
    """`toolyard serve` that does not come up: its exit status and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "toolyard", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, **env},
    )
    return done.returncode, done.stderr, done.stdout


def test_01_a_truncated_body_does_not_hold_the_server_for_ever(yard):
    answer = yard.raw(HEAD + b"Content-Length: 100\r\n\r\n{")
    assert (answer.status, answer.error["code"]) == (408, "request.timeout")
    assert yard.invoke("echo", {"text": "x"}).status == 200


def test_02_a_negative_content_length_is_a_400(yard):
    answer = yard.raw(HEAD + b"Content-Length: -1\r\n\r\n")
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_http")
    assert answer.headers["x-request-id"]


def test_03_a_body_above_the_cap_is_a_413(yard):
    answer = yard.raw(HEAD + b"Content-Length: 10485760\r\n\r\n")
    assert (answer.status, answer.error["code"]) == (413, "request.too_large")


@pytest.mark.parametrize("text", [rb"\ud800", rb"\udfff", rb"\ud800\ud800"])
def test_04_half_of_a_surrogate_pair_gets_an_answer_in_json(yard, text):
    answer = yard.post("/v1/tools/echo:invoke", b'{"args": {"text": "' + text + b'"}}')
    assert answer.status in (200, 400) and answer.json
    assert yard.post("/v1/tools/echo:invoke", rb'{"args": {"text": "\ud83d\ude00"}}').json["result"] == {"text": "😀"}


@pytest.mark.parametrize("expression", ["1e308*10", "-1e308*10", "1e308*10-1e308*10", "1e999", "9**9**9"])
def test_05_no_answer_has_infinity_or_nan_in_it(yard, expression):
    v0 = yard.invoke("calc", {"expression": expression})
    assert v0.json["ok"] is False and v0.json["error"]["code"] == "tool.execution_error"
    arp = yard.arp(f"05-{expression}", "calc", {"expression": expression})
    assert arp.json["ok"] is False
    assert yard.invoke("desk::infinite", {}).json["error"]["code"] == "tool.invalid_output"


@pytest.mark.parametrize("extra", [{"unknown": 1}, {"caller": {"id": "x"}}, {"caller": 5}, {"extensions": {"bare": 1}}])
def test_06_what_the_schema_does_not_allow_is_a_400(yard, extra):
    answer = yard.arp("06", "echo", {"text": "x"}, extra)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


def test_07_duplicate_keys_are_a_400_at_every_depth(yard):
    for body in (
        b'{"invocation_id": "07", "tool_name": "echo", "args": {"text": "a", "text": "b"}}',
        b'{"invocation_id": "07", "invocation_id": "07", "tool_name": "echo", "args": {"text": "a"}}',
    ):
        answer = yard.post(INVOKE, body)
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_json")


def test_08_an_id_and_a_name_of_different_tools_run_neither(yard):
    both = {"args": {"word": "08"}, "tool_name": "desk::count"}
    unknown = yard.post(INVOKE, {**both, "invocation_id": "08a", "tool_id": "tool_unknown"})
    assert unknown.json["ok"] is False and unknown.json["error"]["code"] == "tool.not_found"
    different = yard.post(INVOKE, {**both, "invocation_id": "08b", "tool_id": "tool_echo"})
    assert (different.status, different.error["code"]) == (400, "request.conflict")
    assert "08" not in RAN


def test_09_a_repeated_invocation_id_runs_nothing_again(yard):
    one, two = (yard.arp("09", "desk::count", {"word": "09"}) for _ in range(2))
    assert one.body == two.body and RAN.count("09") == 1
    assert yard.arp("09", "desk::count", {"word": "09b"}).status == 409


SCHEMAS = [
    ({"type": "integer", "maximum": 5}, 5, 6),
    ({"type": "integer", "minimum": 5}, 5, 4),
    ({"enum": [1, "a", None]}, None, 2),
    ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
    ({"type": "string", "pattern": "^a+$"}, "aa", "b"),
    ({"type": "string", "maxLength": 2}, "ab", "abc"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "x"}),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1, [1]),
    ({"$ref": "#/$defs/small"}, 1, 100),
    ({"type": ["string", "null"], "maxLength": 2}, None, "abc"),
    ({"type": "integer"}, 1.0, 1.5),
    ({"const": {"a": [1]}}, {"a": [1]}, {"a": [2]}),
    ({"allOf": [{"type": "integer"}], "minimum": 3}, 3, 2),
]


@pytest.mark.parametrize(("schema", "good", "bad"), SCHEMAS)
def test_10_arguments_are_checked_by_the_whole_of_json_schema(yard, schema, good, bad):
    def anything(value) -> str:
        return "ran"

    name = f"t{SCHEMAS.index((schema, good, bad))}"
    parameters = {
        "type": "object",
        "properties": {"value": schema},
        "required": ["value"],
        "$defs": {"small": {"type": "integer", "maximum": 9}},
    }
    tool = function_tool(anything, namespace="ten", name=name, parameters=parameters)
    yard.service.yard.tool_registry.add(tool)
    assert yard.invoke(f"ten::{name}", {"value": good}).json["ok"] is True
    answer = yard.invoke(f"ten::{name}", {"value": bad})
    assert (answer.status, answer.json["error"]["code"]) == (400, "tool.invalid_args")


def test_10_a_schema_with_an_unknown_type_is_refused_at_registration(yard):
    broken = {"type": "object", "properties": {"a": {"type": "no such type at all"}}}
    assert yard.ask("PUT", "/v1/tools/ten::broken", {"parameters": broken}).error["code"] == "tool.invalid_definition"


def test_11_results_are_checked_against_the_output_schema(yard):
    def lie() -> dict:
        return {"text": 5}

    output = {"type": "object", "properties": {"text": {"type": "string"}}}
    yard.service.yard.tool_registry.add(function_tool(lie, namespace="eleven", output_parameters=output))
    [result] = yard.post("/v1/calls", {"calls": [{"name": "eleven::lie"}]}).json["results"]
    assert result["metadata"]["output_violations"][0]["pointer"] == "/text"


def test_12_no_exception_is_shown_to_the_caller(yard):
    for answer in (
        yard.invoke("desk::crash", {"secret": "hunter2"}),
        yard.arp("12", "desk::crash", {"secret": "hunter2"}),
        yard.post("/v1/calls", {"calls": [{"name": "desk::crash", "arguments": {"secret": "hunter2"}}]}),
    ):
        assert b"hunter2" not in answer.body and b"password" not in answer.body and b"Traceback" not in answer.body
        assert b"error_id" in answer.body


@pytest.mark.parametrize("path", ["/v1/tools", "/arp/v1/tools", "/arp/v1/health"])
def test_13_other_methods_are_a_405_in_json_and_head_works(yard, path):
    for method in ("DELETE", "PUT", "PATCH", "POST"):
        answer = yard.ask(method, path)
        assert (answer.status, answer.error["code"]) == (405, "request.method_not_allowed")
        assert answer.headers["allow"] == "GET, HEAD"
    head = yard.ask("HEAD", path)
    assert (head.status, head.body) == (200, b"") and int(head.headers["content-length"]) > 0


def test_14_no_page_of_somebody_elses_can_have_a_tool_run(yard):
    body = json.dumps({"args": {"word": "14"}}).encode()
    path = "/v1/tools/desk::count:invoke"
    for headers, status in [
        ({"content-type": "text/plain"}, 415),
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example", "content-type": "text/plain", "host": "evil.example"}, 421),
    ]:
        assert yard.post(path, body, headers=headers).status == status
    assert "14" not in RAN


def test_15_with_keys_nobody_comes_in_without_one_and_nothing_in_a_body_says_who_it_is(tmp_path):
    config = {
        "tools": [{"type": "domains", "domains": ["core"]}],
        "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")},
    }
    with served(config) as yard:
        token = yard.key("core:list,execute")
        claim = {"context": {"user": "admin"}, "caller": {"type": "user", "id": "admin"}}
        assert yard.arp("15", "echo", {"text": "x"}, claim).status == 401
        assert yard.arp("15", "echo", {"text": "x"}, claim, token=token).json["ok"] is True
        assert yard.ask("PUT", "/v1/tools/x::y", {}, token=token).status == 403


def test_16_a_tool_that_hangs_is_given_up_and_holds_up_nobody():
    hung = Hung()
    tools = [function_tool(hung.__call__, namespace="desk", name="hang")]
    with served(tools=tools, call_timeout=0.2, max_requests=4) as yard:
        answers = []
        work = [threading.Thread(target=lambda: answers.append(yard.invoke("desk::hang", {}))) for _ in range(4)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join(SOON)
        assert {(answer.status, answer.json["error"]["code"]) for answer in answers} == {(504, "tool.timeout")}
        assert yard.invoke("echo", {"text": "x"}).status == 200
        assert not hung.ended, "it was answered because the tools had come to their end"
        hung.end.set()


def test_17_percent_encoded_ids_are_decoded_and_a_slash_at_the_end_is_forgiven(yard):
    for path in ("/arp/v1/tools/tool%5Fecho", "/arp/v1/tools/tool_echo/", "/arp/v1/tools/%74ool_%65cho"):
        assert yard.get(path).json["tool_id"] == "tool_echo"
    assert yard.get("/v1/tools/").status == 200


def test_18_a_request_id_with_control_characters_or_without_end_is_not_said_back(yard):
    for name in (b"a\x0bb", b"x" * 10_000, b"a b=c", b"\x7f"):
        answer = yard.raw(b"GET /arp/v1/health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + name + b"\r\n\r\n")
        said = answer.headers["x-request-id"]
        assert said.encode() != name and len(said) <= 128 and said.isprintable() and " " not in said


def test_19_calc_is_exact_and_fails_cleanly(yard):
    assert yard.invoke("calc", {"expression": "9007199254740993"}).json["result"]["value"] == 9007199254740993
    assert b"9007199254740993" in yard.invoke("calc", {"expression": "9007199254740992 + 1"}).body
    assert yard.invoke("calc", {"expression": "9**999"}).json["result"]["value"] == 9**999
    for expression in ("(-1)**0.5", "-" * 5000 + "1", "1/0", "9**9**9**9", "__import__('os')", "1 if 1 else 2", "()"):
        error = yard.invoke("calc", {"expression": expression}).json["error"]
        assert error["code"] == "tool.execution_error" and "error_id" not in error.get("details", {}), expression


def test_20_time_now_needs_no_time_zone(yard):
    for args in ({}, {"tz": None}, {"tz": "UTC"}):
        result = yard.invoke("time_now", args).json["result"]
        assert result["tz"] == "UTC" and result["iso"].endswith("+00:00")
    assert yard.get("/v1/tools/time_now").json["parameters"].get("required", []) == []
    assert yard.invoke("time_now", {"tz": "Nowhere/Else"}).json["error"]["code"] == "tool.execution_error"


@pytest.mark.parametrize(
    "extra", [{"context": "x"}, {"trace": []}, {"schema_version": "9.9.9"}, {"unknown": 1}, {"context": None}]
)
def test_21_the_first_wire_drops_nothing_in_silence(yard, extra):
    answer = yard.invoke("desk::count", {"word": "21"}, extra=extra)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")
    assert "21" not in RAN


def test_22_a_busy_port_is_an_error_unless_another_may_be_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, said, printed = refused(tmp_path, "--port", str(port))
        assert status != 0 and str(port) in said and "--auto-port" in said and not printed
        status, said, _ = refused(tmp_path, TOOL_REGISTRY_PORT=str(port))
        assert status != 0 and str(port) in said
        with serving(tmp_path, "--port", str(port), "--auto-port") as (yard, line):
            assert line["port"] != port and line["url"] == f"http://127.0.0.1:{line['port']}"
            assert yard.get("/v1/tools").status == 200


def test_23_one_bad_domain_does_not_stop_the_others_and_domains_need_no_patching(tmp_path):
    (tmp_path / "my_domain.py").write_text(
        "from pathlib import Path\n"
        "from toolyard import function_tool\n"
        "def hello() -> str:\n    'Say hello.'\n    return 'hello'\n"
        "def load_tools():\n"
        "    names = Path(__file__).with_name('names.txt').read_text().split()\n"
        "    return [function_tool(hello, namespace='my_domain', name=name) for name in names]\n"
    )
    (tmp_path / "names.txt").write_text("hello")
    (tmp_path / "bad_domain.py").write_text("raise RuntimeError('broken')\n")
    env = {"TOOL_REGISTRY_DOMAINS": "core,tests_bad.nowhere,my_domain,bad_domain"}
    with serving(tmp_path, "--port", "0", **env) as (yard, _):
        names = [line["name"] for line in yard.get("/v1/tools").json]
        assert names == ["echo", "calc", "time_now", "hello"]
        assert yard.invoke("hello", {}).json["result"] == {"result": "hello"}
        assert yard.get("/v1/health").json["checks"][0]["details"] == {"loaded": 4, "rejected": 2}
        rejected = json.dumps(yard.get("/v1/report").json)
        assert "tests_bad.nowhere" in rejected and "bad_domain" in rejected
        (tmp_path / "names.txt").write_text("good_day")
        assert yard.ask("POST", "/v1/reload").status == 200
        assert [line["name"] for line in yard.get("/v1/tools").json][3:] == ["good_day"]
    status, said, _ = refused(tmp_path, "--port", "0", "--strict", PYTHONPATH=str(tmp_path), **env)
    assert status != 0 and "tests_bad.nowhere" in said
