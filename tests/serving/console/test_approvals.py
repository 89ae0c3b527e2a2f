"""The Approvals screens: what waits, what it would change, and who may decide; a hostile call stays text."""

import re

import pytest

from serving.console.page_app import form_token, sign_in
from serving.service_support import CORE, served

HOSTILE = "<img src=x onerror=alert(1)>"
ORDER = {
    "type": "object",
    "properties": {"order_id": {"type": "integer"}, "status": {"type": "string"}},
    "required": ["order_id", "status"],
}
SHOP = {
    "type": "inline",
    "namespace": "shop",
    "tools": [
        {
            "name": "create_order",
            "description": "Create an order.",
            "effects": "write",
            "parameters": {"type": "object", "properties": {"status": {"type": "string"}}},
            "output_parameters": ORDER,
        },
        {
            "name": "update_order",
            "description": "Change the status of an order.",
            "effects": "write",
            "parameters": ORDER,
            "output_parameters": ORDER,
        },
    ],
}
CONFIG = {
    "tools": [*CORE["tools"], SHOP],
    "policy": {"rules": [{"ask": ["shop::update_order", "core::echo"], "self": True}]},
}


@pytest.fixture
def yard():
    with served(CONFIG, page=True) as server:
        yield server


def call(yard, name, arguments, session="desk", **options):
    body = {"calls": [{"name": name, "arguments": arguments}]}
    return yard.post(f"/v1/sessions/{session}/execute", body, **options).json["results"][0]


@pytest.fixture
def order(yard):
    """A call that waits: an order of the session's world is to be refunded."""
    yard.post("/v1/sessions", {"session_id": "desk"})
    made = call(yard, "shop::create_order", {"status": "paid"})["result"]
    arguments = {"order_id": made["order_id"], "status": "refunded"}
    call(yard, "shop::update_order", arguments)
    return arguments


def pending(client):
    return client.get("/console/approvals.json").json()["approvals"]


def decide(client, approval_id, verdict, **more):
    data = {"form_token": form_token(client, "/console/tools/core::echo"), "verdict": verdict, **more}
    return client.post(f"/console/approvals/{approval_id}", data=data)


def count_in_navigation(client, path="/console/tools"):
    return re.search(r"<y-count[^>]*>([^<]*)</y-count>", client.get(path).text)[1]


def test_every_page_says_how_many_calls_wait_and_none_where_nothing_asks(yard, order, browse):
    client = browse(yard)
    assert [count_in_navigation(client, f"/console/{path}") for path in ("tools", "calls", "approvals")] == ["1"] * 3
    call(yard, "core::echo", {"text": "hi"})
    assert count_in_navigation(client) == "2"
    for waiting in pending(client):
        decide(client, waiting["id"], "deny")
    assert count_in_navigation(client) == ""
    with served(CORE, page=True) as plain:
        assert "y-count" not in browse(plain).get("/console/tools").text


def test_the_inbox_shows_what_a_call_would_change_and_approving_lets_it_run_once(yard, order, browse):
    client = browse(yard)
    [waiting] = pending(client)
    assert waiting["arguments"] == order and waiting["may_decide"]
    assert any("paid" in change and "refunded" in change for change in waiting["preview"]["changes"])
    page = client.get("/console/approvals").text
    assert "What it would change" in page and "refunded" in page and 'href="/console/approvals"' in page
    assert decide(client, waiting["id"], "approve", reason="fine").status_code == 303
    assert pending(client) == []
    link = f"/console/tools/shop::update_order?approval={waiting['id']}"
    assert link in client.get(f"/console/approvals/{waiting['id']}").text
    shown = client.get(link.replace("order?", "order.json?")).json()
    assert shown["filled"] == {"a0": str(order["order_id"]), "a1": "refunded"} and shown["session"] == "desk"
    assert call(yard, "shop::update_order", order)["result"]["status"] == "refunded"
    record = client.get(f"/console/approvals/{waiting['id']}.json").json()
    assert record["state"] == "used" and record["reason"] == "fine" and record["outcome"]["code"] == "ok"
    assert "What really happened" in client.get(f"/console/approvals/{waiting['id']}").text
    assert call(yard, "shop::update_order", order)["error_info"]["code"] == "tool.held", "it was good for once"


def test_an_approved_call_of_an_overload_is_filled_into_its_form_without_its_secrets(browse):
    texts = [{"type": "string", "description": text} for text in ("For people.", "For doors.")]
    overloads = [
        {"name": "open", "parameters": {"type": "object", "properties": {name: text, "key": text}, "required": [name]}}
        for name, text in zip(("person", "door"), texts, strict=True)
    ]
    policy = {"rules": [{"ask": "home::*", "self": True}]}
    with served(
        {"tools": [{"type": "inline", "namespace": "home", "tools": overloads}], "policy": policy}, page=True
    ) as y:
        y.post("/v1/sessions", {"session_id": "desk"})
        call(y, "home::open", {"door": "back", "key": "sk-proj-abcdefghijklmnopqrstuvwx"})
        client = browse(y)
        [waiting] = pending(client)
        shown = client.get(f"/console/tools/home::open.json?approval={waiting['id']}").json()
        assert waiting["arguments"]["key"] == "[redacted]" and shown["filled"] == {"a0": "back", "a1": ""}
        assert "Secrets are not shown" in shown["notice"]


def test_denying_from_the_inbox_stays_in_the_inbox_and_the_call_is_refused(yard, order, browse):
    client = browse(yard)
    [waiting] = pending(client)
    page = decide(client, waiting["id"], "deny", **{"from": "inbox"})
    assert page.status_code == 200 and "shop::update_order is denied." in page.text
    assert call(yard, "shop::update_order", order)["error_info"]["code"] == "tool.denied"
    assert [one["state"] for one in client.get("/console/approvals.json?state=denied").json()["approvals"]] == [
        "denied"
    ]


def test_each_state_is_said_in_words_with_its_time(yard, order, browse):
    client = browse(yard)
    [waiting] = pending(client)
    assert "expires <time" in client.get("/console/approvals").text
    page = decide(client, waiting["id"], "approve", reason="fine", **{"from": "inbox"}).text
    assert "the caller sends the same call again" in page
    approved = client.get("/console/approvals?state=approved").text
    assert "approved by" in approved and ": fine; the call may run once, and the approval expires <time" in approved
    call(yard, "shop::update_order", order)
    assert "ended with <code>ok</code>" in client.get("/console/approvals?state=used").text
    assert "No expired approvals" in client.get("/console/approvals?state=expired").text
    assert waiting["id"] in client.get("/console/approvals?state=all").text


def test_deciding_twice_and_deciding_nothing_say_so(yard, order, browse):
    client = browse(yard)
    [waiting] = pending(client)
    token = form_token(client, f"/console/approvals/{waiting['id']}")
    assert decide(client, waiting["id"], "maybe").status_code == 400
    decide(client, waiting["id"], "deny")
    again = client.post(f"/console/approvals/{waiting['id']}", data={"form_token": token, "verdict": "approve"})
    assert again.status_code == 409 and "decided already" in again.text


def test_ids_and_states_that_are_made_up_are_refused_with_words(yard, browse):
    client = browse(yard)
    for path in ("/console/approvals/nothing", f"/console/approvals/{'0' * 24}-1"):
        assert client.get(path).status_code == 404 and client.get(f"{path}.json").json()["error"]["message"]
    assert client.get("/console/approvals?state=forgotten").status_code == 400
    assert client.get("/console/approvals?cursor=made-up").status_code == 400


def test_hostile_arguments_and_names_stay_text(yard, browse):
    yard.post("/v1/sessions", {"session_id": "desk"})
    call(yard, "core::echo", {"text": HOSTILE})
    client = browse(yard)
    [waiting] = pending(client)
    for path in ("/console/approvals", f"/console/approvals/{waiting['id']}"):
        text = client.get(path).text
        assert "<img src=x" not in text and "&lt;img src=x" in text


def test_a_tool_that_is_held_says_so_and_its_page_leads_to_the_approval(yard, browse):
    client = browse(yard)
    rows = {row["name"]: row["held"] for row in client.get("/console/tools.json").json()["rows"]}
    assert rows["core::echo"] and rows["shop::update_order"] and not rows["shop::create_order"]
    assert 'class="badge held"' in client.get("/console/tools").text
    shown = client.get("/console/tools/core::echo.json").json()
    data = {"definition": shown["tool"]["definition_hash"], "a0": "hello", "mode": "execute"}
    data["form_token"] = form_token(client, "/console/tools/core::echo")
    page = client.post("/console/tools/core::echo", data=data).text
    [waiting] = pending(client)
    assert "tool.held" in page and f'href="/console/approvals/{waiting["id"]}"' in page
    decide(client, waiting["id"], "deny", reason="too loud")
    page = client.post("/console/tools/core::echo", data=data).text
    assert "tool.denied" in page and "too loud" in page and "Waiting for approval" not in page


def test_a_key_sees_and_decides_what_is_its_own_to_see_and_decide(tmp_path, browse):
    store = {"store": "sqlite", "path": str(tmp_path / "yard.db")}
    config = {**CONFIG, "policy": {"rules": [{"ask": "core::echo"}]}, "sessions": store}
    with served(config, page=True) as yard:
        agent, boss, other = yard.key("*:list,execute"), yard.key("core:list,approve"), yard.key("*:list,execute")
        yard.post("/v1/sessions", {"session_id": "desk"}, token=agent)
        call(yard, "core::echo", {"text": "hi"}, token=agent)
        client = browse(yard)
        sign_in(client, agent)
        [mine] = pending(client)
        assert not mine["may_decide"] and "another person" in client.get("/console/approvals").text
        assert decide(client, mine["id"], "approve").status_code == 403
        sign_in(client, other)
        assert pending(client) == [] and client.get(f"/console/approvals/{mine['id']}").status_code == 404
        sign_in(client, boss)
        assert decide(client, mine["id"], "approve").status_code == 303
        links = ("/console/sessions/desk", f"?approval={mine['id']}")
        page = client.get(f"/console/approvals/{mine['id']}").text
        assert not any(link in page for link in links), "the session and the call are those of the other key"
        sign_in(client, agent)
        page = client.get(f"/console/approvals/{mine['id']}").text
        assert all(link in page for link in links)
        assert call(yard, "core::echo", {"text": "hi"}, token=agent)["result"]


def test_without_an_ask_rule_approvals_are_not_in_the_navigation(browse):
    with served(CORE, page=True) as yard:
        client = browse(yard)
        assert "/console/approvals" not in client.get("/console/tools").text
        assert "Nothing waits" in client.get("/console/approvals").text
