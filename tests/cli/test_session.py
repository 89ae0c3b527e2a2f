"""Sessions from the command line: they outlive the command, branch, and can be looked at."""

import json
import re
from contextlib import closing
from datetime import datetime

import pytest

from cli.running import as_json, output
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

DESK = """\
from toolyard import tool

@tool
def add(a: int, b: int) -> int:
    print("noise")
    return a + b

@tool
def fail() -> None:
    raise ValueError("no")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLYARD_CONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "toolyard.yaml").write_text("tools: [{type: python, target: desk.py, namespace: desk}]")
    return tmp_path


def add(capsys, session, a):
    return as_json(capsys, "call", "desk::add", json.dumps({"a": a, "b": 1}), "--session", session)


def test_a_session_outlives_the_command_in_a_file_of_the_users(capsys, folder):
    assert add(capsys, "s", 1)[1]["result"] == 2
    assert add(capsys, "s", 2)[1]["result"] == 3
    code, shown = as_json(capsys, "session", "show", "s")
    assert code == 0
    assert [entry["tool_output"]["result"] for entry in shown["tool_executions"]] == [2, 3]
    assert (folder / "state" / "toolyard" / "sessions.db").is_file()


def test_the_store_of_the_config_is_used_if_it_names_one(capsys, folder):
    text = (folder / "toolyard.yaml").read_text()
    (folder / "toolyard.yaml").write_text(f"{text}\nsessions: {{store: sqlite, path: mine.db}}\n")
    add(capsys, "s", 1)
    assert (folder / "mine.db").is_file()
    assert not (folder / "state").exists()


def test_a_failed_call_is_kept_and_told_with_its_code(capsys):
    code, _, err = output(capsys, "call", "desk::fail", "--session", "s")
    assert code == 1
    assert "tool.execution_error" in err and "effect: unknown" in err
    assert output(capsys, "call", "desk::add", "{broken", "--session", "s")[0] == 1
    _, shown = as_json(capsys, "session", "show", "s")
    codes = [entry["tool_output"]["error_info"]["code"] for entry in shown["tool_executions"]]
    assert codes == ["tool.execution_error", "tool.invalid_args"]
    assert shown["tool_executions"][1]["tool_call"]["arguments"] == "{broken"


def test_simulate_answers_and_leaves_the_session_as_it_was(capsys):
    add(capsys, "s", 1)
    before = as_json(capsys, "session", "show", "s")
    code, result = as_json(capsys, "call", "desk::add", '{"a": 5, "b": 5}', "--session", "s", "--simulate")
    assert (code, result["result"]) == (0, 10)
    assert as_json(capsys, "session", "show", "s") == before


def test_fork_diff_and_delete(capsys):
    add(capsys, "s", 1)
    code, forked = as_json(capsys, "session", "fork", "s", "t")
    assert (code, forked["fork_of"]) == (0, "s")
    assert as_json(capsys, "session", "diff", "s", "t") == (
        0,
        {
            "equal": True,
            "common": 1,
            "entries": {"s": [], "t": []},
            "state": {"s": {}, "t": {}},
            "world": {"equal": True, "changes": [], "left_out": 0},
        },
    )
    add(capsys, "t", 2)
    code, out, _ = output(capsys, "session", "diff", "s", "t")
    assert code == 1
    assert "1 call in common" in out and "> t 2: desk::add" in out
    code, found = as_json(capsys, "session", "list")
    assert [(item["session_id"], item["entries"]) for item in found] == [("s", 1), ("t", 2)]
    assert output(capsys, "session", "delete", "s")[0] == 0
    assert len(as_json(capsys, "session", "show", "t")[1]["tool_executions"]) == 2
    assert [item["session_id"] for item in as_json(capsys, "session", "list")[1]] == ["t"]


def test_a_fork_begins_with_as_many_calls_as_are_said(capsys):
    for number in (1, 2, 3):
        add(capsys, "s", number)
    code, forked = as_json(capsys, "session", "fork", "s", "t", "--at", "2")
    assert (code, forked["fork_of"], forked["at"]) == (0, "s", 2)
    assert len(as_json(capsys, "session", "show", "t")[1]["tool_executions"]) == 2
    assert output(capsys, "session", "diff", "s", "t", "--at-a", "2")[0] == 0
    code, out, _ = output(capsys, "session", "diff", "s", "--at-a", "1")
    assert code == 1 and "1 call in common" in out and "> s 2: desk::add" in out
    for at in ("4", "-1"):
        code, _, err = output(capsys, "session", "fork", "s", "u", "--at", at)
        assert code == 1 and ("use 0 to 3" in err or "0 or more" in err)
    assert "at is 9" in output(capsys, "session", "diff", "s", "--at-b", "9")[2]


def test_a_diff_shows_how_worlds_differ(capsys, folder):
    tool = (
        "{name: create_pet, description: Create a pet, parameters: {type: object, properties: {name: {type: string}}}"
    )
    outputs = "output_parameters: {type: object, properties: {id: {type: string}, name: {type: string}}}}"
    (folder / "toolyard.yaml").write_text(f"tools: [{{type: inline, namespace: pets, tools: [{tool}, {outputs}]}}]")
    for name in ("Rex", "Ada"):
        as_json(capsys, "call", "pets::create_pet", json.dumps({"name": name}), "--session", "s")
    code, out, _ = output(capsys, "session", "diff", "s", "--at-a", "1")
    assert code == 1
    assert '+ pet 1002: {"id":"1002","name":"Ada"}' in out.splitlines(), out
    _, diff = as_json(capsys, "session", "diff", "s", "--at-a", "1", "--at-b", "1")
    assert diff["equal"] and diff["world"] == {"equal": True, "changes": [], "left_out": 0}


@pytest.mark.parametrize("words", [["list"], ["show", "s"], ["diff", "s"], ["export", "s"]], ids=" ".join)
def test_a_session_is_read_without_loading_the_tools(capsys, folder, words):
    add(capsys, "s", 1)
    (folder / "desk.py").write_text("raise RuntimeError('a source that is broken now')")
    code, out, err = output(capsys, "session", *words, "--json")
    assert (code, err) == (0, "") and json.loads(out)


def test_an_export_is_an_initial_state(capsys):
    from toolyard import PythonToolEngine

    add(capsys, "s", 1)
    _, exported = as_json(capsys, "session", "export", "s")
    digest = as_json(capsys, "session", "show", "s")[1]["state_hash"]
    with PythonToolEngine() as engine:
        engine.setup("copy", initial_state=exported)
        assert engine.state_hash("copy") == digest


def test_an_unknown_session_is_an_error_with_a_way_on(capsys):
    for command in (["show", "x"], ["export", "x"], ["delete", "x"], ["fork", "x", "y"], ["diff", "x", "y"]):
        code, _, err = output(capsys, "session", *command)
        assert code == 1
        assert "no session is called 'x'; `toolyard session list`" in err
    add(capsys, "chat-1", 1)
    for command in (["show", "chat1"], ["export", "chat1"], ["delete", "chat1"], ["fork", "chat1", "y"]):
        assert "did you mean chat-1?" in output(capsys, "session", *command)[2]
    code, _, err = output(capsys, "call", "desk::add", "a=1", "b=2", "--simulate", "--session", "chat1")
    assert code == 1 and "did you mean chat-1?" in err


def test_sessions_of_another_owner_are_not_found(capsys):
    as_json(capsys, "call", "desk::add", '{"a": 1, "b": 1}', "--session", "s", "--owner", "ann")
    code, _, err = output(capsys, "session", "show", "s")
    assert code == 1 and "--owner ann" in err
    assert output(capsys, "session", "show", "s", "--owner", "ann")[0] == 0


def test_files_without_a_store_do_not_see_each_others_sessions(capsys, folder):
    (folder / "other.py").write_text(DESK.replace("a + b", "a - b"))
    add(capsys, "s", 1)
    for _ in range(2):
        as_json(capsys, "call", "other.py::add", "a=5", "b=1", "--session", "s")
    for command in (["show"], ["export"]):
        results = [
            [
                entry["tool_output"]["result"]
                for entry in as_json(capsys, "session", *command, *file, "s")[1]["tool_executions"]
            ]
            for file in ([], ["-c", "other.py"])
        ]
        assert results == [[2], [4, 4]]
    assert [one["entries"] for one in as_json(capsys, "session", "list", "-c", "other.py")[1]] == [2]
    as_json(capsys, "session", "fork", "s", "t", "-c", "other.py")
    code, _, err = output(capsys, "session", "show", "t")
    assert code == 1 and f"--owner {folder / 'other.py'}" in err

    (folder / "toolyard.yaml").unlink()
    assert len(as_json(capsys, "session", "list")[1]) == 3
    assert len(as_json(capsys, "session", "show", "t")[1]["tool_executions"]) == 2  # no file named, and one that has it
    code, _, err = output(capsys, "session", "show", "s")
    assert code == 1 and "other.py" in err and "toolyard.yaml" in err
    as_json(capsys, "call", "core::calc", "expression=1", "--session", "t")
    assert len(as_json(capsys, "session", "show", "t", "-c", "other.py")[1]["tool_executions"]) == 2


def test_a_session_from_before_files_had_their_own_goes_on(capsys, folder):
    with closing(Sessions(SqliteStore(folder / "state" / "toolyard" / "sessions.db"))) as before:
        before.open("s")
    add(capsys, "s", 1)
    add(capsys, "s", 2)
    [listed] = as_json(capsys, "session", "list")[1]
    assert (listed["owner"], listed["entries"]) == ("", 2)


def test_tables_for_people_show_calls_and_the_state(capsys):
    add(capsys, "s", 1)
    code, out, _ = output(capsys, "session", "show", "s")
    assert code == 0
    assert "desk::add" in out and "1 call, state " in out
    assert re.search(r"\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\t[\d.]+ m?s\tdesk::add", out)
    [call] = as_json(capsys, "session", "show", "s")[1]["tool_executions"]
    assert datetime.fromisoformat(call["at"]).tzinfo is not None and call["took"] >= 0
    [exported] = as_json(capsys, "session", "export", "s")[1]["tool_executions"]
    assert exported.keys() == {"tool_call", "tool_output"}
    assert "1 session" in output(capsys, "session", "list")[1]


def test_schema_prints_json_schema(capsys):
    code, out, _ = output(capsys, "schema")
    assert code == 0
    store = json.loads(out)["properties"]["sessions"]["properties"]["store"]
    assert store["anyOf"][0]["enum"] == ["memory", "postgres", "sqlite"]


def test_a_policy_holds_with_skip_bad_too(capsys, folder):
    text = (folder / "toolyard.yaml").read_text()
    (folder / "toolyard.yaml").write_text(f"{text}\npolicy: {{default: deny}}\n")
    code, result = as_json(capsys, "call", "desk::add", '{"a": 1, "b": 1}', "--skip-bad")
    assert (code, result["error_info"]["code"]) == (1, "tool.denied")


def test_a_session_without_a_name_is_refused(capsys):
    code, out, err = output(capsys, "call", "desk::add", '{"a": 1, "b": 1}', "--session", "")
    assert (code, out) == (2, "")
    assert "--session needs the name of a session" in err


def test_a_simulation_in_a_session_that_is_not_there_is_refused_and_begins_none(capsys):
    code, _, err = output(capsys, "call", "desk::add", '{"a": 1, "b": 1}', "--session", "new", "--simulate")
    assert code == 1
    assert "no session is called 'new'; `toolyard session list`" in err
    assert as_json(capsys, "session", "list") == (0, [])
    assert as_json(capsys, "call", "desk::add", '{"a": 1, "b": 1}', "--simulate")[1]["result"] == 2


@pytest.mark.parametrize(
    "call", [("desk::add", '{"a": 1, "b": 2}'), ("desk::fail", "{}"), ("desk__add", '{"a": 1, "b": 2}')]
)
def test_a_call_without_a_session_leaves_none_behind_where_there_is_a_store(capsys, folder, call):
    store = "sessions: {store: sqlite, path: s.db}"
    (folder / "toolyard.yaml").write_text(f"tools: [{{type: python, target: desk.py, namespace: desk}}]\n{store}\n")
    code, result = as_json(capsys, "call", *call)
    assert (code, result["result"]) == ((1, None) if "fail" in call[0] else (0, 3))
    as_json(capsys, "call", *call, "--simulate")
    assert as_json(capsys, "session", "list") == (0, [])


def test_a_tool_is_shown_by_the_name_that_a_providers_list_gives_it(capsys):
    assert as_json(capsys, "show", "desk__add") == as_json(capsys, "show", "desk::add")
