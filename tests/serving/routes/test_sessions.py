"""Sessions over HTTP."""

import threading
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from conftest import chosen_way, ways_to_try
from serving.service_support import CORE, RAN, desk_tools, served
from toolyard import Tool


@pytest.fixture(scope="module")
def yards(tmp_path_factory):
    stored = {"store": "sqlite", "path": str(tmp_path_factory.mktemp("sessions") / "s.db")}
    with served(CORE, tools=desk_tools()) as memory, served({**CORE, "sessions": stored}, tools=desk_tools()) as sqlite:
        yield {"memory": memory, "sqlite": sqlite}


@pytest.fixture(params=ways_to_try("memory", "sqlite"))
def yard(request, yards):
    return yards[chosen_way(request)]


GIVEN = {"tool_call": {"name": "core::echo", "arguments": {}}, "tool_output": {"call_id": None, "name": "core::echo"}}


def begin(yard, session_id, **more):
    answer = yard.post("/v1/sessions", {"session_id": session_id, **more})
    assert answer.status == 201, answer
    return answer.json


def execute(yard, session_id, *calls, verb="execute", **more):
    path = f"/v1/sessions/{quote(session_id, safe='')}/{verb}"
    return yard.post(path, {"calls": list(calls), **more})


def call(name, call_id=None, **arguments):
    return {"name": name, "arguments": arguments, **({} if call_id is None else {"call_id": call_id})}


def test_a_session_begins_empty_with_an_id_of_its_own_or_a_given_one(yard):
    made = yard.post("/v1/sessions", {})
    assert made.status == 201 and made.json["entries"] == 0
    assert yard.get(f"/v1/sessions/{made.json['session_id']}").json == made.json
    assert begin(yard, "given")["session_id"] == "given"


def test_an_id_that_is_taken_is_a_409(yard):
    begin(yard, "taken")
    answer = yard.post("/v1/sessions", {"session_id": "taken"})
    assert (answer.status, answer.error["code"]) == (409, "session.exists")


@pytest.mark.parametrize("session_id", ["with/slash", "ümlaut", "a b", "50%", "::", "x" * 256, "tab\t"])
def test_ids_are_any_text_and_travel_percent_encoded(yard, session_id):
    begin(yard, session_id)
    path = f"/v1/sessions/{quote(session_id, safe='')}"
    assert yard.get(path).json["session_id"] == session_id
    assert execute(yard, session_id, call("echo", text="x")).status == 200
    assert yard.get(f"{path}/history").json["entries"][0]["seq"] == 1
    assert yard.ask("DELETE", path).status == 204
    assert yard.get(path).status == 404


@pytest.mark.parametrize("body", [{"session_id": ""}, {"session_id": "x" * 257}, {"session_id": None}, {"id": "x"}])
def test_a_session_body_with_an_invalid_id_is_refused(yard, body):
    assert yard.post("/v1/sessions", body).error["code"] == "request.invalid_shape"


def test_results_come_in_the_order_of_the_calls_and_echo_their_ids(yard):
    begin(yard, "order")
    answer = execute(
        yard, "order", call("echo", "c1", text="one"), call("nope", "c2"), call("desk::add", "c3", a="1", b=2)
    )
    assert answer.status == 200
    one, two, three = answer.json["results"]
    assert [each["call_id"] for each in (one, two, three)] == ["c1", "c2", "c3"]
    assert one["result"] == {"text": "one"} and one["error"] is None and "error_info" not in one
    assert two["error_info"]["code"] == "tool.not_found" and two["result"] is None
    assert three["result"] == 3 and three["metadata"]["coercions"]
    assert yard.get("/v1/sessions/order").json["entries"] == 3


def test_history_and_state_say_what_happened(yard):
    begin(yard, "said")
    for word in ("a", "b", "c"):
        execute(yard, "said", call("echo", text=word))
    state = yard.get("/v1/sessions/said/state").json
    assert [each["tool_output"]["result"]["text"] for each in state["state"]["tool_executions"]] == ["a", "b", "c"]
    first = yard.get("/v1/sessions/said/history?limit=2").json
    assert [entry["seq"] for entry in first["entries"]] == [1, 2] and first["next"] == 2
    rest = yard.get(f"/v1/sessions/said/history?after={first['next']}").json
    assert [entry["seq"] for entry in rest["entries"]] == [3] and "next" not in rest
    assert rest["entries"][0]["tool_call"]["name"] == "core::echo"
    assert yard.get("/v1/sessions/said/history?after=99").json == {"entries": []}
    assert state["state_hash"] == yard.get("/v1/sessions/said").json["state_hash"]


def test_views_of_a_session_tell_when_and_how_long(yard):
    begin(yard, "timed", initial_state={"tool_executions": [GIVEN]})
    execute(yard, "timed", call("echo", text="a"), call("echo", text="b"))
    given, first, second = yard.get("/v1/sessions/timed/history").json["entries"]
    assert "at" not in given and "took" not in given
    assert first["took"] >= 0 and second["took"] >= 0
    view = yard.get("/v1/sessions/timed").json
    listed = {line["session_id"]: line for line in yard.get("/v1/sessions").json["sessions"]}["timed"]
    assert view["used"] == listed["used"]
    times = [datetime.fromisoformat(text) for text in (first["at"], second["at"], view["used"])]
    assert sorted(times) == times
    # A clock that counts from the start of the machine would be decades off.
    assert abs(times[0] - datetime.now(UTC)) < timedelta(days=1)


def test_a_simulation_leaves_the_session_as_it_was(yard):
    begin(yard, "drafts")
    execute(yard, "drafts", call("echo", text="kept"))
    before = yard.get("/v1/sessions/drafts/state").body
    answer = execute(yard, "drafts", call("echo", "x1", text="not kept"), verb="simulate")
    assert answer.json["results"][0]["result"] == {"text": "not kept"}
    assert yard.get("/v1/sessions/drafts/state").body == before


def test_a_fork_begins_where_the_other_is_and_goes_its_own_way(yard):
    begin(yard, "trunk")
    execute(yard, "trunk", call("echo", text="shared"))
    fork = yard.post("/v1/sessions/trunk/fork", {"session_id": "branch"})
    assert fork.status == 201 and fork.json["entries"] == 1
    assert fork.json["state_hash"] == yard.get("/v1/sessions/trunk").json["state_hash"]
    execute(yard, "branch", call("echo", text="own"))
    assert yard.get("/v1/sessions/trunk").json["entries"] == 1
    assert yard.post("/v1/sessions/nope/fork", {}).error["code"] == "session.not_found"
    assert yard.post("/v1/sessions/trunk/fork", {"session_id": "branch"}).error["code"] == "session.exists"


def test_a_fork_begins_behind_any_entry(yard):
    begin(yard, "long")
    execute(yard, "long", *(call("echo", text=word) for word in "abc"))
    fork = yard.post("/v1/sessions/long/fork", {"session_id": "two", "at": 2})
    assert (fork.status, fork.json["entries"]) == (201, 2)
    history = yard.get("/v1/sessions/two/history").json["entries"]
    assert [entry["tool_output"]["result"]["text"] for entry in history] == ["a", "b"]
    beyond = yard.post("/v1/sessions/long/fork", {"session_id": "far", "at": 4})
    assert (beyond.status, beyond.error["code"]) == (404, "session.no_entry")
    assert "use 0 to 3" in beyond.error["message"]
    for at in (4.0, 389543686452188.0, 1e300):
        assert yard.post("/v1/sessions/long/fork", {"session_id": "far", "at": at}).error["code"] == "session.no_entry"
    assert yard.post("/v1/sessions/long/fork", {"session_id": "one", "at": 1.0}).json["entries"] == 1
    for at in (-1, True, 1.5, "1", None):
        answer = yard.post("/v1/sessions/long/fork", {"session_id": "far", "at": at})
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")
    assert yard.get("/v1/sessions/far").status == 404


def test_worlds_are_shown_and_compared_at_any_two_points(yard):
    begin(yard, "w", initial_state={"shop": {"order": {"status": "paid", "old": 1}}})
    begin(yard, "v", initial_state={"shop": {"order": {"status": "refunded", "new": None}}})
    diff = yard.get("/v1/sessions/w/diff?other=v").json
    assert diff == {
        "equal": False,
        "changes": [
            {"path": "/shop/order/new", "kind": "added", "after": None},
            {"path": "/shop/order/old", "kind": "removed", "before": 1},
            {"path": "/shop/order/status", "kind": "changed", "before": "paid", "after": "refunded"},
        ],
        "left_out": 0,
    }
    execute(yard, "w", call("echo", text="changes nothing"))
    assert yard.get("/v1/sessions/w/diff?at_a=0&at_b=1").json == {"equal": True, "changes": [], "left_out": 0}
    worlds = [yard.get(f"/v1/sessions/w/world{query}").json for query in ("", "?at=0")]
    assert worlds[0] == worlds[1] and worlds[0]["world"] == {"shop": {"order": {"status": "paid", "old": 1}}}
    assert worlds[0]["world_hash"] != yard.get("/v1/sessions/v/world").json["world_hash"]
    assert yard.get("/v1/sessions/w/diff?other=nope").error["code"] == "session.not_found"
    assert yard.get("/v1/sessions/w/diff?at_b=2").error["code"] == "session.no_entry"
    assert yard.get("/v1/sessions/w/world?at=-1").status == 400


def test_a_state_can_be_the_beginning_of_another_session(yard):
    begin(yard, "from")
    execute(yard, "from", call("echo", text="carried"))
    state = yard.get("/v1/sessions/from/state").json
    made = begin(yard, "to", initial_state=state["state"])
    assert (made["entries"], made["state_hash"]) == (1, state["state_hash"])


def test_an_invalid_initial_state_is_a_400(yard):
    for state in ({"tool_executions": 5}, {"tool_executions": [{}]}, [], None):
        answer = yard.post("/v1/sessions", {"initial_state": state})
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", ""), ("GET", "/state"), ("GET", "/history"), ("POST", "/execute"), ("POST", "/simulate")),
        *(("POST", "/fork"), ("GET", "/world"), ("GET", "/diff")),
    ],
)
def test_a_session_that_is_not_there_is_a_404(yard, method, path):
    body = {"calls": [call("echo", text="x")]} if path in ("/execute", "/simulate") else {}
    answer = yard.ask(method, f"/v1/sessions/nobody{path}", body if method == "POST" else None)
    assert (answer.status, answer.error["code"]) == (404, "session.not_found")


def test_ending_a_session_twice_is_no_error(yard):
    begin(yard, "short")
    assert [yard.ask("DELETE", "/v1/sessions/short").status for _ in range(2)] == [204, 204]
    assert yard.get("/v1/sessions/short").status == 404


def test_sessions_are_listed_page_by_page(yard):
    for number in range(5):
        begin(yard, f"listed-{number}")
    found, path = [], "/v1/sessions?limit=2"
    while path:
        page = yard.get(path).json
        found += [line["session_id"] for line in page["sessions"]]
        assert len(page["sessions"]) <= 2
        path = f"/v1/sessions?limit=2&cursor={quote(page['next_cursor'], safe='')}" if "next_cursor" in page else None
    assert found == sorted(found)
    assert {f"listed-{number}" for number in range(5)} <= set(found)
    assert yard.get("/v1/sessions?limit=0").status == 400


def test_a_call_id_that_was_answered_gets_that_answer_again(yard):
    begin(yard, "replay")
    word = f"replay-{id(yard)}"
    first = execute(yard, "replay", call("desk::count", "c1", word=word)).json
    again = execute(yard, "replay", call("desk::count", "c1", word=word)).json
    assert first == again and RAN.count(word) == 1
    assert yard.get("/v1/sessions/replay").json["entries"] == 1


def test_a_call_id_for_another_call_is_a_conflict_that_runs_nothing(yard):
    begin(yard, "conflict")
    word = f"conflict-{id(yard)}"
    execute(yard, "conflict", call("desk::count", "c1", word="first"))
    for other in (call("desk::count", "c1", word=word), call("echo", "c1", text="first")):
        [result] = execute(yard, "conflict", other).json["results"]
        assert (result["error_info"]["code"], result["call_id"]) == ("call.conflict", "c1")
        assert result["error_info"]["effect"] == "none"
    assert word not in RAN


def test_concurrent_duplicates_in_a_session_run_once(yard):
    begin(yard, "race")
    word, answers = f"race-{id(yard)}", []
    work = [
        threading.Thread(
            target=lambda: answers.append(execute(yard, "race", call("desk::count", "c1", word=word)).json)
        )
        for _ in range(10)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert RAN.count(word) == 1
    assert all(answer == answers[0] for answer in answers)
    assert yard.get("/v1/sessions/race").json["entries"] == 1


def test_equal_ids_in_other_sessions_are_other_calls(yard):
    word = f"others-{id(yard)}"
    for session in ("one", "two"):
        begin(yard, f"others-{session}")
        execute(yard, f"others-{session}", call("desk::count", "c1", word=word))
    assert RAN.count(word) == 2


def test_calls_outside_of_any_session_leave_none_behind(yard):
    before = yard.get("/v1/sessions?limit=1000").json
    answer = yard.post("/v1/calls", {"calls": [call("echo", "c1", text="x"), call("desk::context")]})
    assert answer.json["results"][0]["call_id"] == "c1"
    assert answer.json["results"][1]["result"]["session_id"] is None
    assert [line["session_id"] for line in yard.get("/v1/sessions?limit=1000").json["sessions"]] == [
        line["session_id"] for line in before["sessions"]
    ]


def test_context_trace_session_and_call_reach_the_tool(yard):
    begin(yard, "told")
    more = {"context": {"a": 1}, "trace": {"b": "2"}}
    [result] = execute(yard, "told", call("desk::context", "c9"), **more).json["results"]
    assert result["result"] == {**more, "session_id": "told", "call_id": "c9"}


def test_a_tool_the_caller_knows_otherwise_is_refused_as_stale(yard):
    begin(yard, "stale")
    known = yard.get("/v1/tools?namespace=desk").json["tools"]
    hashes = [tool["definition_hash"] for tool in known]
    body = call("desk::add", "c1", a=1, b=2)
    [stale] = execute(yard, "stale", body, definitions=["0" * 64]).json["results"]
    assert (stale["error_info"]["code"], stale["error_info"]["effect"]) == ("catalog.stale", "none")
    [fresh] = execute(yard, "stale", body, definitions=hashes).json["results"]
    assert fresh["result"] == 3, "the id of a call that was refused as stale is free"


def test_an_overload_can_be_pinned(yard):
    prints = [each["fingerprint"] for each in yard.get("/v1/tools/desk::where").error["details"]["overloads"]]
    calls = [{**call("desk::where", city="Rome"), "overload": print_} for print_ in prints]
    good, bad = yard.post("/v1/calls", {"calls": calls}).json["results"]
    assert good["result"] == "in Rome" and good["overload"] == prints[0]
    assert bad["error_info"]["code"] == "tool.invalid_args"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"calls": []},
        {"calls": {}},
        {"calls": [{}]},
        {"calls": [{"name": ""}]},
        {"calls": [{"name": "echo", "arguments": None}]},
        {"calls": [{"name": "echo", "arguments": [1]}]},
        {"calls": [{"name": "echo", "call_id": None}]},
        {"calls": [{"name": "echo", "call_id": ""}]},
        {"calls": [{"name": "echo", "more": 1}]},
        {"calls": [{"name": "echo"}], "mode": "destroy"},
        {"calls": [{"name": "echo"}], "timeout": 0},
        {"calls": [{"name": "echo"}], "timeout": -1},
        {"calls": [{"name": "echo"}], "timeout": None},
        {"calls": [{"name": "echo"}], "context": None},
        {"calls": [{"name": "echo"}], "owner": "x"},
        {"calls": [{"name": "echo"}] * 1001},
    ],
)
def test_a_body_of_another_shape_is_refused(yard, body):
    answer = yard.post("/v1/calls", body)
    assert (answer.status, answer.error["code"]) == (400, "request.invalid_shape")


def test_the_mode_of_a_session_is_in_its_path_only(yard):
    begin(yard, "mode")
    answer = execute(yard, "mode", call("echo", text="x"), mode="simulate")
    assert answer.error["code"] == "request.invalid_shape"


def test_a_repeated_key_begins_forks_and_executes_once(yard):
    def twice(path, body, key):
        return [yard.post(path, body, headers={"idempotency-key": key}) for _ in range(2)]

    first, again = twice("/v1/sessions", {}, "key-begin")
    assert first.body == again.body and again.headers["idempotent-replayed"] == "true"
    session = first.json["session_id"]
    word = f"key-{id(yard)}"
    first, again = twice(f"/v1/sessions/{session}/execute", {"calls": [call("desk::count", word=word)]}, "key-run")
    assert first.body == again.body and RAN.count(word) == 1
    first, again = twice(f"/v1/sessions/{session}/fork", {}, "key-fork")
    assert first.body == again.body
    conflict = yard.post("/v1/sessions", {"session_id": "other"}, headers={"idempotency-key": "key-begin"})
    assert (conflict.status, conflict.error["code"]) == (409, "request.conflict")


def test_a_key_whose_request_was_refused_can_be_used_again(yard):
    key = {"idempotency-key": "key-refused"}
    path, body = "/v1/sessions/later/execute", {"calls": [call("echo", text="x")]}
    assert yard.post(path, body, headers=key).status == 404
    begin(yard, "later")
    assert yard.post(path, body, headers=key).status == 200


def many(number):
    return [Tool(f"tool{place}", "big", f"Does the thing number {place}") for place in range(number)]


def test_a_batch_of_unknown_names_lets_others_run_in_between():
    with served(tools=many(3000)) as server:
        calls = [{"name": f"nobody{place}"} for place in range(60)]
        done = []
        thread = threading.Thread(target=lambda: done.append(server.post("/v1/calls", {"calls": calls})))
        thread.start()
        answered = 0
        while thread.is_alive():
            assert server.get("/v1/version").status == 200
            answered += 1
        assert answered > 2, "somebody else was answered while the batch was under way"
        assert {result["error_info"]["code"] for result in done[0].json["results"]} == {"tool.not_found"}
