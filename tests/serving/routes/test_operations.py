"""How the server is, what it is, and loading its sources again."""

import json
from datetime import datetime

import pytest
from engines.mcp.support import raw

from serving.service_support import CORE, served
from toolyard.constants import VERSION

GOOD = "tools:\n  - name: a\n    description: A.\n    parameters: {type: object}\nnamespace: files\n"


@pytest.fixture(scope="module")
def yard():
    with served() as server:
        yield server


@pytest.mark.parametrize("prefix", ["", "/arp"])
def test_health_says_how_every_source_is(yard, prefix):
    answer = yard.get(f"{prefix}/v1/health")
    assert answer.status == 200 and answer.json["status"] == "ok"
    assert datetime.fromisoformat(answer.json["time"]).tzinfo is not None
    assert all({"name", "status"} <= set(check) for check in answer.json["checks"])
    assert answer.json["checks"][0]["details"]["loaded"] == 3
    assert "toolyard.sandbox" in answer.json["extensions"]


@pytest.mark.parametrize("prefix", ["", "/arp"])
def test_version_says_what_it_is(yard, prefix):
    assert yard.get(f"{prefix}/v1/version").json == {
        "service_name": "toolyard",
        "service_version": VERSION,
        "supported_api_versions": ["v1"],
    }


def test_the_report_lists_what_was_loaded(yard):
    report = yard.get("/v1/report").json
    assert report["ok"] is True and report["loaded"] == 3


def test_a_reload_takes_over_what_changed_and_answers_with_the_report(tmp_path):
    catalog = tmp_path / "tools.yaml"
    catalog.write_text(GOOD)
    with served({"tools": [{"type": "file", "path": str(catalog)}]}) as yard:
        assert [line["name"] for line in yard.get("/v1/tools").json] == ["files::a"]
        catalog.write_text(GOOD.replace("name: a", "name: b"))
        assert [line["name"] for line in yard.get("/v1/tools").json] == ["files::a"]
        answer = yard.ask("POST", "/v1/reload")
        assert answer.status == 200 and answer.json["loaded"] == 1
        assert [line["name"] for line in yard.get("/v1/tools").json] == ["files::b"]


def test_a_source_that_fails_on_reload_keeps_its_tools_and_degrades_health(tmp_path):
    catalog = tmp_path / "tools.yaml"
    catalog.write_text(GOOD)
    with served({"tools": [{"type": "file", "path": str(catalog)}]}) as yard:
        catalog.write_text("tools: [")
        report = yard.ask("POST", "/v1/reload").json
        assert report["ok"] is False
        assert [line["name"] for line in yard.get("/v1/tools").json] == ["files::a"]
        health = yard.get("/v1/health").json
        assert health["status"] == "degraded"
        assert next(check["status"] for check in health["checks"]) == "degraded"
        catalog.write_text(GOOD)
        yard.ask("POST", "/v1/reload")
        assert yard.get("/v1/health").json["status"] == "ok"


def test_a_source_that_never_loaded_is_down_and_the_others_are_served(tmp_path):
    config = {
        "tools": [{"type": "domains", "domains": ["core"]}, {"type": "file", "path": str(tmp_path / "missing.yaml")}]
    }
    with served(config) as yard:
        assert len(yard.get("/v1/tools").json) == 3
        health = yard.get("/v1/health").json
        assert health["status"] == "degraded"
        assert "down" in [check["status"] for check in health["checks"]]
        assert yard.get("/v1/report").json["ok"] is False


def test_a_reload_takes_no_body(yard):
    assert yard.post("/v1/reload", {"a": 1}).status == 400


def test_metrics_are_there_unless_they_are_off(yard):
    off = yard.get("/metrics")
    assert (off.status, off.error["code"]) == (404, "route.not_found")
    with served(metrics=True) as measured:
        measured.invoke("echo", {"text": "x"})
        measured.invoke("echo", {})
        measured.get("/v1/tools/nope-unbounded-label")
        answer = measured.get("/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        text = answer.body.decode()
        assert "core::echo" in text and "tool.invalid_args" in text
        assert "nope-unbounded-label" not in text


def test_probes_need_no_key_and_tell_nothing_of_what_is_there(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as yard:
        yard.key("*:*")
        assert yard.get("/v1/tools").status == 401
        for path in ("/livez", "/readyz"):
            answer = yard.get(path)
            assert (answer.status, answer.json) == (200, {"status": "ok"})


def test_a_server_whose_store_is_away_lives_and_is_not_ready(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "secret-name.db")}}
    with served(config) as yard:
        yard.service.yard.tool_engine.sessions.close()
        answer = yard.get("/readyz")
        assert answer.status == 503 and answer.json["error"]["code"] == "server.not_ready"
        assert b"secret-name" not in answer.body
        assert yard.get("/livez").status == 200


@pytest.mark.parametrize("strict", [True, False])
def test_a_source_that_is_away_makes_a_server_unready_only_where_all_are_required(tmp_path, strict):
    catalog = tmp_path / "tools.yaml"
    catalog.write_text(GOOD)
    with served({"tools": [{"type": "file", "path": str(catalog)}]}, strict=strict) as yard:
        assert yard.get("/readyz").status == 200
        catalog.write_text("tools: [")
        yard.ask("POST", "/v1/reload")
        answer = yard.get("/readyz")
        assert (answer.status, yard.get("/livez").status) == (503 if strict else 200, 200)
        assert b"tools.yaml" not in answer.body
        catalog.write_text(GOOD)
        yard.ask("POST", "/v1/reload")
        assert yard.get("/readyz").status == 200


@pytest.mark.process
def test_a_server_that_is_away_degrades_the_file_that_names_it_and_the_others_are_served(tmp_path):
    path = tmp_path / "desktop.json"
    here, away = {"notes": raw(tmp_path / "notes")}, {"gone": {"command": "no-such-program"}}
    path.write_text(json.dumps({"mcpServers": here}))
    with served({"tools": [{"type": "mcp_config", "path": str(path)}]}, strict=True) as yard:
        for servers, status, ready in ((here, "ok", 200), ({**here, **away}, "degraded", 503), (here, "ok", 200)):
            path.write_text(json.dumps({"mcpServers": servers}))
            yard.ask("POST", "/v1/reload")
            assert yard.get("/v1/health").json["status"] == status
            assert yard.get("/readyz").status == ready
            assert {line["name"].partition("::")[0] for line in yard.get("/v1/tools").json} == {"notes"}
