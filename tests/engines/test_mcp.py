"""MCPToolEngine against real servers."""

import asyncio
import base64
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import SOON, is_alive, until

from engines.mcp.support import OBJECT, call, entry, kill, log, pids, put_tools, raw, web, yard
from toolyard import (
    ConfigError,
    Content,
    McpBinding,
    MCPToolEngine,
    MCPToolLoader,
    MultiToolEngine,
    PythonToolEngine,
    Tool,
    ToolCall,
    ToolRegistry,
    Unavailable,
)
from toolyard.calls.batch import CallRequest
from toolyard.model.call import Progress, blocks_of

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "raw"


class TestCalls:
    def test_values_come_as_the_tools_mean_them(self, folder):
        with yard(folder) as (_, engine):
            assert call(engine, "echo", {"text": "hi"}).result == "hi"
            assert call(engine, "structured", {"text": "hi"}).result == {"text": "hi"}
            assert call(engine, "number").result == 7
            found = call(engine, "contents")
            assert [block["type"] for block in blocks_of(found)] == [
                "text",
                "image",
                "audio",
                "resource_link",
                "resource",
            ]

    def test_a_wrapped_number_satisfies_its_output_schema(self, folder):
        with yard(folder, output_check="strict") as (_, engine):
            assert call(engine, "number").result == 7

    def test_failures_keep_their_code_text_and_pictures(self, folder):
        with yard(folder) as (_, engine):
            failed = call(engine, "fail", {"text": "broken"})
            assert (failed.error_info.code, failed.error) == ("tool.execution_error", "broken")
            assert failed.error_info.details["content"][0]["type"] == "image"
            assert call(engine, "fail_ours").error_info.code == "tool.denied"
            refused = call(engine, "refuse").error_info
            assert (refused.code, refused.details["code"]) == ("tool.execution_error", -32000)
            assert call(engine, "malformed", {"result": {"content": 5}}).error_info.code == "tool.invalid_output"
            assert call(engine, "fail", {}).error_info.code == "tool.invalid_args"
            assert call(engine, "echo", {"text": "still here"}).result == "still here"

    def test_a_failing_tool_that_only_reads_has_had_no_effect(self):
        with web() as server:
            server.answer = lambda params: {"content": [{"type": "text", "text": "no"}], "isError": True}
            loader = MCPToolLoader(server.url, "raw")
            with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
                engine.setup("s")
                assert call(engine, "fine").error_info.effect == "none"

    def test_the_seeds_engine_block_shares_the_connection_of_its_source(self, folder):
        with yard(folder, **raw(folder)) as (_, engine):
            assert call(engine, "echo", {"text": "x"}).result == "x"
            assert len(pids(folder)) == 1

    def test_an_engine_with_a_server_of_its_own_calls_that_one(self, folder, tmp_path):
        with yard(folder, **raw(tmp_path / "own")) as (_, engine):
            assert call(engine, "echo", {"text": "x"}).result == "x"
            assert "tools/call echo" in log(tmp_path / "own")
            assert "tools/call echo" not in log(folder)

    def test_a_server_that_died_is_started_again_for_the_next_call(self, folder):
        with yard(folder) as (_, engine):
            died = call(engine, "die")
            assert died.error_info.effect == "unknown"
            assert until(lambda: call(engine, "echo", {"text": "x"}).result == "x")
            assert len(pids(folder)) == 2

    def test_what_only_reads_is_tried_again_and_what_may_change_something_is_not(self):
        with web() as server:
            server.tools = [entry("reads", annotations={"readOnlyHint": True}), entry("writes")]
            loader = MCPToolLoader(server.url, "raw")
            with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry, retry_delay=0.01) as engine:
                engine.setup("s")
                calls = []

                def unsteady(params):
                    calls.append(params["name"])
                    if calls.count(params["name"]) < 2:
                        for connection in server.connections:
                            connection.close()
                        raise ConnectionAbortedError
                    return {"content": [{"type": "text", "text": "there"}]}

                server.answer = unsteady
                assert call(engine, "writes").is_error
                assert until(lambda: not registry.refresh().sources[0].error)
                assert until(lambda: call(engine, "reads").result == "there")
                assert calls.count("writes") == 1


class TestWaiting:
    def test_a_deadline_ends_the_call_and_the_server_is_told(self, folder):
        with yard(folder) as (_, engine):
            late = call(engine, "slow", {"seconds": 30}, timeout=0.2)
            assert late.error_info.code == "tool.timeout"
            assert until(lambda: any(line.startswith("stopped") for line in log(folder)))
            assert call(engine, "echo", {"text": "x"}).result == "x"

    async def test_cancelling_the_caller_cancels_the_call(self, folder):
        with yard(folder) as (_, engine):
            work = asyncio.ensure_future(engine.aexecute("s", [ToolCall("raw::slow", {"seconds": 30})]))
            await asyncio.to_thread(until, lambda: "tools/call slow" in log(folder))
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await asyncio.to_thread(until, lambda: any(line.startswith("stopped") for line in log(folder)))
            (entry,) = engine.get_session_state("s")["tool_executions"]
            assert entry["tool_output"]["error_info"]["code"] == "tool.interrupted"

    def test_many_threads_share_the_connection_and_none_waits_for_another(self, folder):
        with yard(folder) as (_, engine):
            for number in range(16):
                engine.setup(f"s{number}")
            slow = threading.Thread(target=call, args=(engine, "slow", {"seconds": 3}), daemon=True)
            slow.start()
            until(lambda: "tools/call slow" in log(folder))
            with ThreadPoolExecutor(16) as pool:
                found = pool.map(
                    lambda number: call(engine, "echo", {"text": str(number)}, f"s{number % 16}").result, range(64)
                )
                assert list(found) == [str(number) for number in range(64)]
            assert slow.is_alive()
            assert len(pids(folder)) == 1


class TestProgress:
    def test_progress_reaches_the_callback_with_its_call(self, folder):
        told = []
        with yard(folder, on_progress=lambda call, progress: told.append((call.call_id, progress))) as (_, engine):
            (result,) = engine.execute("s", [ToolCall("raw::slow", {"seconds": 0.2}, call_id="c")])
            assert result.result == "done"
            assert told[0] == ("c", Progress(0, 20, "step 0"))
            assert [progress.progress for _, progress in told] == [0, 5, 10, 15]

    async def test_progress_reaches_who_asked_for_the_call(self, folder):
        told = []
        with yard(folder) as (_, engine):
            calls = [ToolCall("raw::slow", {"seconds": 0.2})]
            await engine.arun(CallRequest(calls=calls, notify=lambda call, notice: told.append((call.name, notice))))
        assert told[-1] == ("raw::slow", Progress(15, 20, "step 15"))

    def test_a_tool_that_runs_as_a_task_alone_is_waited_for_with_its_progress(self, folder):
        folder.mkdir()
        put_tools(folder, entry("task", execution={"taskSupport": "required"}))
        told = []
        with yard(folder, on_progress=lambda call, notice: told.append(notice)) as (_, engine):
            result = call(engine, "task", {"seconds": 0.2})
        assert (result.result, told[-1]) == ("done", Progress(15, 20, "step 15"))

    def test_a_task_that_takes_too_long_is_cancelled_and_may_have_had_an_effect(self, folder):
        folder.mkdir()
        put_tools(folder, entry("task", execution={"taskSupport": "required"}))
        with yard(folder) as (_, engine):
            late = call(engine, "task", {"seconds": 30}, timeout=0.5)
            until(lambda: "tasks/cancel" in log(folder))
        assert (late.error_info.code, late.error_info.effect) == ("tool.timeout", "unknown")

    def test_a_callback_that_fails_hurts_no_call(self, folder, caplog):
        def fails(call, progress):
            raise ZeroDivisionError

        with yard(folder, on_progress=fails) as (_, engine), caplog.at_level(logging.ERROR):
            assert call(engine, "slow", {"seconds": 0.1}).result == "done"
        assert "on_progress" in caplog.text


class TestAsking:
    def test_handlers_answer_from_sync_and_async_code(self, folder, tmp_path):
        async def elicit(params):
            return {"action": "decline"}

        handlers = {"sampling": lambda params: {"text": "sampled"}, "elicitation": elicit, "roots": [str(tmp_path)]}
        with yard(folder, **handlers) as (_, engine):
            assert json.loads(call(engine, "ask", {"method": "sampling/createMessage"}).result) == {"text": "sampled"}
            assert json.loads(call(engine, "ask", {"method": "elicitation/create"}).result) == {"action": "decline"}
            (root,) = json.loads(call(engine, "ask", {"method": "roots/list"}).result)["roots"]
            assert root == {"uri": tmp_path.as_uri(), "name": tmp_path.name}


class TestSessions:
    def test_sessions_of_a_stateful_server_have_a_connection_each(self, folder):
        with yard(folder, connection="per_session") as (_, engine):
            engine.setup("t")
            assert [call(engine, "count", session=s).result["count"] for s in ("s", "s", "t", "s")] == [1, 2, 1, 3]
            mine = call(engine, "count").result["pid"]
            assert len(pids(folder)) == 3
            engine.teardown("s")
            assert until(lambda: not is_alive(mine))
            assert call(engine, "count", session="t").result["count"] == 2

    def test_owners_do_not_share_them(self, folder):
        with yard(folder, connection="per_session") as (_, engine):
            engine.setup("s", owner="a")
            calls = [ToolCall("raw::count", {})]
            assert engine.execute("s", calls)[0].result["count"] == 1
            assert engine.execute("s", calls, owner="a")[0].result["count"] == 1
            engine.teardown("s", owner="a")
            assert engine.execute("s", calls)[0].result["count"] == 2

    async def test_calls_in_no_session_use_the_shared_one(self, folder):
        with yard(folder, connection="per_session") as (_, engine):
            request = CallRequest(calls=[ToolCall("raw::count", {})])
            assert [(await engine.arun(request))[0].result["count"] for _ in range(2)] == [1, 2]

    def test_the_one_longest_unused_makes_room(self, folder, caplog):
        with yard(folder, connection="per_session", max_session_connections=2) as (_, engine):
            for session in ("t", "u"):
                engine.setup(session)
            for session in ("s", "t", "s", "u"):
                call(engine, "count", session=session)
            assert "session t lost its connection" in caplog.text
            assert call(engine, "count").result["count"] == 3
            engine.setup("v")
            busy = [threading.Thread(target=call, args=(engine, "slow", {"seconds": 3}, s)) for s in ("s", "u")]
            for thread in busy:
                thread.start()
            until(lambda: log(folder).count("tools/call slow") == 2)
            full = call(engine, "count", session="v").error_info
            assert (full.code, full.retryable) == ("tool.unavailable", True)
            for thread in busy:
                thread.join()

    def test_closing_the_engine_ends_them_all(self, folder):
        with yard(folder, connection="per_session") as (registry, engine):
            mine = call(engine, "count").result["pid"]
        assert not is_alive(mine)
        with pytest.raises(Unavailable, match="closed"):
            engine._links.shared(registry.loaders[0].server)


class TestSimulation:
    def test_what_reads_is_simulated_by_calling_it_and_the_rest_is_not(self, folder):
        with yard(folder) as (_, engine):
            calls = [
                ToolCall("raw::echo", {"text": "x"}),
                ToolCall("raw::count", {}),
                ToolCall("raw::fail", {"text": ""}),
            ]
            found = engine.simulate("s", calls)
            assert found[0].result == "x"
            assert [result.error_info.code for result in found[1:]] == ["tool.denied", "tool.denied"]
            assert "tools/call count" not in log(folder)


class TestRoutes:
    def test_it_takes_tools_of_servers_only(self, folder):
        with yard(folder) as (registry, engine):
            plain = Tool("a", "b")
            assert engine.takes(registry.get("raw::echo")[0])
            assert not engine.takes(plain)
            registry.add(plain)
            assert engine.execute("s", [ToolCall("b::a", {})])[0].error_info.code == "tool.no_engine"

    @pytest.mark.parametrize("known_by", ["its name", "its namespace"])
    def test_a_tool_that_only_names_its_server_finds_it_by_the_others(self, folder, known_by):
        with yard(folder) as (registry, engine):
            server = registry.get("raw::echo")[0].binding.server if known_by == "its name" else "raw"
            schema = {"type": "object", "properties": {"text": {"type": "string"}}}
            registry.add(Tool("say", "mine", "Says it.", schema, binding=McpBinding(server, "echo")))
            assert engine.execute("s", [ToolCall("mine::say", {"text": "x"})])[0].result == "x"
            registry.add(Tool("lost", "mine", binding=McpBinding("elsewhere", "echo")))
            lost = engine.execute("s", [ToolCall("mine::lost", {})])[0].error_info
            assert (lost.code, "elsewhere" in lost.message) == ("tool.no_engine", True)

    def test_as_a_part_of_another_engine_it_hides_what_it_was_given_there(self, folder):
        loader = MCPToolLoader(**raw(folder), namespace="raw", env={"API_KEY": "swordfish-42"})
        with ToolRegistry.from_loaders([loader]) as registry:
            multi = MultiToolEngine(registry, {"raw": MCPToolEngine(registry)}, default=PythonToolEngine(registry))
            with multi as engine:
                engine.setup("s")
                failed = call(engine, "env", {"text": "API_KEY"})
                assert failed.error == "bad key: [redacted]"
                assert engine._path.redactor.text("swordfish-42") == "[redacted]"


class TestSecrets:
    @pytest.mark.parametrize("where", ["source", "engine"])
    def test_a_server_that_tells_what_it_was_given_is_not_repeated(self, folder, where, caplog):
        env = {"API_KEY": "swordfish-42"}
        loader = MCPToolLoader(**raw(folder), namespace="raw", env=env if where == "source" else None)
        options = raw(folder, env=env) if where == "engine" else {}
        with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry, **options) as engine:
            engine.setup("s")
            failed = call(engine, "env", {"text": "API_KEY"})
            assert failed.error.startswith("bad key: ")
            shown = f"{failed} {engine!r} {engine.get_session_state('s')} {caplog.text} {registry.report}"
            assert "swordfish" not in shown
            assert engine.secrets == ("swordfish-42",)

    def test_a_header_that_comes_back_in_an_error_is_hidden(self):
        with web() as server:
            loader = MCPToolLoader(server.url, "raw", headers={"X-Key": "swordfish-42"})
            server.answer = lambda params: {"content": [{"type": "text", "text": "swordfish-42"}], "isError": True}
            with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
                engine.setup("s")
                assert "swordfish" not in str(call(engine, "fine"))
                assert server.received[-1][2]["X-Key"] == "swordfish-42"

    @pytest.mark.parametrize("shape", ["text", "structured", "blocks"])
    def test_what_a_server_was_given_is_not_repeated_in_answers_nor_in_definitions(self, shape):
        with web() as server:
            secret, text = "swordfish-42", {"type": "text", "text": "key swordfish-42"}
            answers = {
                "text": {"content": [text]},
                "structured": {"content": [text], "structuredContent": {secret: [secret]}},
                "blocks": {
                    "content": [
                        text,
                        {"type": "resource", "resource": {"uri": f"x://{secret}", "text": secret}},
                        {
                            "type": "image",
                            "data": base64.b64encode(b"xx" + secret.encode()).decode(),
                            "mimeType": "a/b",
                        },
                    ]
                },
            }
            server.answer = lambda params: answers[shape]
            server.tools = [entry("fine", description=f"Called with {secret}.")]
            loader = MCPToolLoader(f"{server.url}/mcp?api_key={secret}", "raw")
            with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry) as engine:
                engine.setup("s")
                result = call(engine, "fine")
                shown = f"{result} {engine.get_session_state('s')} {registry.to_dicts()}"
                assert result.error is None and "[redacted]" in str(result)
                assert secret not in shown and "c3dvcmRmaXNo" not in shown and "N3b3JkZmlzaC" not in shown

    def test_what_a_server_asks_for_does_not_repeat_it_either(self, folder):
        asked = []
        options = {"elicitation": lambda params: asked.append(params) or {"action": "decline"}}
        loader = MCPToolLoader(**raw(folder), namespace="raw", env={"API_KEY": "swordfish-42"})
        with ToolRegistry.from_loaders([loader]) as registry, MCPToolEngine(registry, **options) as engine:
            engine.setup("s")
            arguments = {"method": "elicitation/create", "params": {"message": "is swordfish-42 yours?"}}
            assert call(engine, "ask", arguments).error is None
            assert asked == [{"message": "is [redacted] yours?"}]


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"connection": "sometimes"}, "shared, per_session"),
            ({"max_session_connections": 0}, "max_session_connections"),
            ({"on_progress": 5}, "on_progress"),
            ({"on_progress": asyncio.sleep}, "not async"),
            ({"headers": {"A": "b"}}, "headers is for one server"),
            ({"env": {"A": "b"}}, "env is for one server"),
            ({"url": "http://a", "command": "b"}, "give one of them"),
            ({"roots": 5}, "roots"),
            ({"json_text": "yes"}, "json_text"),
        ],
    )
    def test_what_is_wrong_is_said_when_the_engine_is_made(self, options, says):
        with pytest.raises(ConfigError, match=says):
            MCPToolEngine(**options)

    def test_json_in_text_is_read_if_asked_for(self, folder):
        with yard(folder, json_text=True) as (_, engine):
            assert call(engine, "echo", {"text": '{"a": 1}'}).result == {"a": 1}


def test_a_killed_server_fails_its_calls_at_once_and_others_go_on(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    loaders = [MCPToolLoader(**raw(one), namespace="raw"), MCPToolLoader(**raw(two), namespace="two")]
    with ToolRegistry.from_loaders(loaders) as registry, MCPToolEngine(registry, retries=0) as engine:
        for session in ("s", "t"):
            engine.setup(session)
        found = []
        work = threading.Thread(target=lambda: found.append(call(engine, "slow", {"seconds": 60})))
        work.start()
        until(lambda: "tools/call slow" in log(one))
        kill(one)
        work.join(SOON)
        assert found[0].error_info.code in ("tool.interrupted", "tool.unavailable")
        assert engine.execute("t", [ToolCall("two::echo", {"text": "x"})])[0].result == "x"


def test_content_of_a_python_tool_is_kept_in_the_same_way():
    from toolyard import function_tool
    from toolyard.model.call import image, text

    def chart() -> Content:
        return Content([text("sales"), image(b"png", "image/png")], {"sales": 5})

    registry = ToolRegistry([function_tool(chart, namespace="desk")])
    with PythonToolEngine(registry) as engine:
        engine.setup("s")
        (found,) = engine.execute("s", [ToolCall("desk::chart", {})])
        assert found.result == {"sales": 5}
        assert [block["type"] for block in blocks_of(found)] == ["text", "image"]


def test_tools_put_in_the_folder_are_called_by_their_schema(folder):
    put_tools(raw(folder) and folder, entry("strict", inputSchema={**OBJECT, "required": ["x"]}))
    with yard(folder) as (_, engine):
        assert call(engine, "strict").error_info.code == "tool.invalid_args"
