"""The Sessions screens: the history of one's own sessions, forks of them, and calls that are sent again."""

import pytest

from serving.console.page_app import form_token, sign_in
from serving.service_support import CORE, served

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(params=["memory", "sqlite"])
def yard(request, tmp_path):
    store = {"sessions": {"store": "sqlite", "path": str(tmp_path / "yard.db")}} if request.param == "sqlite" else {}
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


def test_sessions_of_another_key_are_not_there(tmp_path, browse):
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
        assert "Begin one" not in page
        data = {"form_token": form_token(client, "/console/tools")}
        assert client.post("/console/sessions", data=data).status_code == 403
        sign_in(client, mine)
        assert "mine" in client.get("/console/sessions").text
