"""The Sources screen: every rejection with its place, and loading again, for whoever may."""

import json

import pytest

from serving.console.page_app import form_token, sign_in
from serving.service_support import served

GOOD = {"name": "fine", "description": "Fine.", "parameters": {"type": "object", "properties": {"x": {"type": "int"}}}}
BAD = {"name": "bad", "parameters": {"type": "object", "properties": {"y": {"type": "<b>nonsense</b>"}}}}


@pytest.fixture
def catalog(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([GOOD, BAD, 7]))
    return path


@pytest.fixture
def yard(tmp_path, catalog):
    store = {"store": "sqlite", "path": str(tmp_path / "yard.db")}
    source = {"type": "file", "path": str(catalog), "on_error": "skip"}
    with served({"tools": [source], "sessions": store}, page=True) as server:
        yield server


def test_every_rejection_is_listed_with_its_place_and_rewrites_with_their_pointer(yard, catalog, browse):
    client = browse(yard)
    source, _ = client.get("/console/sources.json").json()["sources"]
    assert (source["entries"], source["loaded"], source["rejections"], source["rewritten"]) == (3, 1, 2, 1)
    assert "unknown type '<b>nonsense</b>'" in source["rejected"][0]["reason"] and source["rewrites"][0]["pointer"]
    page = client.get("/console/sources").text
    assert "&lt;b&gt;nonsense&lt;/b&gt;" in page and "<b>" not in page and str(catalog) in page
    assert "2 rejected: left out" in page and "1 rewrite: loaded" in page


def test_reloading_shows_the_new_tools_and_marks_a_failing_source_stale(yard, catalog, browse):
    client = browse(yard)
    catalog.write_text(json.dumps([GOOD]))
    token = form_token(client, "/console/sources")
    page = client.post("/console/sources", data={"form_token": token})
    assert page.status_code == 200 and "Sources reloaded." in page.text
    assert client.get("/console/sources.json").json()["ok"]
    catalog.write_text("{")
    client.post("/console/sources", data={"form_token": token})
    source, _ = client.get("/console/sources.json").json()["sources"]
    assert source["state"] == "stale" and source["error"]
    [row] = client.get("/console/tools.json").json()["rows"]
    assert row["stale"] and 'class="badge stale"' in client.get("/console/tools").text
    assert client.get("/console/tools/fine.json").json()["stale"]


def test_without_admin_rights_sources_are_neither_linked_nor_shown_nor_reloaded(yard, browse):
    client = browse(yard)
    sign_in(client, yard.key("*:list,execute"))
    assert "/console/sources" not in client.get("/console/tools").text
    assert client.get("/console/sources").status_code == 403
    assert client.get("/console/sources.json").json()["error"]["code"] == "auth.forbidden"
    data = {"form_token": form_token(client, "/console/tools")}
    assert client.post("/console/sources", data=data).status_code == 403
    sign_in(client, yard.key("*:*"))
    assert 'href="/console/sources"' in client.get("/console/tools").text
