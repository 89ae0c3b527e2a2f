"""Calls that are held, over HTTP: how they are told of, waited for, decided on, and sent again."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from waiting import until

from serving.mcp.mcp_support import BOTH, StreamReader, make_request
from serving.service_support import served
from toolyard import Effects, function_tool
from toolyard.app.blocks import ServerBlock
from toolyard.serving.admission import Admission, Place
from toolyard.serving.identity import NOBODY

PAID = []
SEEN = []


def pay(amount: int, token: str = "") -> int:
    """Pay."""
    PAID.append(amount)
    return amount


def look(what: str = "") -> str:
    """Look."""
    SEEN.append(what)
    return what


TOOLS = (function_tool(pay, namespace="bank", effects=Effects.WRITE), function_tool(look, namespace="bank"))


@pytest.fixture(autouse=True)
def _nothing_done():
    PAID.clear()
    SEEN.clear()


@contextmanager
def bank(folder=None, *, server=(), **rule):
    """A bank that asks before it pays; with a folder there are keys for the agent and for who decides."""
    config = {"tools": [], "policy": {"rules": [{"ask": "bank::pay", **rule}]}}
    if folder is not None:
        config["sessions"] = {"store": "sqlite", "path": str(folder / "s.db")}
    with served(config, tools=TOOLS, **dict(server)) as yard:
        if folder is not None:
            yard.token = yard.key("bank:execute", name="agent")
            yard.boss = yard.key("bank:approve", name="boss")
        yield yard


def invoke(yard, amount=5, **options):
    return yard.invoke("bank::pay", {"amount": amount}, **options)


def held_id(answer):
    assert answer.status == 202, answer
    assert answer.json["error"]["code"] == "tool.held"
    return answer.json["error"]["details"]["approval"]["id"]


def decide(yard, approval_id, verdict="approve", token=None, **body):
    return yard.ask("POST", f"/v1/approvals/{approval_id}:{verdict}", body or None, token=token or yard.boss)


def pending(yard):
    """The ids of what waits, once something does."""
    ids = lambda: [each["id"] for each in yard.get("/v1/approvals?state=pending").json["approvals"]]  # noqa: E731
    until(ids)
    return ids()


WAIT = {"prefer": "wait=30"}


def test_a_held_call_is_a_202_with_the_place_of_its_approval_and_runs_when_it_is_sent_again(tmp_path):
    with bank(tmp_path) as yard:
        answer = invoke(yard)
        approval_id = held_id(answer)
        assert answer.headers["location"] == f"/v1/approvals/{approval_id}" and PAID == []
        mine = yard.get(answer.headers["location"]).json
        assert (mine["state"], mine["arguments"]["amount"], mine["caller"], mine["may_decide"]) == (
            *("pending", 5, "agent"),
            False,
        )
        assert "why_not" in mine["preview"], "what cannot be predicted is said"
        decided = decide(yard, approval_id, reason="it is fine").json
        assert (decided["state"], decided["decided_by"], decided["reason"]) == ("approved", "boss", "it is fine")
        assert PAID == [], "approving runs nothing"
        assert invoke(yard).json["result"] == {"result": 5}
        used = yard.get(answer.headers["location"]).json
        assert (used["state"], used["outcome"]["code"]) == ("used", "ok")
        assert held_id(invoke(yard)) != approval_id and PAID == [5], "an approval is used once"


def test_several_calls_are_a_200_with_a_code_each_and_one_alone_is_a_202(tmp_path):
    with bank(tmp_path) as yard:
        pay_, look_ = {"name": "bank::pay", "arguments": {"amount": 5}}, {"name": "bank::look"}
        several = yard.post("/v1/calls", {"calls": [look_, pay_]})
        assert several.status == 200 and "location" not in several.headers
        first, second = several.json["results"]
        assert (first["error"], second["error_info"]["code"]) == (None, "tool.held")
        alone = yard.post("/v1/calls", {"calls": [pay_]})
        approval_id = alone.json["results"][0]["error_info"]["details"]["approval"]["id"]
        assert (alone.status, alone.headers["location"]) == (202, f"/v1/approvals/{approval_id}")


def test_the_arp_wire_answers_200_and_the_same_invocation_id_runs_after_the_approval_once(tmp_path):
    with bank(tmp_path) as yard:
        answer = yard.arp("i-1", "bank::pay", {"amount": 5})
        assert (answer.status, answer.json["ok"], answer.json["error"]["code"]) == (200, False, "tool.held")
        again = yard.arp("i-1", "bank::pay", {"amount": 5})
        assert again.json["error"]["details"]["approval"] == answer.json["error"]["details"]["approval"]
        decide(yard, answer.json["error"]["details"]["approval"]["id"])
        for _ in range(2):
            assert yard.arp("i-1", "bank::pay", {"amount": 5}).json["result"] == {"result": 5}
        assert PAID == [5]


@pytest.mark.parametrize("keyed", [False, True])
def test_who_waits_is_answered_when_somebody_decides_and_holds_neither_a_place_nor_the_sessions_turn(tmp_path, keyed):
    with bank(tmp_path, server={"max_requests": 1}) as yard, ThreadPoolExecutor(1) as threads:
        yard.post("/v1/sessions", {"session_id": "s"})
        headers = {**WAIT, **({"idempotency-key": "k"} if keyed else {})}
        calls = {"calls": [{"name": "bank::look"}, {"name": "bank::pay", "arguments": {"amount": 5}}]}
        waiting = threads.submit(yard.post, "/v1/sessions/s/execute", calls, headers=headers)
        [approval_id] = pending(yard)
        meanwhile = yard.post("/v1/sessions/s/execute", {"calls": [{"name": "bank::look"}]})
        assert meanwhile.status == 200 and not waiting.done()
        decide(yard, approval_id)
        answer = waiting.result()
        assert answer.headers["preference-applied"] == "wait=30"
        assert [result["result"] for result in answer.json["results"]] == ["", 5]
        assert (SEEN, PAID) == (["", ""], [5]), "only the held call of the batch is sent again"
        history = yard.get("/v1/sessions/s/history").json["entries"]
        assert [entry["tool_call"]["name"] for entry in history] == ["bank::look", "bank::look", "bank::pay"]


def test_nobody_waits_longer_than_the_server_allows_and_a_preference_that_is_none_is_no_fault(tmp_path):
    with bank(tmp_path, server={"call_timeout": 0.05}) as yard:
        answer = invoke(yard, headers={"prefer": 'respond-async, wait="3600"'})
        assert held_id(answer) and answer.headers["preference-applied"] == "wait=0"
        assert held_id(invoke(yard, headers={"prefer": "wait=long, handling=strict"}))


def test_a_batch_with_a_key_goes_on_where_it_was_held(tmp_path):
    with bank(tmp_path) as yard:
        calls = [{"name": "bank::look", "arguments": {"what": "a"}}, {"name": "bank::pay", "arguments": {"amount": 5}}]
        send = lambda: yard.post("/v1/calls", {"calls": calls}, headers={"idempotency-key": "k"})  # noqa: E731
        assert send().json["results"][1]["error_info"]["code"] == "tool.held"
        decide(yard, pending(yard)[0])
        done = send()
        assert [result["result"] for result in done.json["results"]] == ["a", 5]
        assert "idempotent-replayed" not in done.headers
        assert send().headers["idempotent-replayed"] == "true"
        assert (SEEN, PAID) == (["a"], [5])


def test_a_call_that_is_denied_is_refused_with_the_reason_waiting_or_sent_again(tmp_path):
    with bank(tmp_path) as yard, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(invoke, yard, headers=WAIT)
        decide(yard, pending(yard)[0], "deny", reason="not today")
        for answer in (waiting.result(), invoke(yard)):
            assert (answer.status, answer.json["error"]["code"]) == (403, "tool.denied")
            assert "boss (not today)" in answer.json["error"]["message"]
        assert PAID == []


def test_an_approval_that_expires_says_so_to_who_waits_and_to_who_decides(tmp_path):
    with bank(tmp_path, expires=0.3) as yard:
        answer = invoke(yard, headers={**WAIT, "idempotency-key": "k"})
        assert (answer.status, answer.json["error"]["code"]) == (403, "tool.denied")
        told = answer.json["error"]
        assert "expired: nobody decided" in told["message"] and told["details"]["approval"]["state"] == "expired"
        late = decide(yard, told["details"]["approval"]["id"])
        assert (late.status, late.error["code"]) == (409, "approval.expired")
        assert held_id(invoke(yard)) != told["details"]["approval"]["id"] and PAID == []


def test_nobody_decides_twice(tmp_path):
    with bank(tmp_path) as yard:
        approval_id = held_id(invoke(yard))
        assert decide(yard, approval_id).status == 200
        for verdict in ("approve", "deny"):
            again = decide(yard, approval_id, verdict)
            assert (again.status, again.error["code"]) == (409, "approval.decided")
            assert "approved by boss" in again.error["message"]


def test_a_definition_that_changed_meanwhile_is_approved_anew(tmp_path):
    with bank(tmp_path) as yard:
        first, approved = held_id(invoke(yard)), held_id(invoke(yard, 6))
        decide(yard, approved)
        registry = yard.service.yard.tool_registry
        registry.remove("bank::pay")
        registry.add(function_tool(pay, namespace="bank", description="Pay, at once.", effects=Effects.WRITE))
        refused = decide(yard, first)
        assert (refused.status, refused.error["code"]) == (409, "approval.decided")
        assert "has another definition since it was held" in refused.error["message"]
        assert "another definition" in yard.get(f"/v1/approvals/{first}", token=yard.boss).json["obstacle"]
        assert held_id(invoke(yard, 6)) != approved and PAID == []


def test_approvals_of_others_are_as_unknown_as_those_that_never_were(tmp_path):
    with bank(tmp_path) as yard:
        approval_id = held_id(invoke(yard))
        other = yard.key("bank:execute", "shop:approve", name="other")
        answers = []
        for name in (approval_id, f"{'0' * 24}-1", "nothing", "..%2F"):
            for method, path in (("GET", ""), ("POST", ":approve"), ("POST", ":deny")):
                answer = yard.ask(method, f"/v1/approvals/{name}{path}", token=other)
                assert (answer.status, answer.error["code"]) == (404, "approval.not_found"), (name, path)
                answers.append(answer.error["message"].replace(name, "ID"))
        assert len(set(answers)) == 2, "the same words, but for the one whose name is escaped"
        assert yard.get("/v1/approvals", token=other).json == {"approvals": []}
        assert yard.get(f"/v1/approvals/{approval_id}").json["state"] == "pending"


def test_nobody_approves_a_call_of_their_own_unless_the_rule_says_so(tmp_path):
    with bank(tmp_path) as yard:
        both = yard.key("bank:execute,approve", name="both")
        approval_id = held_id(invoke(yard, token=both))
        refused = decide(yard, approval_id, token=both)
        assert (refused.status, refused.error["code"]) == (403, "approval.forbidden")
    with bank(tmp_path, self=True) as yard:
        approval_id = held_id(invoke(yard, 7))
        assert decide(yard, approval_id, token=yard.token).json["decided_by"] == "agent"
        assert invoke(yard, 7).json["result"] == {"result": 7}


def test_a_rule_may_name_who_decides(tmp_path):
    with bank(tmp_path, approvers="chief*") as yard:
        approval_id = held_id(invoke(yard))
        assert decide(yard, approval_id).error["code"] == "approval.forbidden"
        assert not yard.get(f"/v1/approvals/{approval_id}", token=yard.boss).json["may_decide"]
        assert decide(yard, approval_id, token=yard.key("*:approve", name="chief of all")).status == 200


def test_without_keys_all_are_one_and_decide_only_where_a_rule_says_so():
    with bank() as yard:
        approval_id = held_id(invoke(yard))
        assert yard.ask("POST", f"/v1/approvals/{approval_id}:approve").status == 403
    with bank(self=True) as yard:
        assert yard.ask("POST", f"/v1/approvals/{held_id(invoke(yard))}:approve").json["decided_by"] == "anonymous"
        assert invoke(yard).json["result"] == {"result": 5}


def test_lists_filter_and_page_newest_first_and_made_up_cursors_are_refused(tmp_path):
    with bank(tmp_path) as yard:
        yard.post("/v1/sessions", {"session_id": "s"})
        ids = [held_id(invoke(yard, amount)) for amount in range(5)]
        yard.post("/v1/sessions/s/execute", {"calls": [{"name": "bank::pay", "arguments": {"amount": 9}}]})
        decide(yard, ids[0], "deny")
        listed, cursor = [], ""
        while cursor is not None:
            page = yard.get(f"/v1/approvals?limit=2{cursor}", token=yard.boss).json
            listed += [approval["arguments"]["amount"] for approval in page["approvals"]]
            cursor = f"&cursor={page['next_cursor']}" if "next_cursor" in page else None
        assert listed == [9, 4, 3, 2, 1, 0]
        count = lambda query: len(yard.get(f"/v1/approvals?{query}").json["approvals"])  # noqa: E731
        assert (count("state=denied"), count("session=s"), count("tool=bank::pay"), count("tool=bank::look")) == (
            *(1, 1, 6),
            0,
        )
        assert count("state=all") == count("limit=100") == 6, "as toolyard approvals list --state all"
        for query in ("cursor=made~up", "state=lost", "limit=0", "colour=red"):
            assert yard.get(f"/v1/approvals?{query}").status == 400


def test_a_decision_that_cannot_be_read_decides_nothing(tmp_path):
    with bank(tmp_path) as yard:
        approval_id = held_id(invoke(yard))
        for body in (b"{", b'{"reason": 5}', b'{"why": "x"}', b'"yes"', b'{"reason": "' + b"x" * 3000 + b'"}'):
            answer = yard.ask("POST", f"/v1/approvals/{approval_id}:approve", body, token=yard.boss)
            assert answer.status == 400 and pending(yard) == [approval_id], body


def test_secrets_among_the_arguments_are_shown_to_nobody(tmp_path):
    with bank(tmp_path) as yard:
        answer = yard.invoke("bank::pay", {"amount": 5, "token": "hunter2hunter2"})
        shown = yard.get(f"/v1/approvals/{held_id(answer)}", token=yard.boss)
        assert b"hunter2" not in shown.body + answer.body and shown.json["arguments"]["amount"] == 5


def test_a_request_for_an_approval_can_wait_for_its_decision(tmp_path):
    with bank(tmp_path) as yard, ThreadPoolExecutor(1) as threads:
        place = f"/v1/approvals/{held_id(invoke(yard))}"
        waiting = threads.submit(yard.get, place, headers=WAIT)
        decide(yard, place.rpartition("/")[2], "deny")
        assert waiting.result().json["state"] == "denied"
        assert waiting.result().headers["preference-applied"] == "wait=30"


def test_a_server_that_stops_tells_who_waits_how_it_stands(tmp_path):
    with bank(tmp_path) as yard, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(invoke, yard, headers={**WAIT, "idempotency-key": "k"})
        pending(yard)
        until(lambda: yard.service.invoker._waits)
        threading.Timer(0, yard.service.end_waits).start()
        assert held_id(waiting.result())


def test_a_held_request_whose_client_disconnects_does_not_run_when_approved(tmp_path):
    with bank(tmp_path) as yard:
        body = b'{"args": {"amount": 5}}'
        head = f"POST /v1/tools/bank::pay:invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {yard.token}\r\n"
        head += f"Prefer: wait=30\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", yard.port)) as line:
            line.sendall(head.encode() + body)
            [approval_id] = pending(yard)
            until(lambda: yard.service.invoker._waits)
        decide(yard, approval_id)
        until(lambda: not yard.service.invoker._waits)
        assert yard.get(f"/v1/approvals/{approval_id}").json["state"] == "approved" and PAID == []


@pytest.mark.parametrize("wire", ["http", "mcp"])
def test_a_call_that_waits_does_not_run_for_a_key_that_was_revoked_meanwhile(tmp_path, wire):
    with bank(tmp_path, self=True) as yard, ThreadPoolExecutor(1) as threads:
        if wire == "http":
            waiting = threads.submit(invoke, yard, headers=WAIT)
        else:
            waiting = threads.submit(call_and_leave_the_question, yard)
        [approval_id] = pending(yard)
        yard.service.keys.revoke(yard.service.keys.find(yard.token).key_id)
        decide(yard, approval_id)
        answer = waiting.result()
        assert "revoked" in str(answer) and PAID == []
        assert yard.get(f"/v1/approvals/{approval_id}", token=yard.boss).json["state"] == "approved"


def call_and_leave_the_question(yard):
    """Call as an MCP client that can be asked, whose user does not answer; the last message of the stream."""
    told = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    opened = yard.post("/mcp", make_request("initialize", told, 0), headers=BOTH)
    headers = {**BOTH, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    body = make_request("tools/call", {"name": "bank__pay", "arguments": {"amount": 5}}, 1)
    with StreamReader(yard, "POST", "/mcp", body, headers, yard.token) as stream:
        assert until(lambda: stream.over)
        return stream.messages[-1]


def test_the_document_tells_of_approvals_and_of_held_calls(tmp_path):
    with bank(tmp_path) as yard:
        document = yard.get("/openapi.json").json
        decision = document["paths"]["/v1/approvals/{approval_id}:approve"]["post"]
        assert decision["requestBody"]["required"] is False and "409" in decision["responses"]
        called = document["paths"]["/v1/tools/{name}:invoke"]["post"]
        assert "202" in called["responses"] and "Prefer" in [each["name"] for each in called["parameters"]]


async def test_a_place_is_given_back_once_however_often_it_is_left():
    places = Admission(ServerBlock().max_requests, 1)
    async with (place := Place(places, NOBODY, [])):
        place.leave()
        assert places.running == 0
        await place.take()
    place.leave()
    assert places.running == 0
