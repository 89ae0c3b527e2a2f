"""Sources and engine against servers that nobody here wrote, run as processes."""

import asyncio
import json
import threading
from contextlib import ExitStack

import pytest
from waiting import until

from conftest import SOAK
from mcp_rig.processes import START, find_running, free_port, kill_all, new_mark, wait_until_gone
from mcp_rig.real_servers import make_repository, npm_command, pypi_command, serve_everything, stdio_source
from mcp_rig.yards import yard_of
from toolyard import Effects, ToolCall
from toolyard.model.call import blocks_of

pytestmark = pytest.mark.process

WAYS = ("stdio", "http", "sse") if SOAK else ("stdio", "http")
ALWAYS = {
    *("echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference"),
    *("get-structured-content", "get-sum", "get-tiny-image", "trigger-long-running-operation"),
}


@pytest.fixture(scope="module", params=WAYS)
def yard(request):
    with serve_everything(request.param) as source, yard_of(source) as made:
        yield made


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.txt").write_text("hello")
    with yard_of(stdio_source("files", npm_command("server-filesystem", folder))) as made:
        yield made, folder


class TestEverything:
    def test_lists_its_tools_with_schemas_effects_and_titles(self, yard):
        tools = yard.tools("everything")
        assert set(tools) >= ALWAYS
        assert tools["echo"].effects is Effects.READ
        assert tools["toggle-simulated-logging"].effects is not Effects.READ
        assert tools["get-sum"].parameters["required"] == ["a", "b"]
        assert tools["get-structured-content"].output_parameters["required"]
        assert all(tool.description and tool.binding.tool_name == name for name, tool in tools.items())
        assert yard.registry.report.ok

    def test_calls_give_text_and_structured_values(self, yard):
        assert yard.value("everything::echo", message="hällo \U0001f600") == "Echo: hällo \U0001f600"
        assert yard.value("everything::get-sum", a=1, b="2") == "The sum of 1 and 2 is 3."
        weather = yard.value("everything::get-structured-content", location="Chicago")
        assert weather == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}

    def test_images_links_and_resources_are_passed_on_unchanged(self, yard):
        picture = blocks_of(yard.call("everything::get-tiny-image"))
        assert "image" in [block["type"] for block in picture]
        assert next(block["mimeType"] for block in picture if block["type"] == "image") == "image/png"
        links = blocks_of(yard.call("everything::get-resource-links", count=2))
        assert [block["type"] for block in links] == ["text", "resource_link", "resource_link"]
        reference = blocks_of(yard.call("everything::get-resource-reference", resourceType="Text", resourceId=1))
        assert "resource" in [block["type"] for block in reference]

    def test_errors_of_the_tool_and_of_the_call_have_different_codes(self, yard):
        assert yard.code("everything::get-resource-reference", resourceId=0) == "tool.execution_error"
        assert yard.code("everything::get-sum", a="no number", b=1) == "tool.invalid_args"
        assert yard.code("everything::no-such-tool") == "tool.not_found"

    def test_a_tool_that_runs_as_a_task_alone_is_waited_for(self, yard):
        tool = yard.tools("everything")["simulate-research-query"]
        assert tool.metadata["execution"] == {"taskSupport": "required"}
        assert yard.value("everything::simulate-research-query", topic="bees").startswith("# Research Report: bees")

    def test_a_deadline_ends_the_call_and_nothing_else(self, yard):
        async def both():
            long = yard.ask("everything::trigger-long-running-operation", {"duration": 60, "steps": 60}, within=0.5)
            return await asyncio.gather(long, yard.ask("everything::echo", {"message": "beside"}))

        late, beside = asyncio.run(both())
        assert (late.error_info.code, beside.result) == ("tool.timeout", "Echo: beside")
        assert yard.value("everything::echo", message="after") == "Echo: after"

    def test_a_cancelled_caller_leaves_the_connection_as_it_was(self, yard):
        async def cancelled():
            arguments = {"duration": 60, "steps": 600}
            heard = asyncio.Event()
            loop = asyncio.get_running_loop()
            task = asyncio.create_task(
                yard.ask(
                    "everything::trigger-long-running-operation",
                    arguments,
                    notify=lambda call, notice: loop.call_soon_threadsafe(heard.set),
                )
            )
            await heard.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert yard.value("everything::echo", message="after") == "Echo: after"

    def test_progress_comes_while_the_call_runs(self, yard):
        heard = []

        async def listen():
            arguments = {"duration": 0.3, "steps": 3}
            return await yard.ask(
                "everything::trigger-long-running-operation",
                arguments,
                notify=lambda call, notice: heard.append((call.name, notice.progress, notice.total)),
            )

        assert not asyncio.run(listen()).is_error
        assert heard == [("everything::trigger-long-running-operation", step, 3) for step in (1, 2, 3)]

    def test_calls_at_once_share_one_connection(self, yard):
        calls = [("everything::trigger-long-running-operation", {"duration": 0.5, "steps": 1})] * 20
        calls += [("everything::get-sum", {"a": number, "b": 1}) for number in range(30)]
        results = yard.many(calls)
        assert [result.result for result in results[20:]] == [
            f"The sum of {number} and 1 is {number + 1}." for number in range(30)
        ]
        assert not [result.error for result in results if result.is_error]

    def test_calls_from_threads_and_from_running_loops_give_the_same(self, yard):
        answers = []

        def in_a_thread(number):
            answers.append(yard.engine.execute(f"t{number}", [_echo(number)])[0].result)

        for number in range(8):
            yard.engine.setup(f"t{number}")
        threads = [threading.Thread(target=in_a_thread, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [f"Echo: {number}" for number in range(8)]

        async def inside_a_loop():
            return yard.value("everything::echo", message="inside")

        assert asyncio.run(inside_a_loop()) == "Echo: inside"


def _echo(number):
    return ToolCall("everything::echo", {"message": str(number)})


@pytest.mark.parametrize("way", WAYS)
def test_a_server_killed_under_load_answers_every_call_and_comes_back(way):
    """Whatever was under way gets an answer or a clean error; the next calls work, and no process is left."""
    mark, port = new_mark(), free_port()
    once = {"once": {"type": "mcp", "retries": 0}}
    with serve_everything(way, mark, port) as source, yard_of({**source, "engine": "once"}, engines=once) as yard:
        began = threading.Event()

        async def load():
            long = {"duration": 2, "steps": 20}
            tasks = [
                asyncio.create_task(
                    yard.ask(
                        "everything::trigger-long-running-operation", long, notify=lambda call, notice: began.set()
                    )
                )
                for _ in range(50)
            ]
            assert await asyncio.to_thread(began.wait, START)
            assert kill_all(mark)
            return await asyncio.gather(*tasks)

        codes = {result.error_info.code for result in asyncio.run(load()) if result.is_error}
        assert codes <= {"tool.execution_error", "tool.unavailable", "tool.interrupted"}
        with ExitStack() as stack:
            if way != "stdio":
                assert yard.code("everything::echo", message="nobody") == "tool.unavailable"
                stack.enter_context(serve_everything(way, mark, port))
            until(lambda: yard.call("everything::echo", message="back").result == "Echo: back")
            assert len(find_running(mark)) == 1
            assert set(yard.tools("everything")) >= ALWAYS
    wait_until_gone(mark)


class TestFiles:
    def test_lists_every_tool_with_both_schemas_and_its_effect(self, files):
        tools = files[0].tools("files")
        assert len(tools) == 14
        assert all(tool.output_parameters["properties"] for tool in tools.values())
        assert {name for name, tool in tools.items() if tool.effects is Effects.READ} >= {"read_text_file"}
        assert {name for name, tool in tools.items() if tool.effects is Effects.WRITE} == {
            *("write_file", "edit_file", "create_directory", "move_file"),
        }

    def test_writes_and_reads_back(self, files):
        yard, folder = files
        yard.value("files::write_file", path=f"{folder}/b.txt", content="wörld")
        assert (folder / "b.txt").read_text() == "wörld"
        assert yard.value("files::read_text_file", path=f"{folder}/b.txt") == {"content": "wörld"}

    def test_a_refusal_of_the_server_is_an_error_with_its_message(self, files):
        result = files[0].call("files::read_text_file", path="/etc/passwd")
        assert result.error_info.code == "tool.execution_error" and "Access denied" in result.error

    def test_simulate_runs_only_read_tools(self, files):
        yard, folder = files
        read = ToolCall("files::read_text_file", {"path": f"{folder}/a.txt"})
        write = ToolCall("files::write_file", {"path": f"{folder}/c.txt", "content": "x"})
        seen, denied = yard.engine.simulate("s", [read, write])
        assert (seen.result, denied.error_info.code) == ({"content": "hello"}, "tool.denied")
        assert not (folder / "c.txt").exists()


@pytest.mark.soak  # another program of the same makers as the two above
def test_memory_returns_what_was_stored(tmp_path):
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    source = stdio_source("memory", npm_command("server-memory"), env=env)
    ann = {"name": "Ann", "entityType": "person", "observations": ["tall"]}
    with yard_of(source) as yard:
        assert len(yard.tools("memory")) == 9
        assert yard.value("memory::create_entities", entities=[ann]) == {"entities": [ann]}
    with yard_of(source) as again:
        assert again.value("memory::search_nodes", query="tall") == {"entities": [ann], "relations": []}


def test_time_speaks_the_newer_protocol_and_tells_its_errors():
    with yard_of(stdio_source("clock", pypi_command("mcp-server-time", "--local-timezone", "UTC"))) as yard:
        assert set(yard.tools("clock")) == {"get_current_time", "convert_time"}
        converted = yard.value("clock::convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
        assert converted["target"]["datetime"].endswith("21:00:00+09:00")
        wrong = yard.call("clock::get_current_time", timezone="No/Where")
        assert wrong.error_info.code == "tool.execution_error" and "No/Where" in wrong.error
        assert yard.code("clock::get_current_time") == "tool.invalid_args"


def test_git_commits_what_it_is_given(tmp_path):
    folder = make_repository(tmp_path / "repo")
    path = str(folder)
    with yard_of(stdio_source("git", pypi_command("mcp-server-git", "--repository", folder))) as yard:
        assert len(yard.tools("git")) == 12
        assert yard.tools("git")["git_reset"].effects is Effects.WRITE
        assert "the first commit" in yard.value("git::git_log", repo_path=path)
        (folder / "new").write_text("new\n")
        yard.value("git::git_add", repo_path=path, files=["new"])
        assert "new" in yard.value("git::git_diff_staged", repo_path=path)
        refused = yard.call("git::git_status", repo_path="/")
        assert refused.error_info.code == "tool.execution_error" and "outside" in refused.error


def test_desktop_config_gives_a_namespace_to_every_server(tmp_path):
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    files, memory = npm_command("server-filesystem", tmp_path), npm_command("server-memory")
    servers = {
        "files": {"command": files[0], "args": files[1:]},
        "memory": {"command": memory[0], "args": memory[1:], "env": env},
        "absent": {"command": str(tmp_path / "no-such-program")},
    }
    (tmp_path / "desktop.json").write_text(json.dumps({"mcpServers": servers}))
    with yard_of({"type": "mcp_config", "path": str(tmp_path / "desktop.json"), "connect_timeout": START}) as yard:
        assert (len(yard.tools("files")), len(yard.tools("memory"))) == (14, 9)
        assert "no-such-program" in str(yard.registry.report)
