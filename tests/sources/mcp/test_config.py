"""MCPConfigToolLoader: the file that desktop clients keep."""

import json
import socket
import sys

import pytest
from engines.mcp.support import RAW, comes, entry, kill, log, pids, put_tools, raw, web
from waiting import is_alive, until

from toolyard import MalformedSource, MCPConfigToolLoader, MCPToolEngine, SourceUnavailable, ToolCall, ToolRegistry

pytestmark = pytest.mark.process


@pytest.fixture
def write(tmp_path):
    """Writes the file and gives a loader of it."""
    made = []

    def write(servers, key="mcpServers", more=None, **options):
        path = tmp_path / "desktop.json"
        path.write_text(json.dumps({key: servers, **(more or {})}))
        made.append(MCPConfigToolLoader(path, **options))
        return made[-1]

    yield write
    for loader in made:
        loader.close()


def server(folder):
    return raw(folder)


def refusals(loader):
    return {item.where.partition("#")[2]: item.reason for item in loader.report.rejected}


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_each_server_has_its_name_as_a_namespace(write, tmp_path, key):
    with web() as there:
        loader = write({"notes": server(tmp_path / "a"), "wiki": {"type": "http", "url": f"{there.url}/mcp"}}, key)
        with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
            assert registry.namespaces() == ["notes", "wiki"]
            assert {tool.source for tool in registry} == {loader.source}
            engine.setup("s")
            calls = [ToolCall("notes::echo", {"text": "x"}), ToolCall("wiki::fine", {})]
            assert [result.result for result in engine.execute("s", calls)] == ["x", "fine"]
            assert list(loader.servers) == ["notes", "wiki"]


def test_a_dead_server_is_listed_and_the_others_load(write, tmp_path):
    loader = write({"gone": {"command": "no-such-program"}, "notes": server(tmp_path / "a")})
    assert {tool.namespace for tool in loader.load()} == {"notes"}
    assert "no-such-program" in refusals(loader)["/mcpServers/gone"]
    assert loader.report.entries == loader.report.loaded + 1


def test_the_load_fails_if_all_do(write):
    loader = write({"a": {"command": "no-such-program"}, "b": {"command": "nor-this"}})
    with pytest.raises(SourceUnavailable, match="no-such-program.*nor-this"):
        loader.load()


def test_with_raise_one_failure_is_enough(write, tmp_path):
    with pytest.raises(SourceUnavailable, match="no-such-program"):
        write({"a": {"command": "no-such-program"}, "n": server(tmp_path / "a")}, on_error="raise").load()


def test_what_is_disabled_unknown_or_wrong_is_listed(write, tmp_path):
    loader = write(
        {
            "notes": {**server(tmp_path / "a"), "autoApprove": ["echo"], "timeout": 60000},
            "off": {"command": "x", "disabled": True},
            "off too": {"command": "x", "enabled": False},
            "both": {"command": "x", "url": "http://a"},
            "odd": {"type": "carrier pigeon", "url": "http://a"},
            "text": "npx",
            "a::b": {"command": "x"},
        },
        more={"inputs": []},
    )
    loader.load()
    refused = refusals(loader)
    assert refused["/mcpServers/off"] == refused["/mcpServers/off too"] == "this server is disabled"
    assert "give one of them" in refused["/mcpServers/both"]
    assert "carrier pigeon" in refused["/mcpServers/odd"]
    assert "object" in refused["/mcpServers/text"]
    assert "::" in refused["/mcpServers/a::b"]
    assert refused["/inputs"] == "this key means nothing here"
    listed = {(item.tool, item.pointer) for item in loader.report.rewrites}
    assert {("notes", "/autoApprove"), ("notes", "/timeout")} <= listed


def test_variables_come_from_the_environment_and_are_shown_nowhere(write, tmp_path, monkeypatch):
    monkeypatch.setenv("DESKTOP_KEY", "swordfish-42")
    (raw(tmp_path / "a") and tmp_path / "a" / "dead").touch()
    env = {"RAW_SECRET": "${DESKTOP_KEY}", "B": "${env:DESKTOP_KEY}", "C": "${NOT_SET_HERE:-c}"}
    loader = write(
        {
            "notes": {**server(tmp_path / "a"), "env": env},
            "unset": {"command": "x", "env": {"A": "${NOT_SET_HERE}"}},
            "asks": {"command": "x", "env": {"A": "${input:key}"}},
            "good": server(tmp_path / "b"),
        }
    )
    loader.load()
    assert dict(loader.servers["notes"].server.env) == {"RAW_SECRET": "swordfish-42", "B": "swordfish-42", "C": "c"}
    refused = refusals(loader)
    assert "ended" in refused["/mcpServers/notes"]
    assert "NOT_SET_HERE is not set" in refused["/mcpServers/unset"]
    assert "env.A" in refused["/mcpServers/asks"]
    assert "swordfish" not in str(loader.report)


def test_paths_are_taken_from_the_files_folder(write, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "server.py").write_text(RAW.read_text())
    loader = write(
        {
            "here": {"command": sys.executable, "args": ["deep/server.py", "deep"]},
            "there": {"command": sys.executable, "args": ["server.py", "."], "cwd": "deep"},
        }
    )
    assert {tool.namespace for tool in loader.load()} == {"here", "there"}


def test_news_of_one_server_leaves_the_others_alone(write, tmp_path):
    loader = write({"raw": server(tmp_path / "a"), "other": server(tmp_path / "b")})
    with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
        engine.setup("s")
        lists = log(tmp_path / "b").count("tools/list")
        put_tools(tmp_path / "a", entry("new"))
        engine.execute("s", [ToolCall("raw::stir", {})])
        comes(registry, "new")
        (tmp_path / "a" / "dead").touch()
        kill(tmp_path / "a")
        assert until(lambda: registry.report.rejected)
        assert "kept" in registry.report.rejected[0].reason
        assert "raw::new" in registry
        (tmp_path / "a" / "dead").unlink()
        assert until(lambda: not registry.report.rejected)
        assert log(tmp_path / "b").count("tools/list") == lists
        assert len(pids(tmp_path / "b")) == 1


def test_the_file_is_read_again_and_servers_that_are_as_they_were_stay_connected(write, tmp_path):
    servers = {"stays": server(tmp_path / "a"), "goes": server(tmp_path / "b")}
    loader = write(servers)
    with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
        (gone,) = pids(tmp_path / "b")
        write({"stays": servers["stays"], "raw": server(tmp_path / "c")})
        registry.refresh()
        assert registry.namespaces() == ["raw", "stays"]
        assert len(pids(tmp_path / "a")) == 1
        assert until(lambda: not is_alive(gone))
        engine.setup("s")
        put_tools(tmp_path / "c", entry("new"))
        engine.execute("s", [ToolCall("raw::stir", {})])
        comes(registry, "new")
        loader.path.write_text("{")
        assert registry.refresh().sources[0].state == "stale"
        assert "stays::echo" in registry


def test_all_servers_begin_to_connect_before_the_first_fails(write):
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        urls = [f"http://127.0.0.1:{hole.getsockname()[1]}" for hole in (one, two)]
        loader = write({f"d{n}": {"url": url} for n, url in enumerate(urls)}, connect_timeout=1)
        with pytest.raises(SourceUnavailable):
            loader.load()
        for hole in (one, two):
            hole.settimeout(1)
            hole.accept()[0].close()


@pytest.mark.parametrize("text", ["[]", "{}", '{"mcpServers": []}', "{"])
def test_another_file_is_an_error(tmp_path, text):
    path = tmp_path / "desktop.json"
    path.write_text(text)
    with pytest.raises(MalformedSource, match=r"desktop\.json"):
        MCPConfigToolLoader(path).load()
    MCPConfigToolLoader(path).prepare()
    MCPConfigToolLoader(tmp_path / "nowhere.json").prepare()


def test_approval_is_each_servers_own(write, tmp_path):
    approved = tmp_path / "approved.json"
    servers = {"a": server(tmp_path / "a"), "b": server(tmp_path / "b")}
    write(servers, approved=approved).load()
    put_tools(tmp_path / "b", entry("new"))
    loader = write(servers, approved=approved)
    assert "new" not in [tool.name for tool in loader.load()]
    loader.servers["b"].approve("new")
    assert "new" in [tool.name for tool in loader.load()]
