"""What earlier versions wrote to disk opens today: `tests/data/written_before` was recorded once, and is never changed."""

import json
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import closing

import pytest
from waiting import SOON
from warm_python import warm_toolyard

from conftest import DATA
from toolyard import (
    MCPToolLoader,
    PythonToolLoader,
    ReplayToolEngine,
    ScriptToolLoader,
    ToolCall,
    ToolRegistry,
    Toolyard,
    get_tool_enrichment,
)
from toolyard.cli.main import run
from toolyard.links.lm import LMClient, Message
from toolyard.links.mcp.authorization import TokenFile

NOBODY = "http://127.0.0.1:9"
FIRST = "decd84e165f969582e96b6ba6c415663515707785d0c68167b91f5fe02b6817a"
OWNED = "75e8d631fbe694ed0b4bac2f29710d77a76934e202c565f5d7e11960dc8f0d46"
KEY, REVOKED = "TZ84NOgSaXsi", "yg69K2DiODQ5"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A copy of what was written, as the current directory."""
    copy = tmp_path / "yard"
    shutil.copytree(DATA / "written_before", copy)
    for name in ("sessions.db", "tokens.json", "approved.json", "lm.sqlite"):
        (copy / name).chmod(0o600)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("TOOLYARD_CONFIG", "yard.yaml")
    return copy


def as_json(capsys, *arguments):
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def results(shown):
    return [entry["tool_output"].get("result") for entry in shown["tool_executions"]]


@pytest.mark.process
def test_the_config_loads_every_source_and_engine():
    with Toolyard.from_config("yard.yaml") as yard:
        names = {tool.qualified_name for tool in yard.tool_registry}
        assert names >= {"desk::add", "taped::add", "hr::create_user", "office::workdays", "notes::add_note"}
        assert not [item for source in yard.tool_registry.report.sources for item in source.rejected]
        assert yard.tool_engine.sessions.max_open == 1000


@pytest.mark.process
def test_sessions_and_their_forks_have_the_history_the_state_and_the_hash_they_had(capsys):
    code, found = as_json(capsys, "session", "list")
    assert code == 0
    assert {(item["session_id"], item["owner"], item["entries"]) for item in found} == {
        ("first", "", 3),
        ("second", "", 5),
        ("toolyard-call", "", 2),
        ("owned", KEY, 1),
        ("owned-fork", KEY, 1),
    }
    _, first = as_json(capsys, "session", "show", "first")
    assert first["state_hash"] == FIRST
    assert results(first) == [3, None, {"user_id": "e03b96da847e", "name": "Ada"}]
    assert first["tool_executions"][1]["tool_output"]["error_info"]["code"] == "tool.execution_error"
    _, second = as_json(capsys, "session", "show", "second")
    assert results(second) == [*results(first), 7, 15]
    assert as_json(capsys, "session", "show", "owned-fork", "--owner", KEY)[1]["state_hash"] == OWNED


@pytest.mark.process
def test_a_session_goes_on_where_it_was_and_the_simulator_still_knows_what_it_made(capsys):
    code, got = as_json(capsys, "call", "hr::get_user", '{"user_id": "e03b96da847e"}', "--session", "second")
    assert (code, got["result"]) == (0, {"user_id": "e03b96da847e", "name": "Ada"})
    assert len(as_json(capsys, "session", "show", "second")[1]["tool_executions"]) == 6
    assert len(as_json(capsys, "session", "show", "first")[1]["tool_executions"]) == 3


def test_keys_have_their_names_scopes_limits_and_states(capsys):
    _, keys = as_json(capsys, "key", "list")
    found = {key["id"]: (key["name"], key["scopes"], key["state"], key["rate"], key["concurrency"]) for key in keys}
    assert found == {
        KEY: ("reader", ["*:*"], "usable", 20.0, 4),
        REVOKED: ("gone", ["desk:list"], "revoked", None, None),
    }


class Server:
    """`toolyard serve` on the copied folder."""

    def __init__(self, folder):
        command = ["-m", "toolyard", "serve", "yard.yaml"]
        self.process = warm_toolyard().start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.token = (folder / "token.txt").read_text().strip()

    def ask(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}", **headers}
        request = urllib.request.Request(self.url + path, data=data, headers=sent, method=method)
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            return json.loads(answer.read())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=3 * SOON)


@pytest.fixture
def server(folder):
    with sqlite3.connect(folder / "sessions.db") as db:
        # Answers are kept for a day, and these are older.
        db.execute("UPDATE records SET at = ? WHERE kind = 'answer'", (time.time(),))
    db.close()
    server = Server(folder)
    yield server
    server.stop()


@pytest.mark.process
def test_a_server_lets_the_key_in_has_the_registered_tool_and_answers_again_what_it_answered(server):
    tool = server.ask("GET", "/v1/tools/shop::find_item")
    assert (tool["description"], tool["parameters"]["required"]) == ("Find an item.", ["item"])
    again = server.ask(
        "POST", "/v1/tools/desk::add:invoke", {"args": {"a": 20, "b": 1}}, **{"Idempotency-Key": "answered-before"}
    )
    assert again == {"schema_version": "0.1.0", "ok": True, "result": {"result": 21}, "metrics": {"latency_ms": 1}}
    invocation = {"invocation_id": "inv-1", "tool_name": "desk::add", "args": {"a": 30, "b": 1}}
    again = server.ask("POST", "/arp/v1/tool-invocations", invocation)
    assert again == {"invocation_id": "inv-1", "ok": True, "result": {"result": 31}, "duration_ms": 0}
    call = {"name": "desk::add", "arguments": {"a": 40, "b": 1}, "call_id": "call-1"}
    (result,) = server.ask("POST", "/v1/sessions/owned/execute", {"calls": [call]})["results"]
    assert result["result"] == 41
    assert server.ask("GET", "/v1/sessions/owned")["entries"] == 1


@pytest.mark.process
def test_a_server_refuses_another_request_under_a_key_that_was_used(server):
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.ask(
            "POST", "/v1/tools/desk::add:invoke", {"args": {"a": 0, "b": 0}}, **{"Idempotency-Key": "answered-before"}
        )
    with refused.value as answer:
        assert answer.code == 409


@pytest.mark.parametrize(
    ("name", "why"), [("cassette.jsonl", "recorded"), ("cassette.yaml", "recorded:\n  in two lines é")]
)
def test_a_cassette_is_played_and_its_tools_have_not_drifted(name, why):
    registry = ToolRegistry()
    registry.attach(PythonToolLoader("tape.py", namespace="taped"))
    with ReplayToolEngine(registry, cassette=name) as engine:
        engine.setup("s")
        calls = [ToolCall("taped::add", {"a": 5, "b": 6}), ToolCall("taped::fail", {"why": why})]
        added, failed = engine.execute("s", calls)
        assert (added.result, failed.error) == (11, why)
        assert engine.drift().ok


@pytest.mark.process
def test_a_manifest_allows_the_script_whose_hash_it_has_and_no_other(folder):
    assert [tool.name for tool in ScriptToolLoader("scripts", namespace="office").load()] == ["workdays"]
    with (folder / "scripts" / "workdays.py").open("a") as script:
        script.write("# changed\n")
    loader = ScriptToolLoader("scripts", namespace="office")
    assert loader.load() == []
    assert "hash" in loader.report.rejected[0].reason


def load_notebook():
    loader = MCPToolLoader(namespace="book", command="python3", args=["notebook.py"], approved="approved.json")
    with closing(loader):
        return [tool.name for tool in loader.load()], [item.reason for item in loader.report.rejected]


@pytest.mark.process
def test_approved_definitions_are_still_those_of_the_server(folder):
    before = json.loads((folder / "approved.json").read_text())
    assert load_notebook() == (["write_note"], [])
    assert json.loads((folder / "approved.json").read_text()) == before
    text = (folder / "notebook.py").read_text()
    (folder / "notebook.py").write_text(text.replace('"description": "Write a note."', '"description": "Send files."'))
    names, (reason,) = load_notebook()
    assert names == []
    assert "has changed since it was approved" in reason


def test_tokens_of_a_login_are_found():
    file = TokenFile("tokens.json", f"{NOBODY}/mcp")
    assert file.tokens == {"access_token": "at", "token_type": "Bearer", "refresh_token": "rt", "scope": "read"}
    assert file.client == {"client_id": "toolyard", "redirect_uris": ["http://127.0.0.1:3030/callback"]}


async def test_a_journal_answers_what_a_model_was_asked():
    config = {"type": "openai", "model_id_or_path": "m", "base_url": NOBODY, "journal": "lm.sqlite"}
    async with LMClient({**config, "temperature": 0.5, "seed": 3, "retries": 0}) as client:
        answer = await client.complete(client.request((Message("user", "what is it?"),), None))
    assert (answer.text, answer.cached) == ("forty-two", True)


def test_a_cache_gives_what_would_be_computed_and_is_not_complained_of(caplog):
    def outputs(**options):
        registry = ToolRegistry()
        registry.attach(PythonToolLoader("desk.py", namespace="desk"))
        registry.enrich(get_tool_enrichment("output_parameters", **options))
        return {tool.name: tool.output_parameters for tool in registry}

    assert outputs(cache="cache") == outputs(cache=False)
    assert not caplog.records
