"""The call log from the command line."""

import json
import subprocess
import sys

import pytest

from toolyard import ToolCall
from toolyard.app.toolyard import Toolyard
from toolyard.cli.main import run

YARD = """\
tools: [{type: domains, domains: [core]}]
sessions: {store: sqlite, path: s.db}
tracing: {log: true}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "toolyard.yaml").write_text(YARD)
    return tmp_path


def make_calls(*names):
    with Toolyard.from_config("toolyard.yaml") as yard:
        if yard.tool_engine.get_session_state("s") is None:
            yard.tool_engine.setup("s")
        yard.tool_engine.execute("s", [ToolCall(name, {}) for name in names])


def test_calls_are_listed_newest_last_and_filtered(capsys):
    make_calls("core::time_now", "core::time_now", "core::nothing")
    assert run(["calls", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [line["tool"] for line in shown] == ["core::time_now", "core::time_now", "core::nothing"]
    assert [line["seq"] for line in shown] == [1, 2, 3]
    assert run(["calls", "--errors"]) == 0
    out = capsys.readouterr().out
    assert "tool.not_found" in out and "time_now" not in out and "1 call" in out
    assert run(["calls", "--limit", "1", "--tool", "*now", "--session", "s", "--since", "2020-01-01", "--json"]) == 0
    assert [line["seq"] for line in json.loads(capsys.readouterr().out)] == [2]
    for option, found in (("--since", [1, 2, 3]), ("--until", [])):
        assert run(["calls", option, "1h", "--json"]) == 0
        assert [line["seq"] for line in json.loads(capsys.readouterr().out)] == found
    for option, value, found in (("--effect", "none", [3]), ("--effects", "read", [1, 2]), ("--effects", "write", [])):
        assert run(["calls", option, value, "--json"]) == 0
        assert [line["seq"] for line in json.loads(capsys.readouterr().out)] == found


@pytest.mark.parametrize(
    ("tracing", "said"),
    [
        ("", "only calls of servers are logged without `tracing: {log: true}`"),
        ("tracing: {log: false}", "no calls are logged without `tracing: {log: true}`"),
        ("tracing: {log: true}", ""),
    ],
)
def test_a_log_that_is_empty_since_nobody_writes_it_says_so(folder, tracing, said, capsys):
    (folder / "toolyard.yaml").write_text(YARD.replace("tracing: {log: true}", tracing))
    make_calls("core::time_now")
    assert run(["calls"]) == 0
    shown = capsys.readouterr()
    assert said in shown.err and ("`toolyard session show SESSION`" in shown.err) == bool(said)
    assert bool(said) == bool(shown.err) and ("0 calls" in shown.out) == bool(said)


@pytest.mark.parametrize("tracing", ["", "tracing: {log: true}"])
def test_beside_a_server_without_a_sessions_block_it_says_where_its_log_is(folder, tracing, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    (folder / "toolyard.yaml").write_text(f"tools: [{{type: domains, domains: [core]}}]\n{tracing}")
    assert run(["calls"]) == 0
    assert "a server keeps its log in memory, and shows it at /console/calls" in capsys.readouterr().err


def test_a_limit_below_one_is_refused(capsys):
    assert run(["calls", "--limit", "0"]) == 2
    assert "--limit must be 1 or more, not 0" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none_is_told_the_forms_there_are(option, capsys):
    assert run(["calls", option, "9999w"]) == 0 and run(["calls", option, "99999999w"]) == 2
    assert run(["calls", option, "yesterday"]) == 2
    assert "'yesterday' is no time; write 2026-01-31, 2026-01-31T08:30 or" in capsys.readouterr().err
    assert run(["calls", option, "2026-01-31T08:30"]) == run(["calls", option, "2026-01-31T08:30:00+01:00"]) == 0


@pytest.mark.process
def test_following_shows_what_other_processes_do_each_call_once(folder):
    make_calls("core::time_now")
    command = [sys.executable, "-m", "toolyard", "calls", "--follow", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [json.loads(process.stdout.readline())]
            make_calls("core::nothing", "core::time_now")
            lines += [json.loads(process.stdout.readline()) for _ in range(2)]
            make_calls("core::time_now")
            lines.append(json.loads(process.stdout.readline()))
        finally:
            process.terminate()
    assert [line["seq"] for line in lines] == [1, 2, 3, 4]
