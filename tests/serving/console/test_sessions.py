"""The Sessions screens: the history of one's own sessions, forks of them, and calls that are sent again."""

import pytest

from conftest import chosen_way, ways_to_try
from serving.console.page_app import form_token, sign_in
from serving.service_support import CORE, served

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(params=ways_to_try("memory", "sqlite"))
def yard(request, tmp_path):
    store = (
        {"sessions": {"store": "sqlite", "path": str(tmp_path / "yard.db")}} if chosen_way(request) == "sqlite" else {}
    )
    with served({**CORE, **store}, page=True) as server:
        yield server


def run(yard, session, name, **arguments):
    return yard.post(f"/v1/sessions/{session}/execute", {"calls": [{"name": name, "arguments": arguments}]})


@pytest.fixture
def trip(yard):
    yard.post("/v1/sessions", {"session_id": "trip"})
    for number in range(3):
        run(yard, "trip", "core::calc", expression=f"{number} + 1")
    run(yard, "trip", "core::calc", expression="1 / 0")
    run(yard, "trip", "core::echo", text=HOSTILE)
    return yard


def test_a_session_is_a_timeline_of_its_calls_with_their_times(trip, browse):
    client = browse(trip)
    assert [one["session_id"] for one in client.get("/console/sessions.json").json()["sessions"]] == ["trip"]
    shown = client.get("/console/sessions/trip.json").json()
    assert [entry["seq"] for entry in shown["entries"]] == [1, 2, 3, 4, 5] and shown["length"] == 5
    assert [entry["code"] for entry in shown["entries"]] == ["ok", "ok", "ok", "tool.execution_error", "ok"]
    assert all(entry["at"] and entry["took"] >= 0 for entry in shown["entries"])
    page = client.get("/console/sessions/trip").text
    assert "<img src=x" not in page and "&lt;img src=x" in page and "tool.execution_error" in page


def test_the_json_of_the_screens_has_fields_that_scripts_rely_on(trip, browse):
    client = browse(trip)
    listed = client.get("/console/sessions.json").json()
    assert sorted(listed) == ["may_begin", "page", "pages", "sessions", "total"]
    shown = client.get("/console/sessions/trip.json").json()
    fields = ["after", "at", "entries", "fork_of", "length", "may_begin", "page_size", "session_id", "state_hash"]
    assert sorted(shown) == [*fields, "world", "world_hash"]


def test_a_long_history_has_pages_and_shows_the_last_one_first(yard, browse):
    yard.post("/v1/sessions", {"session_id": "long"})
    calls = [{"name": "core::calc", "arguments": {"expression": str(number)}} for number in range(120)]
    yard.post("/v1/sessions/long/execute", {"calls": calls})
    client = browse(yard)
    assert [entry["seq"] for entry in client.get("/console/sessions/long.json").json()["entries"]] == [*range(71, 121)]
    first = client.get("/console/sessions/long.json?after=0").json()["entries"]
    assert [entry["seq"] for entry in first] == [*range(1, 51)]
    assert client.get("/console/sessions/long?after=made-up").status_code == 400


def test_a_session_is_begun_and_forked_from_its_page(trip, browse):
    client = browse(trip)
    token = form_token(client, "/console/sessions")
    begun = client.post("/console/sessions", data={"form_token": token, "session_id": "fresh/one"})
    assert begun.headers["location"] == "/console/sessions/fresh%2Fone"
    assert client.get(begun.headers["location"]).status_code == 200
    forked = client.post("/console/sessions/trip", data={"form_token": token, "session_id": "what-if"})
    assert forked.headers["location"] == "/console/sessions/what-if"
    run(trip, "what-if", "core::echo", text="more")
    assert client.get("/console/sessions/what-if.json").json()["length"] == 6
    assert client.get("/console/sessions/trip.json").json()["length"] == 5
    taken = client.post("/console/sessions/trip", data={"form_token": token, "session_id": "what-if"})
    assert taken.status_code == 409 and "already" in taken.text
    unnamed = client.post("/console/sessions/trip", data={"form_token": token})
    assert unnamed.status_code == 303 and client.get(unnamed.headers["location"]).status_code == 200


def test_a_call_of_a_session_is_sent_again_with_changes_in_that_session(trip, browse):
    client = browse(trip)
    path = "/console/tools/core::calc?session=trip&entry=2"
    shown = client.get(path.replace("calc?", "calc.json?")).json()
    assert shown["filled"] == {"a0": "1 + 1"} and shown["session"] == "trip"
    definition = shown["tool"]["definition_hash"]
    data = {"form_token": form_token(client, path), "definition": definition, "session": "trip", "mode": "execute"}
    page = client.post("/console/tools/core::calc", data={**data, "a0": "20 + 22"})
    assert "42" in page.text and client.get("/console/sessions/trip.json").json()["length"] == 6
    client.post("/console/tools/core::calc", data={**data, "a0": "1", "mode": "simulate"})
    assert client.get("/console/sessions/trip.json").json()["length"] == 6
    gone = client.post("/console/tools/core::calc", data={**data, "session": "nowhere", "a0": "1"})
    assert gone.status_code == 404 and "nowhere" in gone.text


def test_an_unknown_session_is_a_404_with_words(yard, browse):
    client = browse(yard)
    assert client.get("/console/sessions/nowhere").status_code == 404
    missing = client.get("/console/sessions/nowhere.json")
    assert missing.status_code == 404 and missing.json()["error"]["code"].startswith("session.")
    assert client.get("/console/tools/core::calc?session=nowhere&entry=1").status_code == 404


def test_sessions_of_another_key_are_not_found(tmp_path, browse):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "yard.db")}}
    with served(config, page=True) as yard:
        mine, other, looking = yard.key("*:*"), yard.key("*:*"), yard.key("*:list")
        yard.post("/v1/sessions", {"session_id": "mine"}, token=mine)
        client = browse(yard)
        sign_in(client, other)
        assert client.get("/console/sessions.json").json()["sessions"] == []
        assert client.get("/console/sessions/mine").status_code == 404
        sign_in(client, looking)
        page = client.get("/console/sessions").text
        assert "New session" not in page
        data = {"form_token": form_token(client, "/console/tools")}
        assert client.post("/console/sessions", data=data).status_code == 403
        sign_in(client, mine)
        assert "mine" in client.get("/console/sessions").text


@pytest.fixture
def shop(tmp_path):
    """A session in whose world an order is first paid, and then refunded."""
    from serving.console.test_approvals import SHOP

    with served({"tools": [*CORE["tools"], SHOP]}, page=True) as server:
        server.post("/v1/sessions", {"session_id": "desk"})
        made = run(server, "desk", "shop::create_order", status="paid").json["results"][0]["result"]
        server.order = {"order_id": made["order_id"], "status": "refunded"}
        run(server, "desk", "shop::update_order", **server.order)
        yield server


def test_the_state_after_any_entry_and_the_changes_of_a_call_are_shown(shop, browse):
    client = browse(shop)
    worlds = [client.get(f"/console/sessions/desk.json?at={at}").json() for at in (0, 1, 2)]
    assert [len({str(one["world"]) for one in worlds}), worlds[0]["world"]] == [3, {}]
    assert "after call 1" in client.get("/console/sessions/desk?at=1").text
    diff = client.get("/console/sessions/desk/diff.json?at_a=1&at_b=2").json()
    assert not diff["equal"] and {("paid", "refunded")} <= {
        (change.get("before"), change.get("after")) for change in diff["changes"] if change["kind"] == "changed"
    }
    page = client.get("/console/sessions/desk/diff?at_a=1&at_b=2").text
    assert "<del>&#34;paid&#34;</del>" in page and "<ins>&#34;refunded&#34;</ins>" in page
    assert client.get("/console/sessions/desk/diff.json?at_a=2&at_b=2").json()["equal"]
    assert client.get("/console/sessions/desk/diff?other=nowhere").status_code == 404
    assert client.get("/console/sessions/desk/diff?at_a=made-up").status_code == 400


def test_a_fork_after_an_entry_has_the_state_of_that_entry(shop, browse):
    client = browse(shop)
    token = form_token(client, "/console/sessions/desk")
    forked = client.post("/console/sessions/desk", data={"form_token": token, "session_id": "then", "at": "1"})
    assert forked.headers["location"] == "/console/sessions/then"
    then = client.get("/console/sessions/then.json").json()
    assert (
        then["length"] == 1
        and then["world_hash"] == client.get("/console/sessions/desk.json?at=1").json()["world_hash"]
    )
    diff = client.get("/console/sessions/desk/diff.json?at_a=1&other=then").json()
    assert diff["equal"] and diff["at_b"] == 1
    for wrong in ("-1", "x", "99"):
        answer = client.post("/console/sessions/desk", data={"form_token": token, "at": wrong})
        assert answer.status_code in (400, 404, 409, 422), (wrong, answer.status_code)


def test_a_call_is_simulated_after_an_entry_and_changes_nothing(shop, browse):
    client = browse(shop)
    path = "/console/tools/shop::update_order"
    shown = client.get(f"{path}.json?session=desk&at=1").json()
    assert shown["at"] == 1 and shown["may_simulate"] and not shown["may_run"]
    data = {"form_token": form_token(client, path), "definition": shown["tool"]["definition_hash"], "session": "desk"}
    sent = {"a0": str(shop.order["order_id"]), "a1": "shipped", "mode": "execute", "at": "1"}
    page = client.post(path, data={**data, **sent})
    assert page.status_code == 200 and "shipped" in page.text and "nothing was changed or recorded" in page.text
    assert client.get("/console/sessions/desk.json").json()["length"] == 2
    assert [one["session_id"] for one in client.get("/console/sessions.json").json()["sessions"]] == ["desk"]


def test_sessions_are_listed_last_used_first_with_forks_below_their_parents(trip, browse):
    for new, old in (("a-fork", "trip"), ("fork-of-fork", "a-fork"), ("z-fork", "trip")):
        trip.post(f"/v1/sessions/{old}/fork", {"session_id": new})
    trip.post("/v1/sessions", {"session_id": "alone"})
    client = browse(trip)

    def tree():
        rows = client.get("/console/sessions.json").json()["sessions"]
        return [(row["session_id"], row["depth"]) for row in rows]

    assert tree() == [("alone", 0), ("trip", 0), ("z-fork", 1), ("a-fork", 1), ("fork-of-fork", 2)]
    run(trip, "fork-of-fork", "core::echo", text="the last one used")
    assert tree() == [("trip", 0), ("a-fork", 1), ("fork-of-fork", 2), ("z-fork", 1), ("alone", 0)]
    assert client.get("/console/sessions/a-fork.json").json()["fork_of"] == "trip"
    assert client.get("/console/sessions").text.count('class="badge">fork') == 3
    trip.ask("DELETE", "/v1/sessions/a-fork")
    assert tree() == [("fork-of-fork", 0), ("alone", 0), ("trip", 0), ("z-fork", 1)]
    trip.ask("DELETE", "/v1/sessions/trip")
    trip.post("/v1/sessions/z-fork/fork", {"session_id": "trip"})
    assert tree() == [("z-fork", 0), ("trip", 1), ("fork-of-fork", 0), ("alone", 0)], "each is a fork of the other"
    assert client.get("/console/sessions?page=made-up").status_code == 400
