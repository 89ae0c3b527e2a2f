"""MCP servers in a config, end to end."""

import json
from pathlib import Path

import pytest
from engines.mcp.support import OBJECT, comes, entry, log, pids, put_tools, raw, web
from waiting import until
from warm_python import warm_toolyard

from toolyard import ConfigError, ToolCall, Toolyard
from toolyard.app.config import read_anything, read_config, read_plugin_options
from toolyard.app.toolyard import build_parts, survey
from toolyard.plugins import LOADERS

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


def config(*sources, **blocks):
    return {"tools": {"registry": list(sources), "engines": blocks.pop("engines", {})}, **blocks}


def source(folder, **more):
    return {"type": "mcp", "namespace": "raw", **raw(folder), **more}


def ask(yard, name, **arguments):
    yard.tool_engine.setup(f"s-{name}")
    return yard.tool_engine.execute(f"s-{name}", [ToolCall(name, arguments)])[0]


def test_a_source_needs_no_engine_block(tmp_path):
    with Toolyard.from_config(config(source(tmp_path / "raw"))) as yard:
        assert ask(yard, "raw::echo", text="x").result == "x"
        assert yard.tool_engine.part("mcp").name == "mcp"


def test_the_seeds_config_works_as_it_is_written():
    with web() as server:
        engine = {"type": "mcp", "url": server.url}
        told = {"type": "mcp", "url": server.url, "namespace": "tools", "engine": "remote"}
        with Toolyard.from_config(config(told, engines={"remote": engine})) as yard:
            assert ask(yard, "tools::fine").result == "fine"
            assert [method for _, method, _ in server.received].count("notifications/initialized") == 1


def test_an_engine_of_the_config_called_mcp_answers_every_server(tmp_path):
    engines = {"mcp": {"type": "mcp", "json_text": True, "connection": "per_session"}}
    with Toolyard.from_config(config(source(tmp_path / "raw"), engines=engines)) as yard:
        assert ask(yard, "raw::echo", text="[1]").result == [1]
        assert len(pids(tmp_path / "raw")) == 2


def test_servers_stand_beside_every_other_source(tmp_path):
    inline = {"type": "inline", "namespace": "plain", "tools": [{"name": "a", "parameters": OBJECT}]}
    with Toolyard.from_config(
        config(source(tmp_path / "raw"), inline, {"type": "domains", "domains": ["core"]})
    ) as yard:
        assert {"raw", "plain"} <= set(yard.tool_registry.namespaces())
        put_tools(tmp_path / "raw", entry("new"))
        ask(yard, "raw::stir")
        comes(yard.tool_registry, "new")


def test_a_file_of_servers_is_a_source(tmp_path):
    (tmp_path / "desktop.json").write_text(json.dumps({"mcpServers": {"notes": raw(tmp_path / "a")}}))
    (tmp_path / "yard.yaml").write_text("tools: [{type: mcp_config, path: desktop.json}]")
    with Toolyard.from_config(tmp_path / "yard.yaml") as yard:
        assert ask(yard, "notes::echo", text="x").result == "x"


def test_paths_are_taken_from_the_configs_folder(tmp_path):
    auth = {"type": "oauth", "store": "tokens.json"}
    options = {
        "auth": auth,
        "cwd": "work",
        "roots": ["one", "/two"],
        "approved": "ok.json",
        "cert": ["c.pem", "k.pem", "word"],
    }
    (tmp_path / "yard").mkdir()
    document = config({"type": "mcp", "command": "x", **options}, engines={"e": {"type": "mcp", **options}})
    read = read_config(document, base=tmp_path / "yard")
    base = tmp_path / "yard"
    [entry] = read.loaders
    found = read_plugin_options(LOADERS.get("mcp"), entry.options, entry.where, base)
    assert (found["cwd"], found["approved"]) == (str(base / "work"), str(base / "ok.json"))
    assert found["auth"]["store"] == str(base / "tokens.json")
    assert found["roots"] == [str(base / "one"), "/two"]
    assert found["cert"] == [str(base / "c.pem"), str(base / "k.pem"), "word"]


def test_source_and_engine_share_a_connection_although_both_name_a_folder(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "yard.yaml").write_text(
        json.dumps(
            config(
                source(tmp_path / "raw", cwd="work", engine="e", roots=["work"]),
                engines={"e": {"type": "mcp", **raw(tmp_path / "raw"), "cwd": "work", "roots": ["work"]}},
            )
        )
    )
    with Toolyard.from_config(tmp_path / "yard.yaml") as yard:
        assert ask(yard, "raw::echo", text="x").result == "x"
        assert len(pids(tmp_path / "raw")) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"command": "x", "ulr": "y"}, "did you mean 'url'"),
        ({}, "url or started by its command"),
        ({"url": "http://a", "auth": {"type": "bearer"}}, "needs 'token'"),
    ],
)
def test_an_mcp_source_that_cannot_work_is_refused_with_its_place(options, says):
    with pytest.raises(ConfigError, match=rf"registry\[0\].*{says}"):
        Toolyard.from_config(config({"type": "mcp", **options}))


def test_secrets_of_a_config_are_in_no_error_trace_or_report(tmp_path):
    env = {"API_KEY": "${NOT_A_REAL_KEY}", "PLAIN_WORD": "swordfish-43"}
    trace = tmp_path / "trace.jsonl"
    document = config(source(tmp_path / "raw", env=env), tracing={"jsonl": {"path": str(trace)}, "results": True})
    with Toolyard.from_config(document, env={"NOT_A_REAL_KEY": "swordfish-42"}) as yard:
        for name in env:
            failed = ask(yard, "raw::env", text=name) if name == "API_KEY" else None
            assert failed is None or "swordfish" not in str(failed)
        yard.tool_engine.setup("t")
        failed = yard.tool_engine.execute("t", [ToolCall("raw::env", {"text": "PLAIN_WORD"})])[0]
        assert failed.error.startswith("bad key: ")
        assert "swordfish" not in f"{failed} {yard!r} {yard.tool_registry.report}"
    assert "swordfish" not in trace.read_text()


def test_a_yard_that_may_lack_a_source_starts_without_the_dead_one_and_takes_it_in_later(tmp_path):
    (raw(tmp_path / "raw") and tmp_path / "raw" / "dead").touch()
    document = config(source(tmp_path / "raw"), source(tmp_path / "good", namespace="good"))
    registry, engine, report = build_parts(read_anything(document), lenient=True)
    assert [item.state for item in report.sources] == ["failed", "ok"]
    (tmp_path / "raw" / "dead").unlink()
    assert until(lambda: "raw::echo" in registry)
    engine.close()
    registry.close()


def test_checking_a_config_leaves_no_server_running(tmp_path):
    registry, report = survey(config(source(tmp_path / "raw")))
    assert report.loaded == 14
    registry.close()
    assert "tools/list" in log(tmp_path / "raw")


@pytest.mark.process
def test_the_example_serves_a_notebook_over_stdio():
    asked = ["-m", "toolyard", "call", "-c", "examples/yard.yaml", "notebook::write", '{"title": "a"}']
    done = warm_toolyard().run(asked, cwd=ROOT)
    assert json.loads(done.stdout) == {"number": 1, "title": "a", "text": ""}
