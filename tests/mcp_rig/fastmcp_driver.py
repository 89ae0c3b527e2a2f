"""Run by the python that has FastMCP: `fastmcp_driver.py TARGET`, a URL or the JSON of a command. Prints what it got."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError


async def main(target):
    if target.startswith("["):
        command, *args = json.loads(target)
        target = StdioTransport(command, args)
    heard = []

    async def progress(done, total, message):
        heard.append([done, total, message])

    async with Client(target) as client:
        tools = await client.list_tools()
        called = await client.call_tool("table__add", {"a": 1, "b": 2})
        told = await client.call_tool("table__told", {}, progress_handler=progress)
        shown = await client.call_tool("table__show", {})
        try:
            await client.call_tool("table__fail", {"words": "no"})
            refused = None
        except ToolError as error:
            refused = str(error)
    print(
        json.dumps(
            {
                "tools": [tool.name for tool in tools],
                "sum": called.structured_content,
                "told": told.content[0].text,
                "heard": heard,
                "shown": [block.type for block in shown.content],
                "refused": refused,
            }
        )
    )


asyncio.run(main(sys.argv[1]))
