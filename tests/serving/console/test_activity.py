"""The Calls screens: the log with its filters, one call whole, and nothing of calls that are another key's."""

import pytest

from serving.console.page_app import sign_in
from serving.service_support import CORE, served


@pytest.fixture
def yard():
    with served(CORE, page=True) as server:
        server.post("/v1/sessions", {"session_id": "trip"})
        for name, arguments in (("core::calc", {"expression": "6 * 7"}), ("core::calc", {"expression": "1 / 0"})):
            server.post("/v1/sessions/trip/execute", {"calls": [{"name": name, "arguments": arguments}]})
        server.invoke("core::echo", {"text": "hi"})
        yield server


def shown(client, **query):
    return client.get("/console/calls.json", params=query).json()["calls"]


def test_the_log_is_listed_newest_first_and_filtered(yard, browse):
    client = browse(yard)
    assert [row["tool"] for row in shown(client)] == ["core::echo", "core::calc", "core::calc"]
    assert shown(client) == yard.get("/v1/calls").json["calls"]
    assert [row["code"] for row in shown(client, errors="true")] == ["tool.execution_error"]
    assert len(shown(client, tool="core::c*")) == len(shown(client, session="trip")) == 2
    assert shown(client, tool="", session="", code="", mode="", effects="") == shown(client), "as a form sends it"
    assert shown(client, tool="nothing") == [] and "Clear the filters" in client.get("/console/calls?tool=nothing").text
    page = client.get("/console/calls").text
    assert page.count('class="row call"') == 3 and "tool.execution_error" in page


def test_a_call_shows_its_row_its_arguments_and_its_result(yard, browse):
    client = browse(yard)
    failed = shown(client, errors="true")[0]
    whole = client.get(f"/console/calls/{failed['id']}.json").json()
    assert whole["call"] == failed and whole["entry"]["tool_call"]["arguments"] == {"expression": "1 / 0"}
    page = client.get(f"/console/calls/{failed['id']}").text
    assert "Send again with changes" in page and "1 / 0" in page and "/console/sessions/trip?after=1#e2" in page
    assert list(failed["steps_ms"]) == ["bind", "policy", "run"] and page.count("<dt>run</dt>") == 1
    alone = shown(client, tool="core::echo")[0]
    assert client.get(f"/console/calls/{alone['id']}.json").json()["entry"] is None
    yard.ask("DELETE", "/v1/sessions/trip")
    assert client.get(f"/console/calls/{failed['id']}.json").json()["entry"] is None
    assert "/console/sessions/trip" not in client.get(f"/console/calls/{failed['id']}").text


def test_tools_sessions_and_keys_lead_to_their_calls(yard, browse):
    client = browse(yard)
    assert "/console/calls?tool=core%3A%3Acalc" in client.get("/console/tools/core::calc").text
    assert "/console/calls?session=trip" in client.get("/console/sessions/trip").text
    assert 'name="key" value="abc"' in client.get("/console/calls?key=abc").text


@pytest.mark.parametrize("path", ["/console/calls/nothing", "/console/calls/0000000000000001"])
def test_a_call_that_is_not_there_is_a_404_and_a_made_up_cursor_a_400(yard, browse, path):
    client = browse(yard)
    assert client.get(path).status_code == 404 and client.get(f"{path}.json").json()["error"]["message"]
    refused = client.get("/console/calls?cursor=made-up")
    assert refused.status_code == 400 and ">All calls</a>" in refused.text


def test_a_key_sees_its_own_calls_and_an_admin_rows_of_all_without_what_was_said(tmp_path, browse):
    with served({**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "y.db")}}, page=True) as yard:
        mine, other, admin = yard.key("*:list,execute"), yard.key("*:list,execute"), yard.key("*:*")
        yard.post("/v1/sessions", {"session_id": "s"}, token=mine)
        calls = [{"name": "core::echo", "arguments": {"text": "private"}}]
        yard.post("/v1/sessions/s/execute", {"calls": calls}, token=mine)
        client = browse(yard)
        sign_in(client, mine)
        [row] = shown(client)
        assert client.get(f"/console/calls/{row['id']}.json").json()["entry"]
        sign_in(client, other)
        assert shown(client) == [] and client.get(f"/console/calls/{row['id']}").status_code == 404
        sign_in(client, admin)
        assert [one["id"] for one in shown(client)] == [row["id"]]
        page = client.get(f"/console/calls/{row['id']}").text
        assert "private" not in page and f"/console/calls?key={row['key']}" in page


def test_without_a_log_the_page_says_so_and_is_not_in_the_navigation(browse):
    with served({**CORE, "tracing": {"log": False}}, page=True) as yard:
        client = browse(yard)
        assert "/console/calls" not in client.get("/console/tools").text
        assert "not logged here" in client.get("/console/calls").text
