"""The Connect screen, and snippets to copy: client settings for this server, and one call in several languages."""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from toolyard.dialects import get_dialect
from toolyard.dialects.wire_names import wire_names_of
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.console.form import indent_json
from toolyard.serving.middleware import is_loopback
from toolyard.serving.routing import base_url
from toolyard.serving.service import Service

_KEY_WORD = "TOOLYARD_KEY"


class Snippet(msgspec.Struct, frozen=True):
    """Text to copy, and where to paste it."""

    id: str
    label: str
    text: str
    where: str = ""
    """The file or place to paste it into."""


async def show_clients(service: Service, request: Request) -> dict[str, Any]:
    """`GET /console/connect`: the address of this server, and settings for clients."""
    url, needs_key = base_url(request, service.block.public_url), service.keys.required
    with_mcp = service.block.mcp.enabled
    clients = write_client_snippets(url, with_key=needs_key, with_mcp=with_mcp)
    return {"url": url, "mcp_url": f"{url}/mcp" if with_mcp else None, "needs_key": needs_key, "clients": clients}


def write_call_snippets(
    url: str, path: str, snapshot: Snapshot, tool: Tool, arguments: dict[str, Any], *, with_key: bool
) -> list[Snippet]:
    """One call with curl, from Python, over MCP, and as an OpenAI tool definition. `path` is the tool's URL path."""
    names = wire_names_of(snapshot)
    wire, openai = names.encode(tool), get_dialect("openai", [tool], names=names).format_tools([tool])
    call = f"print(registry.dispatch({tool.qualified_name!r}, {arguments!r}))"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": wire, "arguments": arguments}}
    return [
        Snippet("curl", "curl", _write_curl(f"{url}/v1/tools/{path}:invoke", {"args": arguments}, with_key)),
        Snippet("python", "Python", _write_python(url, call, with_key)),
        Snippet("mcp", "MCP", indent_json(message), f"what an MCP client sends to {url}/mcp, once it is connected"),
        Snippet("openai", "OpenAI", indent_json(openai), "for the `tools` of a chat completion"),
    ]


def _write_curl(url: str, body: dict[str, Any], with_key: bool) -> str:
    lines = [f"curl {shlex.quote(url)}"]
    if with_key:
        lines.append(f'-H "Authorization: Bearer ${_KEY_WORD}"')
    lines.append("-H 'Content-Type: application/json'")
    lines.append(f"-d {shlex.quote(msgspec.json.encode(body).decode())}")
    return " \\\n  ".join(lines)


def _write_python(url: str, rest: str, with_key: bool) -> str:
    """Python that connects to a server, with the key from the environment if `with_key`, followed by `rest`."""
    key = f', api_key=os.environ["{_KEY_WORD}"]' if with_key else ""
    imports = ("import os\n\n" if with_key else "") + "from toolyard.client import RemoteToolRegistry"
    return f"{imports}\n\nregistry = RemoteToolRegistry({url!r}{key})\n{rest}"


def write_client_snippets(url: str, *, with_key: bool, with_mcp: bool) -> list[Snippet]:
    """Settings and programs by which clients use this server's tools; they reference the key and never contain it."""
    authorized = f' -H "Authorization: Bearer ${_KEY_WORD}"' if with_key else ""
    use = "for tool in registry.all_tools():\n    print(tool.qualified_name, tool.parameters)\n"
    use += "# registry.dispatch(name, arguments) calls one of them."
    return [
        *(_write_mcp_clients(f"{url}/mcp", with_key) if with_mcp else ()),
        Snippet("curl", "curl", f"curl{authorized} '{url}/v1/tools?limit=5'", "a shell"),
        Snippet("python", "Python", _write_python(url, use, with_key), "a program with toolyard installed"),
        Snippet("openai", "OpenAI", _write_openai_loop(url, with_key), "a program with openai and httpx"),
    ]


def _write_mcp_clients(url: str, with_key: bool) -> list[Snippet]:
    def server(bearer: str, **more: Any) -> dict[str, Any]:
        return {**more, **({"headers": {"Authorization": f"Bearer {bearer}"}} if with_key else {})}

    def servers(entry: dict[str, Any], word: str = "mcpServers") -> dict[str, Any]:
        return {word: {"toolyard": entry}}

    bridge: dict[str, Any] = {"command": "npx", "args": ["-y", "mcp-remote", url]}
    if url.startswith("http://") and not is_loopback(urlsplit(url).hostname or ""):
        # Without it, the bridge refuses plain HTTP to another machine.
        bridge["args"].append("--allow-http")
    if with_key:
        # Clients split arguments with spaces differently, so the space is inside the variable.
        bridge["args"] += ["--header", "Authorization:${AUTHORIZATION}"]
        bridge |= {"env": {"AUTHORIZATION": "Bearer ty_..."}}
    code = servers(server("${input:toolyard-key}", type="http", url=url), "servers")
    if with_key:
        asked = {"type": "promptString", "id": "toolyard-key", "description": "API key of toolyard", "password": True}
        code = {"inputs": [asked], **code}
    gemini = server(f"${_KEY_WORD}", httpUrl=url)
    cursor = servers(server(f"${{env:{_KEY_WORD}}}", url=url))
    header = f' --header "Authorization: Bearer ${_KEY_WORD}"' if with_key else ""
    codex = f'[mcp_servers.toolyard]\nurl = "{url}"' + (f'\nbearer_token_env_var = "{_KEY_WORD}"' if with_key else "")
    return [
        Snippet("claude-desktop", "Claude Desktop", indent_json(servers(bridge)), "claude_desktop_config.json"),
        Snippet("claude-code", "Claude Code", f"claude mcp add --transport http toolyard {url}{header}", "a shell"),
        Snippet("cursor", "Cursor", indent_json(cursor), "~/.cursor/mcp.json"),
        Snippet("vscode", "VS Code", indent_json(code), ".vscode/mcp.json"),
        Snippet("codex", "Codex", codex, "~/.codex/config.toml"),
        Snippet("gemini", "Gemini CLI", indent_json(servers(gemini)), "~/.gemini/settings.json"),
    ]


def _write_openai_loop(url: str, with_key: bool) -> str:
    headers = f', headers={{"Authorization": "Bearer " + os.environ["{_KEY_WORD}"]}}' if with_key else ""
    imports = "import json\nimport os\n" if with_key else "import json\n"
    return f"""{imports}
import httpx
import openai

yard = httpx.Client(base_url={url!r}{headers})
found = yard.get("/v1/tools", params={{"format": "openai", "limit": 20}}).json()
messages = [{{"role": "user", "content": "..."}}]
answer = openai.OpenAI().chat.completions.create(model="gpt-5", messages=messages, tools=found["tools"])
for call in answer.choices[0].message.tool_calls or []:
    body = {{"args": json.loads(call.function.arguments)}}
    name = found["names"][call.function.name]
    print(yard.post(f"/v1/tools/{{name}}:invoke", json=body).json())"""
