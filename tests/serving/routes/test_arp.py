"""ARP v1 under /arp."""

import pytest

from serving.service_support import RAN, desk_tools, served

INVOKE = "/arp/v1/tool-invocations"


@pytest.fixture(scope="module")
def yard():
    with served(tools=desk_tools()) as server:
        yield server


def has_null(value):
    if isinstance(value, dict):
        return any(item is None or has_null(item) for item in value.values())
    return isinstance(value, list) and any(map(has_null, value))


def test_the_list_is_a_bare_array_of_whole_definitions_without_nulls(yard):
    tools = yard.get("/arp/v1/tools").json
    assert isinstance(tools, list)
    assert {"tool_id", "name", "input_schema", "source"} <= set(tools[0])
    assert [tool["tool_id"] for tool in tools[:3]] == ["tool_echo", "tool_calc", "tool_time_now"]
    assert all(tool["source"] == "registry_local" for tool in tools)
    assert not any(None in tool.values() for tool in tools)


def test_an_id_is_never_a_name(yard):
    tools = yard.get("/arp/v1/tools").json
    assert not {tool["tool_id"] for tool in tools} & {tool["name"] for tool in tools}


def test_a_definition_is_found_by_its_id_alone(yard):
    assert yard.get("/arp/v1/tools/tool_echo").json["name"] == "echo"
    assert yard.get("/arp/v1/tools/tool_desk::add").json["tool_id"] == "tool_desk::add"
    missing = yard.get("/arp/v1/tools/echo")
    assert (missing.status, missing.error["code"]) == (404, "tool.not_found")
    assert "tool_echo" in missing.error["details"]["hint"]
    assert set(missing.error) <= {"code", "message", "details", "retryable"}


def test_every_listed_tool_is_found_by_its_id_or_is_overloaded(yard):
    from urllib.parse import quote

    for tool in yard.get("/arp/v1/tools").json:
        found = yard.get(f"/arp/v1/tools/{quote(tool['tool_id'], safe='')}")
        if found.status == 409:
            print_ = tool["extensions"]["toolyard.fingerprint"]
            found = yard.get(f"/arp/v1/tools/{quote(tool['tool_id'], safe='')}?fingerprint={print_}")
        assert found.json == tool


def test_a_call_answers_with_its_invocation_id_and_an_object(yard):
    answer = yard.arp("arp-1", "echo", {"text": "hi"})
    assert answer.status == 200
    duration = answer.json["duration_ms"]
    assert type(duration) is int and duration >= 0
    assert answer.json == {"invocation_id": "arp-1", "ok": True, "result": {"text": "hi"}, "duration_ms": duration}
    assert yard.arp("arp-2", "desk::add", {"a": 1, "b": 2}).json["result"] == {"result": 3}


@pytest.mark.parametrize("given", [{"tool_id": "tool_echo"}, {"tool_name": "echo"}, {"tool_name": "core::echo"}])
def test_a_tool_is_called_by_id_by_name_and_by_its_whole_name(yard, given):
    body = {"invocation_id": f"by {given}", "args": {"text": "x"}, **given}
    assert yard.post(INVOKE, body).json["result"] == {"text": "x"}


def test_id_and_name_may_both_be_given_if_they_agree(yard):
    body = {"invocation_id": "both", "tool_id": "tool_echo", "tool_name": "core::echo", "args": {"text": "x"}}
    assert yard.post(INVOKE, body).json["ok"] is True


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("nope", {}, "tool.not_found"),
        ("echo", {"text": 5}, "tool.invalid_args"),
        ("desk::refuse", {"reason": "x"}, "tool.execution_error"),
        ("desk::infinite", {}, "tool.invalid_output"),
        ("desk::unanswered", {}, "tool.no_engine"),
    ],
)
def test_a_failed_call_is_a_200_with_its_error_code(yard, name, args, code):
    answer = yard.arp(f"200-{code}", name, args)
    assert answer.status == 200
    assert set(answer.json) == {"invocation_id", "ok", "error", "duration_ms"}
    assert answer.json["ok"] is False and answer.json["error"]["code"] == code
    assert set(answer.json["error"]) <= {"code", "message", "details", "retryable"}
    assert not has_null(answer.json)


def test_an_unknown_tool_is_told_back_as_it_was_named(yard):
    by_name = yard.arp("unknown-1", "nope", {}).json["error"]
    assert by_name["details"]["tool_name"] == "nope" and by_name["retryable"] is False
    body = {"invocation_id": "unknown-2", "tool_id": "tool_nope", "args": {}}
    by_id = yard.post(INVOKE, body).json["error"]
    assert (by_id["code"], by_id["details"]) == ("tool.not_found", {"tool_id": "tool_nope"})


def test_invalid_arguments_are_listed_as_lines_of_text(yard):
    error = yard.arp("issues", "echo", {"text": 5, "x": 1}).json["error"]
    assert len(error["details"]["issues"]) == 2
    assert error["details"]["issues"][0].startswith("$.text: ")


def test_the_context_reaches_the_tool_and_its_meta_is_the_trace(yard):
    context = {"meta": {"flow_id": "f", "step_id": "s"}, "more": 1}
    result = yard.arp("context", "desk::context", {}, {"context": context}).json["result"]
    assert result["context"] == context
    assert result["trace"] == {"flow_id": "f", "step_id": "s"}


def test_a_meta_that_is_no_object_is_context_only(yard):
    result = yard.arp("meta", "desk::context", {}, {"context": {"meta": "x"}}).json["result"]
    assert (result["context"], result["trace"]) == ({"meta": "x"}, {})


@pytest.mark.parametrize(
    "change",
    [
        {"invocation_id": None},
        {"invocation_id": 5},
        {"invocation_id": ""},
        {"tool_name": None},
        {"args": None},
        {"args": []},
        {"context": None},
        {"context": []},
        {"caller": {"type": "user"}},
        {"caller": "me"},
        {"caller": {"type": "user", "id": "1", "more": 1}},
        {"extensions": {"bare": 1}},
        {"extensions": {"a.b\n": 1}},
        {"extensions": None},
        {"trace": {}},
        {"unknown": 1},
    ],
)
def test_a_body_of_another_shape_is_a_400_envelope(yard, change):
    body = {"invocation_id": "shape", "tool_name": "echo", "args": {"text": "x"}, **change}
    answer = yard.post(INVOKE, body)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


@pytest.mark.parametrize("left_out", ["invocation_id", "tool_name", "args"])
def test_a_required_field_must_be_present(yard, left_out):
    body = {"invocation_id": "shape", "tool_name": "echo", "args": {"text": "x"}}
    del body[left_out]
    assert yard.post(INVOKE, body).error["code"] == "request.invalid_shape"


def test_caller_and_extensions_of_the_right_shape_are_accepted(yard):
    extra = {"caller": {"type": "user", "id": "1", "uri": "x:y"}, "extensions": {"acme.priority": [1]}}
    assert yard.arp("extra", "echo", {"text": "x"}, extra).json["ok"] is True


def test_a_repeated_invocation_id_gets_the_first_answer_and_runs_nothing(yard):
    first = yard.arp("again", "desk::count", {"word": "arp-again"})
    again = yard.arp("again", "desk::count", {"word": "arp-again"})
    assert first.body == again.body and again.headers["idempotent-replayed"] == "true"
    assert RAN.count("arp-again") == 1


def test_a_repeated_invocation_id_with_another_body_is_a_conflict(yard):
    yard.arp("other", "desk::count", {"word": "arp-other"})
    for answer in (
        yard.arp("other", "desk::count", {"word": "arp-else"}),
        yard.arp("other", "echo", {"text": "arp-other"}),
        yard.arp("other", "desk::count", {"word": "arp-other"}, {"context": {"a": 1}}),
    ):
        assert (answer.status, answer.error["code"]) == (409, "request.conflict")
    assert "arp-else" not in RAN


def test_idempotency_keys_and_invocation_ids_of_the_same_text_are_distinct(yard):
    assert yard.arp("same-id", "echo", {"text": "a"}).status == 200
    assert yard.invoke("echo", {"text": "b"}, headers={"idempotency-key": "same-id"}).json["result"] == {"text": "b"}


def test_refusals_under_arp_have_only_arps_fields(yard):
    for answer in (
        yard.get("/arp/v1/nothing"),
        yard.ask("DELETE", "/arp/v1/tools"),
        yard.post(INVOKE, b"{"),
        yard.post(INVOKE, b"{}", headers={"content-type": "text/plain"}),
        yard.get("/arp/v1/tools?x=1"),
    ):
        assert answer.status in (400, 404, 405, 415)
        assert {"code", "message"} <= set(answer.error) <= {"code", "message", "details", "retryable"}
        assert answer.headers["x-request-id"]


def test_error_codes_are_the_same_on_every_wire_and_in_process(yard):
    from toolyard import ToolCall

    engine = yard.service.yard.tool_engine
    engine.setup("codes")
    for number, (name, args) in enumerate(
        [
            ("core::nope", {}),
            ("core::echo", {}),
            ("desk::refuse", {"reason": "x"}),
            ("desk::infinite", {}),
            ("desk::unanswered", {}),
            ("core::calc", {"expression": "1/0"}),
        ]
    ):
        [here] = engine.execute("codes", [ToolCall(name, args)])
        native = yard.post("/v1/calls", {"calls": [{"name": name, "arguments": args}]}).json["results"][0]
        v0 = yard.invoke(name, args).json["error"]
        arp = yard.arp(f"codes-{number}", name, args).json["error"]
        codes = {here.error_info.code, native["error_info"]["code"], v0["code"], arp["code"]}
        assert codes == {here.error_info.code}
        assert v0["message"] == arp["message"] == native["error_info"]["message"] == here.error_info.message
        assert v0["retryable"] == arp["retryable"] == here.error_info.retryable


@pytest.mark.parametrize("extra", [{"unknown": 1}, {"caller": {"id": "x"}}, {"caller": 5}, {"extensions": {"bare": 1}}])
def test_what_the_schema_does_not_allow_is_a_400(yard, extra):
    answer = yard.arp("06", "echo", {"text": "x"}, extra)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


def test_duplicate_keys_are_a_400_at_every_depth(yard):
    for body in (
        b'{"invocation_id": "07", "tool_name": "echo", "args": {"text": "a", "text": "b"}}',
        b'{"invocation_id": "07", "invocation_id": "07", "tool_name": "echo", "args": {"text": "a"}}',
    ):
        answer = yard.post(INVOKE, body)
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_json")


def test_an_id_and_a_name_of_different_tools_run_neither(yard):
    both = {"args": {"word": "08"}, "tool_name": "desk::count"}
    unknown = yard.post(INVOKE, {**both, "invocation_id": "08a", "tool_id": "tool_unknown"})
    assert unknown.json["ok"] is False and unknown.json["error"]["code"] == "tool.not_found"
    different = yard.post(INVOKE, {**both, "invocation_id": "08b", "tool_id": "tool_echo"})
    assert (different.status, different.error["code"]) == (400, "request.conflict")
    assert "08" not in RAN
