"""The wire of the first tool registry, at the root."""

import threading

import pytest
from schema.hostile import CODES, FILTER, filtered
from waiting import SOON, Hung

from serving.service_support import RAN, desk_tools, served
from toolyard import Held, ToolFailed, function_tool
from toolyard.serving.wire_types import SCHEMA_VERSION


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools()) as server:
        yield server


def test_planners_get_exactly_name_and_description_of_every_tool(yard):
    answer = yard.get("/v1/tools")
    assert answer.status == 200
    assert all(set(line) == {"name", "description"} for line in answer.json)
    names = [line["name"] for line in answer.json]
    assert names[:3] == ["echo", "calc", "time_now"]
    assert "desk::add" in names and "add" not in names
    assert names.count("desk::where") == 1


def test_a_definition_has_the_fields_of_the_wire_and_nothing_is_null(yard):
    definition = yard.get("/v1/tools/echo").json
    assert definition["schema_version"] == SCHEMA_VERSION == "0.1.0"
    assert (definition["name"], definition["version"]) == ("echo", "0.1.0")
    assert definition["parameters"]["required"] == ["text"]
    assert definition["returns"]["properties"] == {"text": {"type": "string"}}
    assert "tags" not in definition
    assert None not in definition.values()
    assert set(definition) <= {
        *("schema_version", "name", "description", "version", "parameters", "returns", "tags", "source")
    }


def test_a_tool_without_a_version_has_0_0_0(yard):
    assert yard.get("/v1/tools/desk::count").json["version"] == "0.0.0"
    assert yard.get("/v1/tools/desk::count").json["tags"] == ["sums", "effects"]


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/tools/echo", "/v1/tools/core::echo", "/v1/tools/core%3A%3Aecho", "/v1/tools/%65cho", "/v1/tools/echo/"),
    ],
)
def test_a_domains_tool_is_found_by_both_names_however_they_are_encoded(yard, path):
    assert yard.get(path).json["name"] == "echo"


def test_names_with_slashes_percents_spaces_and_other_letters_travel_encoded(yard):
    name = "wörk/shop::größe 100% / día"
    path = "/v1/tools/w%C3%B6rk%2Fshop%3A%3Agr%C3%B6%C3%9Fe%20100%25%20%2F%20d%C3%ADa"
    assert yard.get(path).json["name"] == name
    assert yard.invoke(name, {"value": "four"}).json["result"] == {"result": 4}
    assert name in [line["name"] for line in yard.get("/v1/tools").json]


def test_a_bare_name_that_one_namespace_has_is_enough(yard):
    assert yard.get("/v1/tools/add").json["name"] == "desk::add"
    assert yard.invoke("add", {"a": 1, "b": 2}).json["result"] == {"result": 3}


def test_a_bare_name_of_several_namespaces_is_refused_with_the_candidates(yard):
    for error in (yard.get("/v1/tools/twice").error, yard.invoke("twice", {"a": 1, "b": 2}).json["error"]):
        assert error["code"] == "tool.not_found"
        assert error["details"]["candidates"] == ["desk::twice", "other::twice"]
        assert "several namespaces" in error["message"]


def test_an_unknown_tool_is_a_404_envelope_with_the_nearest_name(yard):
    answer = yard.get("/v1/tools/ecko")
    assert answer.status == 404
    assert answer.error["code"] == "tool.not_found"
    assert answer.error["retryable"] is False
    assert answer.error["schema_version"] == "0.1.0"
    assert "echo" in answer.error["details"]["hint"]


def test_an_overloaded_name_is_a_409_and_the_fingerprint_selects(yard):
    answer = yard.get("/v1/tools/desk::where")
    assert answer.status == 409
    overloads = answer.error["details"]["overloads"]
    assert [each["description"] for each in overloads] == ["Where a city is.", "What is at a place."]
    for each in overloads:
        for given in (each["fingerprint"], each["fingerprint"][:8]):
            found = yard.get(f"/v1/tools/desk::where?fingerprint={given}")
            assert (found.status, found.json["description"]) == (200, each["description"])
    assert yard.get("/v1/tools/desk::where?fingerprint=zz").status == 404
    assert yard.get("/v1/tools/desk::where?fingerprint=").status == 400


def test_invoking_an_overloaded_name_resolves_by_arguments_or_by_fingerprint(yard):
    assert yard.invoke("desk::where", {"city": "Rome"}).json["result"] == {"result": "in Rome"}
    assert yard.invoke("desk::where", {"lat": 1.5, "lon": 2.5}).json["result"] == {"result": [1.5, 2.5]}
    place = yard.get("/v1/tools/desk::where").error["details"]["overloads"][1]["fingerprint"]
    pinned = yard.invoke("desk::where", {"city": "Rome"}, f"?fingerprint={place}")
    assert (pinned.status, pinned.json["error"]["code"]) == (400, "tool.invalid_args")


def test_arguments_that_no_overload_accepts_are_refused_with_the_violations_of_each(yard):
    answer = yard.invoke("desk::where", {"planet": "Mars"})
    assert (answer.status, answer.json["error"]["code"]) == (400, "tool.invalid_args")
    assert len(answer.json["error"]["details"]["overloads"]) == 2
    assert all(each["violations"] for each in answer.json["error"]["details"]["overloads"])


def test_a_call_that_succeeds_is_ok_with_result_and_metrics_and_no_error(yard):
    answer = yard.invoke("echo", {"text": "hi"})
    assert answer.status == 200
    assert set(answer.json) == {"schema_version", "ok", "result", "metrics"}
    assert answer.json["ok"] is True and answer.json["result"] == {"text": "hi"}
    latency = answer.json["metrics"]["latency_ms"]
    assert type(latency) is int and latency >= 0


@pytest.mark.parametrize(
    ("name", "args", "status", "code"),
    [
        ("nope", {}, 404, "tool.not_found"),
        ("echo", {"text": [1]}, 400, "tool.invalid_args"),
        ("echo", {}, 400, "tool.invalid_args"),
        ("echo", {"text": "a", "more": 1}, 400, "tool.invalid_args"),
        ("desk::refuse", {"reason": "x"}, 500, "tool.execution_error"),
        ("desk::infinite", {}, 500, "tool.invalid_output"),
        ("desk::unanswered", {}, 409, "tool.no_engine"),
    ],
)
def test_a_call_that_fails_is_a_result_with_an_error_and_its_own_status(yard, name, args, status, code):
    answer = yard.invoke(name, args)
    assert answer.status == status
    assert set(answer.json) == {"schema_version", "ok", "error", "metrics"}
    assert answer.json["ok"] is False
    error = answer.json["error"]
    assert error["code"] == code and error["schema_version"] == "0.1.0" and type(error["retryable"]) is bool
    assert set(error) <= {"schema_version", "code", "message", "retryable", "details"}


def test_invalid_arguments_are_listed_by_json_pointer(yard):
    details = yard.invoke("desk::add", {"a": "x", "b": 2}).json["error"]["details"]
    assert [issue["path"] for issue in details["issues"]] == ["/a"]
    assert "integer" in details["issues"][0]["message"]


def test_arguments_are_repaired_only_without_loss(yard):
    assert yard.invoke("desk::add", {"a": "40", "b": 2.0}).json["result"] == {"result": 42}
    assert yard.invoke("desk::add", {"a": "40.5", "b": 2}).status == 400


def test_context_and_trace_reach_the_tool(yard):
    extra = {"context": {"user": {"id": 7}}, "trace": {"flow_id": "f1", "step_id": "s2", "more": [1]}}
    result = yard.invoke("desk::context", {}, extra=extra).json["result"]
    assert result == {**extra, "session_id": None, "call_id": None}


def test_context_and_trace_may_be_left_out(yard):
    result = yard.invoke("desk::context", {}).json["result"]
    assert (result["context"], result["trace"]) == ({}, {})


@pytest.mark.parametrize("version", ["0.1.0", "0.1.7", "0.1.123"])
def test_every_patch_of_the_wires_version_is_accepted(yard, version):
    assert yard.invoke("echo", {"text": "a"}, extra={"schema_version": version}).status == 200


@pytest.mark.parametrize("version", ["0.2.0", "1.0.0", "0.1", "", "0.1.0\n", "0.1.0-a", " 0.1.0", "v0.1.0", 0.1, None])
def test_any_other_version_is_refused(yard, version):
    answer = yard.invoke("echo", {"text": "a"}, extra={"schema_version": version})
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"args": None},
        {"args": []},
        {"args": "text"},
        {"args": {"text": "a"}, "context": None},
        {"args": {"text": "a"}, "context": "x"},
        {"args": {"text": "a"}, "trace": ["x"]},
        {"args": {"text": "a"}, "trace": None},
        {"args": {"text": "a"}, "trace": {"flow_id": 5}},
        {"args": {"text": "a"}, "unknown": 1},
        {"arguments": {"text": "a"}},
        [],
        "text",
        None,
        17,
    ],
)
def test_a_body_of_another_shape_is_a_400_that_runs_nothing(yard, body):
    import json

    answer = yard.post("/v1/tools/echo:invoke", json.dumps(body).encode())
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{'args': {}}", b'{"args": NaN}', b'{"args": {}} x', b'{"args": {}, "args": {}}', b"\xff", b"\x00"],
)
def test_a_body_that_is_not_json_is_a_400(yard, body):
    answer = yard.post("/v1/tools/echo:invoke", body)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_json")


def test_integers_of_any_size_come_back_as_they_were(yard):
    big = 10**400 + 1
    body = b'{"args": {"a": %s, "b": 0}}' % str(big).encode()
    assert yard.post("/v1/tools/desk::add:invoke", body).json["result"] == {"result": big}


def test_the_first_answer_to_an_idempotency_key_is_given_again(yard):
    key = {"idempotency-key": "v0-again"}
    first = yard.invoke("desk::count", {"word": "v0-again"}, headers=key)
    again = yard.invoke("desk::count", {"word": "v0-again"}, headers=key)
    assert (first.status, first.body) == (again.status, again.body)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert RAN.count("v0-again") == 1


def test_a_key_used_for_another_body_tool_or_overload_is_a_conflict(yard):
    key = {"idempotency-key": "v0-conflict"}
    city, place = (each["fingerprint"] for each in yard.get("/v1/tools/desk::where").error["details"]["overloads"])
    assert yard.invoke("desk::where", {"city": "Rome"}, f"?fingerprint={city}", headers=key).status == 200
    for name, args, path in [
        ("desk::where", {"city": "Oslo"}, f"?fingerprint={city}"),
        ("desk::where", {"city": "Rome"}, f"?fingerprint={place}"),
        ("desk::where", {"city": "Rome"}, ""),
        ("echo", {"text": "Rome"}, ""),
    ]:
        answer = yard.invoke(name, args, path, headers=key)
        assert (answer.status, answer.error["code"]) == (409, "request.conflict")


def test_the_order_of_keys_does_not_make_another_body(yard):
    key = {"idempotency-key": "v0-order"}
    path = "/v1/tools/desk::add:invoke"
    assert yard.post(path, b'{"args": {"a": 1, "b": 2}, "context": {}}', headers=key).status == 200
    assert yard.post(path, b'{"context": {}, "args":{"b":2,"a":1}}', headers=key).status == 200


def test_failures_are_answers_too_and_are_given_again(yard):
    key = {"idempotency-key": "v0-failed"}
    first = yard.invoke("desk::crash", {"secret": "x"}, headers=key)
    again = yard.invoke("desk::crash", {"secret": "x"}, headers=key)
    # The error id is made anew by every run: an equal one means that there was only one.
    assert first.status == 500 and first.body == again.body


def test_concurrent_duplicates_run_once_and_all_get_the_one_answer(yard):
    answers = []

    def call():
        answers.append(yard.invoke("desk::count", {"word": "v0-many"}, headers={"idempotency-key": "v0-many"}))

    threads = [threading.Thread(target=call) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert RAN.count("v0-many") == 1
    assert {(answer.status, answer.body) for answer in answers} == {(200, answers[0].body)}
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1


@pytest.mark.parametrize("key", ["", "with space", "x" * 513, "ümlaut"])
def test_a_malformed_idempotency_key_is_refused(yard, key):
    answer = yard.invoke("echo", {"text": "a"}, headers={"idempotency-key": key.encode()})
    assert answer.status == 400


def test_a_tool_that_takes_too_long_is_a_504(tmp_path):
    import time

    from toolyard import function_tool

    def sleep() -> None:
        """Sleep."""
        time.sleep(0.5)

    with served(tools=[function_tool(sleep, namespace="desk")], call_timeout=0.05) as yard:
        answer = yard.invoke("desk::sleep", {})
    assert (answer.status, answer.json["error"]["code"]) == (504, "tool.timeout")
    assert answer.json["error"]["details"]["effect"] == "unknown"


@pytest.mark.parametrize("text", [rb"\ud800", rb"\udfff", rb"\ud800\ud800"])
def test_a_lone_surrogate_gets_an_answer_in_json(yard, text):
    answer = yard.post("/v1/tools/echo:invoke", b'{"args": {"text": "' + text + b'"}}')
    assert answer.status in (200, 400) and answer.json
    assert yard.post("/v1/tools/echo:invoke", rb'{"args": {"text": "\ud83d\ude00"}}').json["result"] == {"text": "😀"}


@pytest.mark.parametrize("expression", ["1e308*10", "-1e308*10", "1e308*10-1e308*10", "1e999", "9**9**9"])
def test_no_answer_has_infinity_or_nan_in_it(yard, expression):
    v0 = yard.invoke("calc", {"expression": expression})
    assert v0.json["ok"] is False and v0.json["error"]["code"] == "tool.execution_error"
    arp = yard.arp(f"05-{expression}", "calc", {"expression": expression})
    assert arp.json["ok"] is False
    assert yard.invoke("desk::infinite", {}).json["error"]["code"] == "tool.invalid_output"


@pytest.mark.parametrize(
    ("name", "schema", "args", "pointer"),
    [
        ("where", FILTER, filtered(11, "wrong"), f"/where{'/left' * 11}/value"),
        ("codes", CODES, {"codes": ["x"] * 95_000}, "/codes/0"),
    ],
)
def test_invalid_arguments_that_once_stalled_the_server_are_refused_with_their_place(yard, name, schema, args, pointer):
    def anything(**given) -> str:
        return "ran"

    yard.service.yard.tool_registry.add(function_tool(anything, namespace="twelve", name=name, parameters=schema))
    answer = yard.invoke(f"twelve::{name}", args)
    assert (answer.status, answer.json["error"]["code"]) == (400, "tool.invalid_args")
    assert f"{pointer}: must be" in answer.json["error"]["message"]


def test_no_exception_is_shown_to_the_caller(yard):
    for answer in (
        yard.invoke("desk::crash", {"secret": "hunter2"}),
        yard.arp("12", "desk::crash", {"secret": "hunter2"}),
        yard.post("/v1/calls", {"calls": [{"name": "desk::crash", "arguments": {"secret": "hunter2"}}]}),
    ):
        assert b"hunter2" not in answer.body and b"password" not in answer.body and b"Traceback" not in answer.body
        assert b"error_id" in answer.body


def test_a_tool_that_hangs_is_given_up_and_holds_up_nobody():
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


def test_percent_encoded_ids_are_decoded_and_a_slash_at_the_end_is_forgiven(yard):
    for path in ("/arp/v1/tools/tool%5Fecho", "/arp/v1/tools/tool_echo/", "/arp/v1/tools/%74ool_%65cho"):
        assert yard.get(path).json["tool_id"] == "tool_echo"
    assert yard.get("/v1/tools/").status == 200


@pytest.mark.parametrize(
    "extra", [{"context": "x"}, {"trace": []}, {"schema_version": "9.9.9"}, {"unknown": 1}, {"context": None}]
)
def test_the_first_wire_drops_nothing_in_silence(yard, extra):
    answer = yard.invoke("desk::count", {"word": "21"}, extra=extra)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")
    assert "21" not in RAN


@pytest.mark.parametrize(
    ("path", "body", "hint"),
    [
        ("/v1/tools/echo:invoke", {"text": "hi"}, "arguments go into `args`"),
        ("/v1/calls", {"name": "echo", "arguments": {}}, "Fields of the body: calls,"),
        ("/v1/calls", {"calls": [{"name": "echo", "args": {}}]}, "each with `name` and `arguments`"),
        ("/arp/v1/tool-invocations", {"text": "hi"}, "with `args`"),
    ],
)
def test_a_body_of_the_wrong_shape_is_refused_with_a_hint_where_arguments_go(yard, path, body, hint):
    answer = yard.post(path, body)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")
    assert hint in answer.error["details"]["hint"]


def test_a_call_without_its_verb_is_told_the_verb(yard):
    answer = yard.post("/v1/tools/echo", {"args": {"text": "hi"}})
    assert (answer.status, answer.error["code"]) == (405, "request.method_not_allowed")
    assert answer.error["details"]["hint"] == "did you mean POST /v1/tools/{name}:invoke?"
    assert "details" not in yard.post("/v1/version", {}).error


@pytest.mark.parametrize("details", [{"violations": ["row 3"]}, {"violations": 5}, {"violations": [{"pointer": 5}]}])
def test_details_of_a_tools_own_reach_the_caller_as_they_are_whatever_their_names(details):
    def refuse():
        raise ToolFailed("no", details=details)

    with served(tools=[function_tool(refuse, namespace="own")]) as server:
        assert server.invoke("own::refuse", {}).json["error"]["details"] == {**details, "effect": "unknown"}
        assert server.arp("1", "own::refuse", {}).json["error"]["details"] == {**details, "effect": "unknown"}


@pytest.mark.parametrize("approval", ["x", None, {"id": 5}, {}])
def test_a_tool_that_says_that_it_is_held_without_an_approval_is_answered_on_every_wire(approval):
    def hold():
        raise Held("later", details={"approval": approval})

    with served(tools=[function_tool(hold, namespace="own")]) as server:
        for answer in (server.invoke("own::hold", {}), server.arp("1", "own::hold", {})):
            assert answer.json["error"]["code"] == "tool.held"
            assert "location" not in answer.headers
