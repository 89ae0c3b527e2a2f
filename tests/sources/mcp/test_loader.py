"""MCPToolLoader against real servers: processes over stdio, and streamable HTTP on loopback."""

import json
import logging
import socket
import sys
import threading
from contextlib import ExitStack, suppress

import pytest
from engines.mcp.support import OBJECT, call, comes, entry, kill, names, pids, put_tools, raw, state, web, yard
from waiting import SOON, until

from toolyard import (
    ConfigError,
    Effects,
    FilterToolLoader,
    MalformedSource,
    McpBinding,
    MCPToolEngine,
    MCPToolLoader,
    SourceUnavailable,
    ToolRegistry,
)
from toolyard.links.mcp import Listing
from toolyard.sources.mcp.loader import read_entry

ECHO = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "raw"


@pytest.fixture
def loader(folder):
    made = MCPToolLoader(**raw(folder), namespace="raw")
    yield made
    made.close()


def listing(*tools, complete=True, notes=()):
    return Listing(tools=list(tools), complete=complete, notes=list(notes))


def unconnected(**options):
    return MCPToolLoader(command="never-started", namespace="raw", **options)


class TestTools:
    @pytest.mark.process
    def test_every_page_is_read_and_nothing_of_an_entry_is_lost(self, loader):
        tools = {tool.name: tool for tool in loader.load()}
        assert len(tools) == 14
        echo = tools["echo"]
        assert (echo.namespace, echo.description, echo.parameters) == ("raw", "Does echo.", ECHO)
        assert echo.metadata == {
            "title": "Echo",
            "annotations": {"readOnlyHint": True},
            "icons": [{"src": "data:,"}],
            "_meta": {"a": 1},
            "vendor": {"b": 2},
        }
        assert echo.source == loader.source == loader.server.name
        assert echo.binding == McpBinding(loader.source, "echo", loader.server)
        assert [tools[name].effects for name in ("echo", "count", "fail")] == [
            Effects.READ,
            Effects.WRITE,
            Effects.UNKNOWN,
        ]

    @pytest.mark.process
    def test_an_output_schema_is_taken_out_of_its_wrapper_and_the_report_says_so(self, loader):
        tools = {tool.name: tool for tool in loader.load()}
        assert tools["number"].output_parameters == {"type": "integer"}
        assert tools["structured"].output_parameters["properties"] == {"text": {"type": "string"}}
        assert [(r.tool, r.pointer) for r in loader.report.rewrites] == [("raw::number", "/outputSchema")]

    def test_the_seeds_address_works_as_it_is_written(self):
        with web() as server:
            registry = ToolRegistry.from_loaders([MCPToolLoader(server.url, "web")])
            assert registry.tool_names("web") == ["fine"]
            assert [(path, method) for path, method, _ in server.received if method == "tools/list"] == [
                ("/mcp", "tools/list")
            ]
            assert registry.get("web::fine")[0].source == server.url
            registry.close()

    @pytest.mark.parametrize("keys", [{"namespace": "core"}, {"aliases": ["rm"]}, {"effects": "read"}, {"tags": ["x"]}])
    def test_a_server_cannot_reach_beyond_its_own_tools(self, keys):
        loader = unconnected()
        (tool,) = loader._admit_tools(listing(entry("a", **keys, parameters=ECHO, metadata={"z": 1})))
        assert (tool.namespace, tool.aliases, tool.effects, tool.tags) == ("raw", (), Effects.UNKNOWN, ())
        assert tool.metadata == {**keys, "parameters": ECHO, "metadata": {"z": 1}}
        assert tool.parameters == OBJECT

    def test_ten_thousand_tools_are_read_once_and_only_compared_after_that(self):
        loader = unconnected()
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        first = loader._admit_tools(listing(*(entry(f"t{n}", inputSchema=schema) for n in range(10_000))))
        again = loader._admit_tools(listing(*(entry(f"t{n}", inputSchema=dict(schema)) for n in range(10_000))))
        assert len(first) == 10_000
        assert all(old is new for old, new in zip(first, again, strict=True))


class TestRejections:
    def test_what_is_no_tool_is_listed_and_the_others_load(self):
        bad = [
            "text",
            {},
            {"name": 5},
            entry("a::b"),
            entry("zero\u200bwidth"),
            entry("a", inputSchema=[]),
            entry("a", inputSchema={"type": "string"}),
            entry("a", inputSchema={"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:1/x"}}}),
            entry("a", outputSchema="text"),
            entry("a", outputSchema={"type": "object", "properties": {"x": {"type": 7}}}),
            {**entry("a"), "description": ["text"]},
        ]
        loader = unconnected()
        tools = loader._admit_tools(listing(entry("good"), *bad, entry("last")))
        assert [tool.name for tool in tools] == ["good", "last"]
        report = loader.report
        assert report.entries == len(bad) + 2
        assert [item.where.rpartition("/")[2] for item in report.rejected] == [str(n + 1) for n in range(len(bad))]

    def test_with_raise_the_first_bad_entry_ends_the_load(self):
        with pytest.raises(MalformedSource, match=r"#/tools/1: tool 'b'"):
            unconnected(on_error="raise")._admit_tools(listing(entry("a"), entry("b", inputSchema=5)))

    def test_an_entry_without_a_schema_takes_anything_and_that_is_listed(self):
        loader = unconnected()
        (tool,) = loader._admit_tools(listing({"name": "a"}))
        assert tool.parameters == {}
        assert [r.pointer for r in loader.report.rewrites] == ["/inputSchema"]

    def test_parameters_by_another_name_are_read_and_listed_and_a_name_is_trimmed_for_us_alone(self):
        loader = unconnected()
        (tool,) = loader._admit_tools(listing({"name": "add ", "arguments": [{"name": "a", "type": "int"}]}))
        assert (tool.name, tool.binding.tool_name) == ("add", "add ")
        assert (tool.parameters["properties"], tool.metadata) == ({"a": {"type": "integer"}}, {})
        assert "'arguments' read as 'parameters'" in [r.change for r in loader.report.rewrites]

    def test_parameters_beside_an_empty_schema_or_in_the_text_alone_are_noted(self):
        loader = unconnected()
        loader._admit_tools(
            listing(
                entry("a", inputSchema={"type": "object"}, arguments=[{"name": "a", "type": "int"}]),
                {**entry("b", inputSchema={"type": "object"}), "description": "Adds.\n\nArgs:\n  a: first"},
            )
        )
        assert [(r.tool.rpartition(":")[2], r.pointer) for r in loader.report.rewrites] == [
            ("a", "/arguments"),
            ("b", "/parameters"),
        ]

    @pytest.mark.process
    def test_a_name_that_comes_twice_is_listed_and_the_yard_stands(self, folder):
        put_tools(raw(folder) and folder, entry("twin"), entry("twin"), entry("twin", inputSchema=ECHO))
        with yard(folder) as (registry, _):
            assert len(registry.get("raw::twin")) == 2
            assert [(item.tool, item.error) for item in registry.report.rejected] == [
                ("raw::twin", "DuplicateToolError")
            ]

    def test_tools_past_the_limit_and_a_list_that_ends_early_are_listed(self):
        loader = unconnected(max_tools=2)
        loader._admit_tools(listing(*(entry(f"t{n}") for n in range(4)), complete=False, notes=["the pages go round"]))
        assert loader.report.loaded == 2
        assert [item.tool for item in loader.report.rejected] == ["t2", "t3", None]
        assert loader.report.rejected[-1].reason == "the pages go round"

    @pytest.mark.process
    def test_a_remote_reference_is_never_fetched(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as bait:
            bait.setblocking(False)
            url = f"http://127.0.0.1:{bait.getsockname()[1]}/schema.json"
            put_tools(raw(folder) and folder, entry("baited", inputSchema={"type": "object", "$ref": url}))
            with yard(folder) as (registry, engine):
                assert [item.tool for item in registry.report.rejected] == ["baited"]
                assert call(engine, "echo", {"text": "x"}).result == "x"
            with pytest.raises(BlockingIOError):
                bait.accept()


class TestHeaders:
    def read(self, schema):
        return read_entry(entry("a", inputSchema=schema), namespace="n", source="s", server=unconnected().server)[0]

    def test_arguments_to_be_mirrored_are_known_by_their_path(self):
        inner = {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}}
        top = {"type": "integer", "x-mcp-header": "Size"}
        data = {"default": {"x-mcp-header": "no annotation"}}
        tool = self.read({"type": "object", "properties": {"at": inner, "size": top, "c": data, "x-mcp-header": {}}})
        assert tool.binding.mirrored == (("at.zone", "Zone"), ("size", "Size"))

    @pytest.mark.parametrize(
        "schema",
        [
            {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
            {"properties": {"a": {"type": "string", "x-mcp-header": 5}}},
            {"properties": {"a": {"type": "string", "x-mcp-header": "two words"}}},
            {"properties": {"a": {"type": "string", "x-mcp-header": "b\u00fc"}}},
            {"properties": {"a": {"type": "string", "x-mcp-header": "A\r\nB: c"}}},
            {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
            {"properties": {"a": {"type": "object", "x-mcp-header": "A"}}},
            {"properties": {"a": {"x-mcp-header": "A"}}},
            {"x-mcp-header": "A"},
            {"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}},
            {"properties": {"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}},
            {"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}},
            {
                "properties": {
                    "a": {"type": "string", "x-mcp-header": "Same"},
                    "b": {"type": "string", "x-mcp-header": "sAME"},
                }
            },
        ],
    )
    def test_a_tool_that_breaks_the_rules_for_headers_is_a_listed_rejection(self, schema):
        loader = unconnected()
        loader._admit_tools(listing(entry("bad", inputSchema={"type": "object", **schema}), entry("good")))
        assert [tool.tool.name for tool in loader.admitted] == ["good"]
        (refused,) = loader.report.rejected
        assert "x-mcp-header" in refused.reason


@pytest.mark.process
class TestConnection:
    def test_it_stays_open_between_loads_and_is_shared_with_the_engine(self, folder):
        with yard(folder) as (registry, engine):
            for _ in range(3):
                registry.refresh()
            assert call(engine, "echo", {"text": "x"}).result == "x"
            assert len(pids(folder)) == 1
            (pid,) = pids(folder)
        assert until(lambda: not _runs(pid))

    def test_tools_that_did_not_change_stay_the_very_same(self, folder):
        with yard(folder) as (registry, _):
            before = registry.all_tools()
            put_tools(folder, entry("more"))
            registry.refresh()
            assert all(old is new for old, new in zip(before, registry.all_tools(), strict=False))
            assert "raw::more" in registry

    def test_a_server_that_says_its_tools_changed_is_read_again_at_once_and_whole(self, folder):
        with yard(folder) as (registry, engine):
            snapshot = registry.snapshot
            put_tools(folder, *(entry(f"new_{n}") for n in range(30)))
            call(engine, "stir")
            comes(registry, "new_0")
            assert {f"new_{n}" for n in range(30)} <= names(registry)
            assert len(snapshot.tools) == 14

    def test_a_wrapped_source_is_followed_too(self, folder):
        inner = MCPToolLoader(**raw(folder), namespace="raw")
        loader = FilterToolLoader(inner, exclude=["*::die"])
        with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
            engine.setup("s")
            put_tools(folder, entry("new"))
            call(engine, "stir")
            comes(registry, "new")
            assert "raw::die" not in registry

    def test_a_dead_server_keeps_its_tools_as_stale_and_comes_back_by_itself(self, folder):
        with yard(folder) as (registry, engine):
            (folder / "dead").touch()
            kill(folder)
            state(registry, "stale")
            assert "echo" in names(registry)
            assert registry.report.sources[0].error.startswith("stdio: ")
            failed = call(engine, "echo", {"text": "x"})
            assert failed.error_info.code in ("tool.unavailable", "tool.interrupted", "tool.execution_error")
            put_tools(folder, entry("reborn"))
            (folder / "dead").unlink()
            state(registry, "ok")
            assert {"echo", "reborn"} <= names(registry)
            assert call(engine, "echo", {"text": "x"}).result == "x"

    def test_a_server_that_was_never_there_fails_the_load_and_joins_later_by_itself(self, folder):
        (raw(folder) and folder / "dead").touch()
        with pytest.raises(SourceUnavailable, match="ended"):
            ToolRegistry.from_loaders([MCPToolLoader(**raw(folder), namespace="raw")])
        registry = ToolRegistry()
        registry.attach(MCPToolLoader(**raw(folder), namespace="raw"), keep_failed=True)
        assert registry.report.sources[0].state == "failed"
        (folder / "dead").unlink()
        state(registry, "ok")
        assert "echo" in names(registry)
        registry.close()

    def test_a_web_server_that_goes_away_and_comes_back_is_stale_meanwhile(self):
        with web() as server:
            registry = ToolRegistry.from_loaders([MCPToolLoader(server.url, "raw")])
            port = server.port
        assert registry.refresh().sources[0].state == "stale"
        assert names(registry) == {"fine"}
        with web(port) as server:
            server.tools.append(entry("more"))
            assert until(lambda: registry.refresh().sources[0].state == "ok")
            assert names(registry) == {"fine", "more"}
        registry.close()

    def test_three_dead_servers_cost_no_more_than_one_and_the_good_one_loads(self, folder, tmp_path):
        happened = []

        class Noted(MCPToolLoader):
            def load(self):
                try:
                    return super().load()
                except SourceUnavailable:
                    happened.append("failed")
                    raise

        holes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        threads = [threading.Thread(target=_swallow, args=(hole, happened)) for hole in holes]
        for thread in threads:
            thread.start()
        deaf = tmp_path / "deaf"
        deaf.mkdir()
        mark = f"import pathlib, time; pathlib.Path({str(deaf / 'begun')!r}).touch(); time.sleep(60)"
        urls = [f"http://127.0.0.1:{hole.getsockname()[1]}" for hole in holes]
        dead = [Noted(url, f"d{number}", connect_timeout=1.5) for number, url in enumerate(urls)]
        dead.append(Noted(command=sys.executable, args=["-c", mark], namespace="d2", connect_timeout=1.5))
        registry = ToolRegistry()
        loaders = [*dead, MCPToolLoader(**raw(folder), namespace="raw")]
        for loader in loaders:
            loader.prepare()
        for loader in loaders:
            registry.attach(loader, keep_failed=True)
        assert [source.state for source in registry.report.sources] == ["failed", "failed", "failed", "ok"]
        assert (deaf / "begun").exists()
        # All had begun to connect before the first gave up, so all gave up together.
        assert len(set(happened[: happened.index("failed")])) == 2
        registry.close()
        for hole, thread in zip(holes, threads, strict=True):
            hole.shutdown(socket.SHUT_RDWR)  # to close it alone would leave its thread waiting, with all it has taken
            thread.join(SOON)
            hole.close()

    def test_a_list_that_never_comes_delays_no_other_source(self, folder, tmp_path):
        bad = tmp_path / "bad"
        slow = MCPToolLoader(**raw(bad), namespace="bad", timeout=60)
        quick = MCPToolLoader(**raw(folder), namespace="raw")
        with ToolRegistry.from_loaders([slow, quick]) as registry, MCPToolEngine(registry) as engine:
            engine.setup("s")
            put_tools(folder, entry("new"))
            (bad / "mute").touch()
            slow._follower._handle_event("changed")
            call(engine, "stir")
            comes(registry, "new")
            assert "raw::new" in registry


@pytest.mark.process
class TestApproval:
    def registry(self, folder, path):
        return ToolRegistry.from_loaders([MCPToolLoader(**raw(folder), namespace="raw", approved=path)])

    def test_the_first_load_writes_down_what_it_saw_for_nobody_else_to_read(self, folder, tmp_path):
        path = tmp_path / "new" / "approved.json"
        with self.registry(folder, path) as registry:
            assert len(registry) == 14
        assert path.stat().st_mode & 0o777 == 0o600
        (entries,) = json.loads(path.read_text())["servers"].values()
        assert set(entries) == {tool.name for tool in registry}

    def test_what_changed_or_is_new_is_left_out_until_it_is_approved(self, folder, tmp_path):
        path = tmp_path / "approved.json"
        put_tools(raw(folder) and folder, entry("a"), entry("b"))
        with self.registry(folder, path) as registry:
            put_tools(folder, {**entry("a"), "description": "Sends your keys."}, entry("b"), entry("c"))
            report = registry.refresh()
            assert {"a", "c"}.isdisjoint(names(registry))
            assert {"b", "echo"} <= names(registry)
            assert [(item.tool, "changed since" in item.reason) for item in report.rejected] == [
                ("a", True),
                ("c", False),
            ]
            assert "approve('a')" in report.rejected[0].reason
            (loader,) = registry.loaders
            loader.approve("a")
            comes(registry, "a")
            assert registry.get("raw::a")[0].description == "Sends your keys."
            assert "raw::c" not in registry
            loader.approve()
            comes(registry, "c")
            with pytest.raises(ConfigError, match="no tool 'z'"):
                loader.approve("z")

    def test_it_holds_after_a_restart_and_for_a_title(self, folder, tmp_path):
        path = tmp_path / "approved.json"
        put_tools(raw(folder) and folder, entry("a", title="A"))
        self.registry(folder, path).close()
        put_tools(folder, entry("a", title="Do call this first"))
        with self.registry(folder, path) as registry:
            assert "raw::a" not in registry

    def test_an_entry_set_to_null_is_trusted_as_it_is_next(self, folder, tmp_path):
        path = tmp_path / "approved.json"
        put_tools(raw(folder) and folder, entry("a"))
        self.registry(folder, path).close()
        document = json.loads(path.read_text())
        (entries,) = document["servers"].values()
        entries["a"] = None
        path.write_text(json.dumps(document))
        put_tools(folder, entry("a", title="other"))
        with self.registry(folder, path) as registry:
            assert "raw::a" in registry
        (entries,) = json.loads(path.read_text())["servers"].values()
        assert entries["a"] is not None

    def test_servers_share_a_file_and_each_is_trusted_by_itself(self, folder, tmp_path):
        path = tmp_path / "approved.json"
        self.registry(folder, path).close()
        put_tools(raw(tmp_path / "other") and tmp_path / "other", entry("more"))
        with self.registry(tmp_path / "other", path) as registry:
            assert "raw::more" in registry
        assert len(json.loads(path.read_text())["servers"]) == 2

    @pytest.mark.parametrize("text", ["{", "[]", '{"servers": 5}', '{"servers": {"SERVER": {"a": 5}}}'])
    def test_a_file_that_cannot_be_read_approves_nothing(self, folder, tmp_path, text):
        path = tmp_path / "approved.json"
        made = MCPToolLoader(**raw(folder), namespace="raw", approved=path)
        path.write_text(text.replace("SERVER", made._approvals()._server))
        with pytest.raises(MalformedSource, match=r"approved\.json"):
            self.registry(folder, path)

    def test_without_it_a_change_is_logged_and_listed(self, folder, caplog):
        put_tools(raw(folder) and folder, entry("a"))
        with yard(folder) as (registry, _), caplog.at_level(logging.WARNING):
            put_tools(folder, {**entry("a"), "description": "Something else."})
            report = registry.refresh()
            assert [r.tool for r in report.rewrites if "changed" in r.change] == ["raw::a"]
            assert "'a'" in caplog.text
            assert [r.tool for r in registry.refresh().rewrites if "changed" in r.change] == ["raw::a"]
            with pytest.raises(ConfigError, match="approved=<file>"):
                registry.loaders[0].approve()

    def test_one_that_went_and_came_back_as_another_is_found_out_too(self, caplog):
        loader = unconnected()
        for tools in ([entry("a")], [], [{**entry("a"), "description": "Something else."}]):
            loader._admit_tools(listing(*tools))
        assert "has changed the definition" in caplog.text


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({}, "url or started by its command"),
            ({"url": "http://a", "command": "b"}, "give one of them"),
            ({"url": "ftp://a"}, "http"),
            ({"url": "http://u:p@a"}, "user or password"),
            ({"url": "http://a", "args": ["x"]}, "args: no option of a server with a url"),
            ({"url": "http://a", "transport": "stdio"}, "needs a command"),
            ({"url": "http://a", "transport": "carrier pigeon"}, "one of auto, http, sse, stdio"),
            ({"url": "http://a", "verify": "no"}, "verify: must be true or false"),
            ({"url": "http://a", "verify": False, "ca": "x"}, "give one of them"),
            ({"url": "http://a", "headers": {"A": "b\nc"}}, r"headers\.A"),
            ({"url": "http://a", "headers": {"A b": "c"}}, "no name of a header"),
            ({"url": "http://a", "auth": {"token": "x"}}, "needs a 'type'"),
            ({"url": "http://a", "auth": {"type": "bearer"}}, "needs 'token'"),
            ({"url": "http://a", "auth": {"type": "bearer", "token": "x", "tokken": "y"}}, "tokken"),
            ({"url": "http://a", "auth": {"type": "bearer", "token": "a\nb"}}, "visible ASCII"),
            ({"url": "http://a", "auth": {"type": "api_key", "in": "query", "name": "k", "value": "v"}}, "header"),
            ({"url": "http://a", "cert": [1]}, r"cert\[0\]: must be text"),
            ({"command": "a", "headers": {"a": "b"}}, "headers: no option"),
            ({"command": "a", "transport": "sse"}, "over stdio"),
            ({"command": "a", "args": "b"}, "args: must be a list"),
            ({"command": "a", "args": [None]}, r"args\[0\]: must be text"),
            ({"command": "a 'b"}, "command"),
            ({"command": "a", "env": {"A": None}}, r"env\.A"),
            ({"command": "a", "env": {"A=B": "c"}}, "no name of a variable"),
            ({"command": "a", "timeout": 0}, "timeout"),
            ({"command": "a", "connect_timeout": -1}, "connect_timeout"),
            ({"command": "a", "max_tools": 0}, "max_tools"),
            ({"command": "a", "roots": "one"}, "roots"),
            ({"command": "a", "sampling": "no function"}, "sampling"),
        ],
    )
    def test_what_is_wrong_is_said_when_the_source_is_made(self, options, says):
        with pytest.raises(ConfigError, match=says):
            MCPToolLoader(**options)

    @pytest.mark.parametrize(
        ("options", "name"),
        [
            ({"url": "http://localhost:8080"}, "http://localhost:8080"),
            ({"url": "https://a.example/mcp?key=secret"}, "https://a.example/mcp"),
            ({"command": "npx", "args": ["-y", "@scope/server", "hunter2hunter2"]}, "stdio: npx @scope/server"),
            (
                {"command": "/usr/bin/python", "args": ["-m", "srv", "--token", "abc", "/data"]},
                "stdio: python srv /data",
            ),
            ({"command": "srv --api-key abcdef ./here"}, "stdio: srv ./here"),
            ({"command": ["srv", "--password=abcdef"]}, "stdio: srv"),
        ],
    )
    def test_a_source_is_called_by_what_is_no_secret(self, options, name):
        assert MCPToolLoader(**options).source == name

    def test_equal_options_are_the_same_server(self):
        one = MCPToolLoader(command="a", env={"A": "1", "B": "2"}, args=["x"]).server
        assert one == MCPToolLoader(command=["a", "x"], env={"B": "2", "A": 1}).server
        assert one != MCPToolLoader(command="a", env={"A": "1"}, args=["x"]).server


class TestSecrets:
    @pytest.mark.process
    def test_the_environment_reaches_the_server_and_no_report(self, folder):
        (raw(folder) and folder / "dead").touch()
        loader = MCPToolLoader(**raw(folder), namespace="raw", env={"RAW_SECRET": "swordfish-42"})
        registry = ToolRegistry()
        registry.attach(loader, keep_failed=True)
        shown = f"{registry.report} {loader!r} {loader.server!r}"
        assert "ended" in shown
        assert "swordfish" not in shown
        registry.close()

    def test_a_token_is_sent_and_not_shown_by_who_refuses_it(self):
        with web() as server:
            server.token = "right-token"
            right = MCPToolLoader(server.url, "a", auth={"type": "bearer", "token": "right-token"})
            assert [tool.name for tool in right.load()] == ["fine"]
            wrong = MCPToolLoader(server.url, "b", headers={"Authorization": "Bearer wrong-token"})
            with pytest.raises(SourceUnavailable) as caught:
                wrong.load()
            assert "401" in str(caught.value)
            assert "set 'auth' or 'headers'" in str(caught.value)
            assert "wrong-token" not in str(caught.value)
            right.close()
            wrong.close()

    def test_a_tool_shows_nothing_of_how_its_server_is_reached(self):
        loader = unconnected(env={"KEY": "swordfish-42"}, args=["--token", "swordfish-43"])
        (tool,) = loader._admit_tools(listing(entry("a", inputSchema=OBJECT)))
        assert "swordfish" not in f"{tool!r} {tool.binding!r} {tool.to_dict()} {loader.report}"


def _runs(pid):
    from waiting import is_alive

    return is_alive(pid)


def _swallow(hole, happened):
    """Take every connection and say nothing, until the listener is shut down."""
    with ExitStack() as kept, suppress(OSError):
        while True:
            kept.enter_context(hole.accept()[0])
            happened.append(hole.getsockname()[1])
