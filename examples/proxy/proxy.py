"""Serves the tools of any MCP server with policy, tracing and limits; see `proxy.yaml`.

    python examples/proxy/proxy.py npx some-server --its --flags         out over stdio
    python examples/proxy/proxy.py --port 8000 https://example.com/mcp   out over HTTP, at /mcp

`--name` is the namespace of its tools, `server` if not given.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from toolyard.__main__ import main as toolyard

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write the server's entry in the format of desktop clients, and serve the config that reads it."""
    parser = argparse.ArgumentParser(description="Put toolyard between a client and an MCP server.")
    parser.add_argument("--name", default="server", help="what its tools are filed under")
    parser.add_argument("--port", help="serve over HTTP on this port, 0 for any, instead of over stdio")
    parser.add_argument("server", nargs=argparse.REMAINDER, help="a URL, or a command and its arguments")
    asked = parser.parse_args()
    if not asked.server:
        parser.error("name a server: a URL, or a command and its arguments")
    word, *rest = asked.server
    entry = {"url": word} if word.startswith(("http://", "https://")) else {"command": word, "args": rest}
    with tempfile.TemporaryDirectory() as folder:
        servers = Path(folder) / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {asked.name: entry}}))
        os.environ["PROXY_SERVERS"] = str(servers)
        way = ["mcp"] if asked.port is None else ["serve", "--port", asked.port]
        sys.argv = ["toolyard", way[0], str(HERE / "proxy.yaml"), *way[1:]]
        toolyard()


if __name__ == "__main__":
    main()
