"""The proxy example, between a real server and a real client."""

import json
import sys

import pytest

from mcp_rig.processes import HERE, new_mark, start_url_server, wait_until_gone
from mcp_rig.real_servers import npm_command
from mcp_rig.sdk_client import connect, describe_process

pytestmark = pytest.mark.process

PROXY = HERE.parents[1] / "examples" / "proxy" / "proxy.py"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("hello")
    return tmp_path


async def what_a_client_sees(target, folder):
    """The same tools, read through, and refused where the policy says so."""
    files = folder / "files"
    async with connect(target) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        # Of 14, without the four that write, which the policy denies whatever is sent.
        assert len(listed) == 10 and "write_file" not in listed
        assert listed["read_text_file"].annotations.read_only_hint
        read = await client.call_tool("read_text_file", {"path": f"{files}/a.txt"})
        assert read.structured_content == {"content": "hello"} and not read.is_error
        outside = await client.call_tool("read_text_file", {"path": "/etc/passwd"})
        assert outside.is_error and "Access denied" in outside.content[0].text
        wrote = await client.call_tool("write_file", {"path": f"{files}/b.txt", "content": "x"})
        assert wrote.is_error and json.loads(wrote.content[0].text)["error"]["code"] == "tool.denied"
        assert not (files / "b.txt").exists()
    lines = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    assert [line["name"] for line in lines] == ["files::read_text_file", "files::read_text_file", "files::write_file"]
    return (folder / "trace.jsonl").read_text()


async def test_in_and_out_over_stdio(folder):
    mark = new_mark()
    env = {**mark, "PROXY_TRACE": str(folder / "trace.jsonl")}
    words = [sys.executable, str(PROXY), "--name", "files", *npm_command("server-filesystem", folder / "files")]
    traced = await what_a_client_sees(describe_process(words, env), folder)
    assert "hello" not in traced
    wait_until_gone(mark)


async def test_in_over_stdio_and_out_over_http(folder):
    mark = new_mark()
    env = {**mark, "PROXY_TRACE": str(folder / "trace.jsonl")}
    words = ["--name", "files", "--port", "0", *npm_command("server-filesystem", folder / "files")]
    with start_url_server([sys.executable, PROXY, *words], env) as (url, _):
        traced = await what_a_client_sees(f"{url}/mcp", folder)
    assert "hello" not in traced
    wait_until_gone(mark)


async def test_in_over_http_and_out_over_stdio(folder):
    """A proxy of a proxy: what one gives out, another takes in."""
    env = {"PROXY_TRACE": str(folder / "first.jsonl")}
    words = ["--name", "inner", "--port", "0", *npm_command("server-filesystem", folder / "files")]
    with start_url_server([sys.executable, PROXY, *words], env) as (url, _):
        outer = [sys.executable, str(PROXY), "--name", "outer", f"{url}/mcp"]
        own = {"PROXY_TRACE": str(folder / "second.jsonl")}
        async with connect(describe_process(outer, own)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert "read_text_file" in tools
            read = await client.call_tool("read_text_file", {"path": f"{folder}/files/a.txt"})
            assert read.structured_content == {"content": "hello"}
    assert "inner::read_text_file" in (folder / "first.jsonl").read_text()
