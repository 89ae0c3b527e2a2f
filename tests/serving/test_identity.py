"""What a key may see and call, the same on every wire."""

import time
from contextlib import closing
from urllib.parse import urlencode

import pytest
from hypothesis import given, strategies as st
from waiting import until

from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import RAN, desk_tools, served
from toolyard.app.blocks import McpBlock
from toolyard.model.errors import ConfigError
from toolyard.serving import keys
from toolyard.serving.identity import ALL, VERBS, Grant, KeyLimits, Scopes, read_scopes
from toolyard.sessions.records import open_records
from toolyard.sessions.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("text", "allowed", "denied"),
    [
        ("hr:list,execute", [("list", "hr"), ("execute", "hr")], [("admin", "hr"), ("list", "hr2"), ("list", "HR")]),
        ("*:*", [("admin", "hr"), ("simulate", "x")], []),
        ("weather*:list", [("list", "weather"), ("list", "weather_eu")], [("list", "my_weather")]),
        ("a:b:list", [("list", "a:b")], [("list", "a")]),
        ("hr:list, admin", [("admin", "hr")], [("execute", "hr")]),
    ],
)
def test_scopes_are_read_as_people_write_them(text, allowed, denied):
    scopes = read_scopes([text])
    assert all(scopes.allows(*pair) for pair in allowed)
    assert not any(scopes.allows(*pair) for pair in denied)
    assert read_scopes(scopes.to_texts()) == scopes


@pytest.mark.parametrize(
    ("text", "reason"),
    [("hr", "such as"), (":list", "such as"), ("hr:", "such as"), ("hr:exceute", "'execute'"), ("hr:list,", "verb")],
)
def test_scopes_that_cannot_be_read_are_told_what_was_meant(text, reason):
    with pytest.raises(ConfigError, match=reason):
        read_scopes([text])


@given(
    st.lists(
        st.builds(
            Grant,
            st.text(min_size=1, max_size=5),
            st.frozensets(st.sampled_from(VERBS), min_size=1),
        ),
        max_size=3,
    )
)
def test_scopes_survive_being_written_down(grants):
    scopes = Scopes(tuple(grants))
    assert read_scopes(scopes.to_texts()) == scopes


@pytest.fixture(scope="module")
def yard(tmp_path_factory):
    config = {
        "tools": [{"type": "domains", "domains": ["core"]}],
        "sessions": {"store": "sqlite", "path": str(tmp_path_factory.mktemp("keys") / "s.db")},
    }
    with served(config, tools=desk_tools(), mcp=McpBlock(sessions=True)) as server:
        server.admin = server.key("*:*", name="admin")
        server.desk = server.key("desk:list,execute", name="desk")
        server.reader = server.key("desk:list", name="reader")
        server.dreamer = server.key("desk:list,simulate", name="dreamer")
        yield server


def test_once_there_is_a_key_everybody_needs_one(yard):
    for path in ("/v1/tools", "/arp/v1/tools", "/v1/sessions", "/v1/report", "/metrics", "/v1/tools/echo"):
        answer = yard.get(path)
        assert (answer.status, answer.error["code"]) == (401, "auth.missing")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert yard.invoke("echo", {"text": "x"}).status == 401
    assert yard.arp("no-key", "echo", {"text": "x"}).status == 401
    assert yard.ask("PUT", "/v1/tools/a::b", {}).status == 401


def test_a_key_created_by_another_process_is_accepted_soon(tmp_path):
    path = tmp_path / "s.db"
    with served({"tools": [], "sessions": {"store": "sqlite", "path": str(path)}}, page=True) as yard:
        yard.key("*:*", name="first")
        with closing(SqliteStore(path)) as store:
            elsewhere = keys.KeyRing(open_records(store))
            _, token = elsewhere.create("new", ALL)
            assert until(lambda: yard.get("/v1/tools", token=token).status == 200)
            form = {"key": token, "form_token": yard.service.keys.sign_ins().mark_form("")}
            sent = {"content-type": "application/x-www-form-urlencoded", "origin": yard.url}
            answer = yard.post("/console/sign-in", urlencode(form).encode(), headers=sent)
            assert (answer.status, answer.headers["location"]) == (303, "/console")
            name = answer.headers["set-cookie"].partition("=")[0]
            note = elsewhere.sign_in(elsewhere.find(token))
            assert yard.get("/console/connect", headers={"cookie": f"{name}={note}"}).status == 200
        assert yard.get("/v1/tools", token=f"ty_{'a' * 12}_{'b' * 43}").error["code"] == "auth.invalid"


def test_health_version_and_the_document_need_none_and_tell_no_secrets(yard):
    for path in ("/v1/health", "/v1/version", "/arp/v1/health", "/arp/v1/version", "/openapi.json"):
        assert yard.get(path).status == 200
    assert next(check["name"] for check in yard.get("/v1/health").json["checks"]) == "source-0"


@pytest.mark.parametrize("token", ["x", "ty_", "ty_aaaaaaaaaaaa_" + "b" * 43, "", "ty_ä"])
def test_an_invalid_token_is_a_401(yard, token):
    answer = yard.get("/v1/tools", headers={"authorization": f"Bearer {token}".encode()})
    assert answer.status == 401 and answer.error["code"].startswith("auth.")


def test_a_token_with_one_character_changed_is_a_401(yard):
    token = yard.admin[:-1] + ("A" if yard.admin[-1] != "A" else "B")
    assert yard.get("/v1/tools", token=token).status == 401


def test_a_key_can_be_sent_in_either_header_but_not_in_the_query(yard):
    assert yard.get("/v1/tools", headers={"x-api-key": yard.desk}).status == 200
    assert yard.get("/v1/tools", headers={"authorization": f"bearer {yard.desk}"}).status == 200
    assert yard.get(f"/v1/tools?api_key={yard.desk}").status in (400, 401)
    assert yard.get("/v1/tools", headers={"authorization": f"Basic {yard.desk}"}).status == 401


def test_lists_show_only_what_the_key_sees(yard):
    for path in ("/v1/tools", "/arp/v1/tools"):
        names = {tool["name"] for tool in yard.get(path, token=yard.desk).json}
        assert names and all(name.startswith("desk::") for name in names)
    native = yard.get("/v1/tools?limit=1000", token=yard.desk).json["tools"]
    assert {tool["namespace"] for tool in native} == {"desk"}
    assert yard.get("/v1/tools?namespace=core", token=yard.desk).json["tools"] == []
    assert yard.get("/v1/tools?format=openai&namespace=core", token=yard.desk).json["tools"] == []
    assert yard.get("/v1/tools?q=echo", token=yard.desk).json["tools"] == []


def test_two_keys_never_get_each_others_kept_list(yard):
    many = yard.get("/v1/tools", token=yard.admin)
    few = yard.get("/v1/tools", token=yard.desk)
    assert len(many.json) > len(few.json) and many.headers["etag"] != few.headers["etag"]
    crossed = yard.get("/v1/tools", token=yard.desk, headers={"if-none-match": many.headers["etag"]})
    assert crossed.status == 200


def told(answer):
    """Everything in an answer but the names that the request itself had."""
    return answer.status, answer.body.replace(b"core::", b"").replace(b"echo", b"?").replace(b"nope", b"?")


@pytest.mark.parametrize("pair", [("echo", "nope"), ("core::echo", "core::nope")])
def test_a_tool_outside_of_the_scope_is_like_one_that_is_not_there(yard, pair):
    hidden, missing = pair
    ask = {"token": yard.desk}
    assert told(yard.get(f"/v1/tools/{hidden}", **ask)) == told(yard.get(f"/v1/tools/{missing}", **ask))
    for args in ({"text": "x"}, {}):
        here, there = yard.invoke(hidden, args, **ask), yard.invoke(missing, args, **ask)
        assert here.status == there.status == 404
        assert here.json["error"]["message"] == there.json["error"]["message"].replace(missing, hidden)
        assert here.json["error"].get("details") == there.json["error"].get("details")
        body = {"calls": [{"name": hidden, "arguments": args}, {"name": missing, "arguments": args}]}
        one, two = yard.post("/v1/calls", body, **ask).json["results"]
        assert {**one, "name": 0, "error": 0, "error_info": 0} == {**two, "name": 0, "error": 0, "error_info": 0}
        assert one["name"] == hidden and one["error"] == two["error"].replace(missing, hidden)


def test_arp_ids_of_hidden_tools_are_like_unknown_ones(yard):
    def ask(number, **given):
        body = {"invocation_id": f"hidden-{number}", "args": {}, **given}
        return yard.post("/arp/v1/tool-invocations", body, token=yard.desk)

    pairs = [
        ({"tool_id": "tool_echo"}, {"tool_id": "tool_nope"}),
        ({"tool_name": "echo"}, {"tool_name": "nope"}),
        ({"tool_id": "tool_echo", "tool_name": "x"}, {"tool_id": "tool_nope", "tool_name": "x"}),
        ({"tool_id": "tool_desk::add", "tool_name": "echo"}, {"tool_id": "tool_desk::add", "tool_name": "nope"}),
    ]
    for number, (hidden, missing) in enumerate(pairs):
        one, two = ask(2 * number, **hidden), ask(2 * number + 1, **missing)
        assert one.status == two.status
        assert one.json["error"]["code"] == two.json["error"]["code"]
        assert one.json["error"]["message"].replace("echo", "nope") == two.json["error"]["message"]
    assert yard.get("/arp/v1/tools/tool_echo", token=yard.desk).status == 404


def test_hints_name_no_tool_that_the_key_does_not_see(yard):
    for answer in (
        yard.get("/v1/tools/ech", token=yard.desk),
        yard.invoke("ech", {}, token=yard.desk),
        yard.get("/v1/tools/twice", token=yard.desk),
        yard.invoke("twice", {}, token=yard.desk),
        yard.invoke("other::twice", {}, token=yard.desk),
    ):
        assert b"core::" not in answer.body and b'other::twice"' not in answer.body and b"echo" not in answer.body


def test_a_misspelt_name_is_answered_with_near_ones_that_the_key_lists_on_every_wire(yard):
    def near(answer):
        details = answer.json["error"]["details"]
        return details["candidates"], details["hint"]

    expected = ["desk::count", "desk::context"], "did you mean desk::count or desk::context?"
    assert near(yard.invoke("desk::cuont", {}, token=yard.desk)) == expected
    assert near(yard.get("/v1/tools/desk::cuont", token=yard.desk)) == expected
    assert near(yard.arp("near", "desk::cuont", {}, token=yard.desk)) == expected
    [called] = yard.post("/v1/calls", {"calls": [{"name": "desk::cuont"}]}, token=yard.desk).json["results"]
    assert called["error_info"]["hint"] == expected[1]
    by_id = {"invocation_id": "near-id", "tool_id": "tool_desk::cuont", "args": {}}
    assert near(yard.post("/arp/v1/tool-invocations", by_id, token=yard.desk))[0][0] == "tool_desk::count"
    # Who may call a tool, but not list it, learns no names by guessing.
    caller = yard.key("desk:execute", name="caller")
    assert b"desk::count" not in yard.invoke("desk::cuont", {}, token=caller).body


def test_who_may_only_list_is_denied_on_every_wire_and_nothing_runs(yard):
    args = {"word": "denied"}
    assert yard.get("/v1/tools/desk::count", token=yard.reader).status == 200
    v0 = yard.invoke("desk::count", args, token=yard.reader)
    assert (v0.status, v0.json["error"]["code"]) == (403, "tool.denied")
    arp = yard.arp("denied", "desk::count", args, token=yard.reader)
    assert (arp.status, arp.json["error"]["code"]) == (200, "tool.denied")
    calls = {"calls": [{"name": "desk::count", "arguments": args}]}
    for mode in ("execute", "simulate"):
        native = yard.post("/v1/calls", {**calls, "mode": mode}, token=yard.reader)
        assert native.json["results"][0]["error_info"]["code"] == "tool.denied"
    assert "denied" not in RAN


def test_who_may_only_simulate_has_nothing_run_that_may_have_an_effect_on_any_face(yard):
    call = {"name": "desk::count", "arguments": {"word": "dreamt"}}
    token, before = yard.dreamer, len(RAN)
    [done] = yard.post("/v1/calls", {"calls": [call]}, token=token).json["results"]
    assert done["error_info"]["code"] == "tool.denied"
    [dreamt] = yard.post("/v1/calls", {"calls": [call], "mode": "simulate"}, token=token).json["results"]
    yard.post("/v1/sessions", {"session_id": "dream"}, token=token)
    yard.post("/v1/sessions/dream/fork", {"session_id": "deeper"}, token=token)
    found = [dreamt]
    for session in ("dream", "deeper"):
        answer = yard.post(f"/v1/sessions/{session}/simulate", {"calls": [call, call]}, token=token)
        found += answer.json["results"]
    given = {"session_id": "dream", "calls": [call]}
    found += read_result(Stateless(yard, token).call("toolyard.session_simulate", given))["structuredContent"][
        "results"
    ]
    assert [each["metadata"] for each in found] == [{"simulated_by": "schema simulator"}] * 6
    assert len(RAN) == before
    entries = yard.get("/v1/sessions/dream/history", token=token).json["entries"]
    assert entries == []
    executing = yard.post("/v1/calls", {"calls": [call], "mode": "simulate"}, token=yard.desk).json["results"]
    assert executing[0]["metadata"] == {} and len(RAN) == before + 1


def test_only_admins_change_tools_reload_and_read_the_report(yard):
    for answer in (
        yard.ask("PUT", "/v1/tools/desk::mine", {}, token=yard.desk),
        yard.ask("DELETE", "/v1/tools/desk::add", token=yard.desk),
        yard.ask("POST", "/v1/reload", token=yard.desk),
        yard.get("/v1/report", token=yard.desk),
    ):
        assert (answer.status, answer.error["code"]) == (403, "auth.forbidden")
    local = yard.key("desk:*", name="local-admin")
    assert yard.ask("PUT", "/v1/tools/desk::mine", {}, token=local).status == 201
    assert yard.ask("PUT", "/v1/tools/sky::mine", {}, token=local).status == 403
    assert yard.ask("DELETE", "/v1/tools/sky::mine", token=local).status == 403
    assert yard.ask("POST", "/v1/reload", token=local).status == 403
    assert yard.ask("DELETE", "/v1/tools/desk::mine", token=local).status == 204


def test_a_key_without_the_verb_list_gets_no_list(yard):
    blind = yard.key("desk:execute", name="blind")
    assert yard.get("/v1/tools", token=blind).error["code"] == "auth.forbidden"
    assert yard.invoke("desk::add", {"a": 1, "b": 2}, token=blind).status == 200


def test_sessions_of_another_key_are_not_there(yard):
    mine, theirs = yard.admin, yard.desk
    assert yard.post("/v1/sessions", {"session_id": "private"}, token=mine).status == 201
    calls = {"calls": [{"name": "desk::add", "arguments": {"a": 1, "b": 2}}]}
    assert yard.post("/v1/sessions/private/execute", calls, token=mine).status == 200
    for method, path, body in [
        ("GET", "", None),
        ("GET", "/state", None),
        ("GET", "/history", None),
        ("POST", "/execute", calls),
        ("POST", "/simulate", calls),
        ("POST", "/fork", {}),
    ]:
        answer = yard.ask(method, f"/v1/sessions/private{path}", body, token=theirs)
        assert (answer.status, answer.error["code"]) == (404, "session.not_found")
    assert yard.ask("DELETE", "/v1/sessions/private", token=theirs).status == 204
    assert yard.get("/v1/sessions/private", token=mine).json["entries"] == 1
    assert "private" not in [line["session_id"] for line in yard.get("/v1/sessions", token=theirs).json["sessions"]]
    assert yard.post("/v1/sessions", {"session_id": "private"}, token=theirs).status == 201


def test_idempotency_keys_and_invocation_ids_belong_to_their_key(yard):
    first = yard.arp("shared-id", "desk::add", {"a": 1, "b": 2}, token=yard.admin)
    other = yard.arp("shared-id", "desk::add", {"a": 3, "b": 4}, token=yard.desk)
    assert first.json["result"] == {"result": 3} and other.json["result"] == {"result": 7}


def test_a_revoked_and_an_expired_key_let_nobody_in(yard):
    token = yard.key("*:*", name="short")
    assert yard.get("/v1/tools", token=token).status == 200
    yard.service.keys.revoke(token.split("_")[1])
    answer = yard.get("/v1/tools", token=token)
    assert (answer.status, answer.error["code"]) == (401, "auth.invalid")
    token = yard.key("*:*", name="expiring", expires=time.time() + 0.3)
    assert yard.get("/v1/tools", token=token).status == 200
    until(lambda: yard.get("/v1/tools", token=token).status == 401)


def test_too_many_requests_of_one_key_are_a_429_that_says_when_to_come_back(yard):
    token = yard.key("*:list", name="eager", limits=KeyLimits(rate=0.01, burst=3))
    answers = [yard.get("/v1/tools", token=token) for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].error["code"] == "request.rate_limited" and answers[-1].error["retryable"] is True
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert yard.get("/v1/tools", token=yard.admin).status == 200


def test_no_answer_repeats_a_token(yard):
    for answer in (
        yard.get("/v1/tools", headers={"authorization": f"Bearer {yard.admin}x"}),
        yard.get("/nowhere", token=yard.admin),
        yard.get("/v1/report", token=yard.admin),
    ):
        assert yard.admin.encode() not in answer.body
        assert yard.admin not in str(answer.headers)


def test_with_keys_nobody_comes_in_without_one_and_nothing_in_a_body_says_who_it_is(tmp_path):
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
