"""What to paste elsewhere: one call in several languages, and this server in the settings of several clients."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from toolyard.dialects import get_dialect
from toolyard.dialects.wire_names import wire_names_of
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.console.form import pretty

_KEY_WORD = "TOOLYARD_KEY"


class Snippet(msgspec.Struct, frozen=True):
    """Text to copy, and where it belongs."""

    id: str
    label: str
    text: str
    where: str = ""
    """The file it goes to, or what it is, in a few words."""


def write_call_snippets(
    base_url: str, path: str, snapshot: Snapshot, tool: Tool, arguments: dict[str, Any], *, with_key: bool
) -> list[Snippet]:
    """The same call with curl, from Python, over MCP, and as OpenAI's models are told of it. `path` names the tool."""
    names = wire_names_of(snapshot)
    wire, openai = names.encode(tool), get_dialect("openai", [tool], names=names).format_tools([tool])
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": wire, "arguments": arguments}}
    return [
        Snippet("curl", "curl", _write_curl(f"{base_url}/v1/tools/{path}:invoke", {"args": arguments}, with_key)),
        Snippet("python", "Python", _write_python(base_url, tool.qualified_name, arguments, with_key)),
        Snippet("mcp", "MCP", pretty(message), f"a message to {base_url}/mcp"),
        Snippet("openai", "OpenAI", pretty(openai), "for the `tools` of a chat completion"),
    ]


def _write_curl(url: str, body: dict[str, Any], with_key: bool) -> str:
    lines = [f"curl {shlex.quote(url)}"]
    if with_key:
        lines.append(f'-H "Authorization: Bearer ${_KEY_WORD}"')
    lines.append("-H 'Content-Type: application/json'")
    lines.append(f"-d {shlex.quote(msgspec.json.encode(body).decode())}")
    return " \\\n  ".join(lines)


def _write_python(base_url: str, name: str, arguments: dict[str, Any], with_key: bool) -> str:
    key = f', api_key=os.environ["{_KEY_WORD}"]' if with_key else ""
    return "\n".join(
        [
            *(["import os", ""] if with_key else []),
            "from toolyard.client import RemoteToolRegistry",
            "",
            f"registry = RemoteToolRegistry({base_url!r}{key})",
            f"print(registry.dispatch({name!r}, {arguments!r}))",
        ]
    )
