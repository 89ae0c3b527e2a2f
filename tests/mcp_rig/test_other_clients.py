"""Our server, on every transport, as clients that nobody here wrote see it."""

import asyncio
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from warm_python import warm_toolyard

from conftest import SOAK
from mcp_rig import install
from mcp_rig.processes import HERE, START, new_mark, start_url_server, toolyard_command, wait_until_gone
from mcp_rig.real_servers import require_installed
from mcp_rig.sdk_client import connect, describe_process

pytestmark = pytest.mark.process

CONFIG = HERE / "table_yard.json"
WAYS = ("stdio", "http", "sse")
TOOLS = {
    f"table__{name}"
    for name in (
        *("give", "add", "record", "nothing", "later", "blocking", "fail", "away", "picky", "crash", "liar"),
        *("told", "show", "show_with_value", "say"),
    )
}
"""All that is listed: the policy denies `forbidden` to everybody."""
BLOCKS = ["text", "image", "audio", "resource_link", "resource", "resource"]


@pytest.fixture(scope="module")
def url():
    with start_url_server(toolyard_command("serve", CONFIG, "--port", "0")) as (found, _):
        yield found


def stdio():
    """A command that serves over its pipes."""
    return warm_toolyard().command("-m", "toolyard", "mcp", CONFIG)


def target(way, url):
    """What the client of the SDK takes for a server."""
    if way == "stdio":
        return describe_process(stdio())
    if way == "http":
        return f"{url}/mcp"
    from mcp.client.sse import sse_client

    return sse_client(f"{url}/sse")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("way", WAYS)
async def test_the_client_of_the_sdk(way, mode, url):
    """All it does, over one connection of each kind."""
    async with connect(target(way, url), mode=mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        await lists_and_calls(client)
        await hears_progress_before_the_answer(client)
        await sees_failures_as_results_with_a_code(client)
        await cancels_a_call_and_goes_on(client)
        await makes_many_calls_at_once(client)


async def lists_and_calls(client):
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(listed) == TOOLS
    assert listed["table__add"].input_schema["required"] == ["a"]
    assert listed["table__add"].output_schema is not None
    assert (await client.call_tool("table__add", {"a": 1})).structured_content == {"result": 2}
    shown = await client.call_tool("table__show", {})
    assert [block.type for block in shown.content] == BLOCKS


async def sees_failures_as_results_with_a_code(client):
    for name, arguments, code in [
        ("table__fail", {"words": "no"}, "tool.execution_error"),
        ("table__add", {"a": "x"}, "tool.invalid_args"),
        ("table__forbidden", {}, "tool.denied"),
        ("table__later", {"seconds": 30}, "tool.timeout"),
    ]:
        result = await client.call_tool(name, arguments)
        assert result.is_error and result.content
        assert json.loads(result.content[0].text)["error"]["code"] == code


async def hears_progress_before_the_answer(client):
    heard = []

    async def progress(done, total, message):
        heard.append((done, total, message))

    result = await client.call_tool("table__told", {}, progress_callback=progress)
    assert result.content[0].text == "told"
    assert heard == [(1, 2, "half"), (2, 2, None)]


async def cancels_a_call_and_goes_on(client):
    call = asyncio.create_task(client.call_tool("table__later", {"seconds": 30}))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await client.call_tool("table__add", {"a": 1, "b": 1})).structured_content == {"result": 2}


async def makes_many_calls_at_once(client):
    calls = [client.call_tool("table__add", {"a": number, "b": 1}) for number in range(40)]
    sums = [result.structured_content["result"] for result in await asyncio.gather(*calls)]
    assert sums == list(range(1, 41))


async def test_the_sdk_reads_every_page(tmp_path):
    from mcp_types import PaginatedRequestParams

    config = json.loads(CONFIG.read_text())
    config["tools"]["registry"][0]["target"] = str(HERE / "table_tools.py")
    config["server"]["mcp"] = {"page_size": 5}
    (tmp_path / "paged.json").write_text(json.dumps(config))
    command = toolyard_command("mcp", tmp_path / "paged.json")
    mark = new_mark()
    async with connect(describe_process(command, mark)) as client:
        names, cursor, pages = [], None, 0
        while True:
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            names += [tool.name for tool in page.tools]
            cursor, pages = page.next_cursor, pages + 1
            if cursor is None:
                break
    assert (set(names), len(names), pages) == (TOOLS, len(TOOLS), 3)
    await asyncio.to_thread(wait_until_gone, mark)


@pytest.mark.soak  # it is made of the client of the SDK, which the tests above have on every transport
@pytest.mark.parametrize("way", WAYS)
def test_fastmcp_lists_and_calls(way, url):
    python = require_installed(install.fastmcp)
    place = {"stdio": json.dumps(stdio()), "http": f"{url}/mcp", "sse": f"{url}/sse"}[way]
    done = subprocess.run(
        [python, HERE / "fastmcp_driver.py", place], capture_output=True, text=True, timeout=2 * START
    )
    assert done.returncode == 0, done.stderr[-3000:]
    got = json.loads(done.stdout.splitlines()[-1])
    assert set(got.pop("tools")) == TOOLS
    assert got == {
        "sum": {"result": 3},
        "told": "told",
        "heard": [[1, 2, "half"], [2, 2, None]],
        "shown": BLOCKS,
        "refused": got["refused"],
    }
    assert "no" in got["refused"]


RUNS = [*((way, "legacy") for way in WAYS), ("http", "modern"), ("stdio", "modern")]
# A call comes over what a list comes over, and the client of the SDK has tried all of that.
LISTS = [(way, era, "tools/list") for way, era in (RUNS if SOAK else RUNS[3:4])]
CALLS = [(way, era, "tools/call") for way, era in (RUNS if SOAK else RUNS[:1])]


@pytest.fixture(scope="module")
def inspected(url, tmp_path_factory):
    """What the inspector said, by transport, era and method; all at once, since it takes its time."""
    modules, folder = require_installed(install.packages), tmp_path_factory.mktemp("inspector")
    program = modules / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    servers = {
        "stdio": {"command": stdio()[0], "args": stdio()[1:]},
        "http": {"type": "http", "url": f"{url}/mcp"},
        "sse": {"type": "sse", "url": f"{url}/sse"},
    }
    (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    call = ["--tool-name", "table__record", "--tool-args-json", json.dumps(RECORD)]

    def ask(way, era, method):
        words = [
            "--cli",
            "--config",
            folder / "servers.json",
            "--server",
            way,
            "--protocol-era",
            era,
            "--format",
            "json",
        ]
        more = call if method == "tools/call" else ["--strict"]
        return subprocess.run(
            [install.node(), program, *words, "--method", method, *more],
            env={**os.environ, "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=3 * START,
        )

    with ThreadPoolExecutor(3) as pool:
        asked = {key: pool.submit(ask, *key) for key in (*LISTS, *CALLS)}
        return {key: done.result() for key, done in asked.items()}


RECORD = {"name": "n", "tags": ["a", "b"], "place": {"lat": 1.5}}


@pytest.mark.parametrize("run", LISTS)
def test_the_inspector_lists_and_finds_nothing_to_complain_about(inspected, run):
    done = inspected[run]
    assert done.returncode == 0, done.stderr
    assert {tool["name"] for tool in found(done)["tools"]} == TOOLS


@pytest.mark.parametrize("run", CALLS)
def test_the_inspector_calls(inspected, run):
    done = inspected[run]
    assert done.returncode == 0, done.stderr
    assert found(done)["structuredContent"] == RECORD


def found(done):
    """The result, whichever envelope it came in."""
    said = json.loads(done.stdout)
    return said.get("result", said)
