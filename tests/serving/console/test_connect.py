"""The Connect screen: what it offers can be read by whom it is for, and names this server and no secret."""

import ast
import json
import tomllib

import pytest

from serving.console.page_app import sign_in
from serving.service_support import CORE, served
from toolyard.app.blocks import McpBlock
from toolyard.serving.console.connect import write_client_snippets


def clients_of(client):
    return {one["id"]: one["text"] for one in client.get("/console/connect.json").json()["clients"]}


def test_every_client_is_told_the_address_of_this_server_in_its_own_format(browse):
    with served(CORE, page=True) as yard:
        found = clients_of(browse(yard))
        url = f"{yard.url}/mcp"
    assert json.loads(found["claude-desktop"])["mcpServers"]["toolyard"]["args"][-1] == url
    assert json.loads(found["cursor"])["mcpServers"]["toolyard"] == {"url": url}
    assert json.loads(found["vscode"])["servers"]["toolyard"] == {"type": "http", "url": url}
    assert json.loads(found["gemini"])["mcpServers"]["toolyard"] == {"httpUrl": url}
    assert tomllib.loads(found["codex"])["mcp_servers"]["toolyard"] == {"url": url}
    assert found["claude-code"] == f"claude mcp add --transport http toolyard {url}"
    for language in ("python", "openai"):
        ast.parse(found[language])
        assert yard.url in found[language]


@pytest.mark.parametrize(
    ("url", "allowed"),
    [("http://tools.example.org", True), ("https://tools.example.org", False), ("http://[::1]:8000", False)],
)
def test_the_bridge_is_allowed_plain_http_where_the_server_has_nothing_else(url, allowed):
    [desktop] = [one for one in write_client_snippets(url, with_key=True, with_mcp=True) if one.id == "claude-desktop"]
    assert ("--allow-http" in json.loads(desktop.text)["mcpServers"]["toolyard"]["args"]) == allowed


def paste(program):
    names = {}
    exec(program, names)
    names["registry"].close()


def test_the_python_snippets_run(browse, capsys):
    with served(CORE, page=True) as yard:
        client = browse(yard)
        found = clients_of(client)
        for _ in range(2):
            paste(found["python"])
            assert "core::echo" in capsys.readouterr().out
        [call] = [
            one for one in client.get("/console/tools/core::echo.json").json()["snippets"] if one["id"] == "python"
        ]
        paste(call["text"])
        url = found["curl"].partition("'")[2].rstrip("'")
        assert url.startswith(yard.url) and yard.get(url.removeprefix(yard.url)).json["tools"]
        listing = yard.get("/v1/tools?format=openai&limit=20").json
        assert 'params={"format": "openai", "limit": 20}' in found["openai"] and listing["tools"] and listing["names"]


def test_where_a_key_is_needed_it_is_named_and_never_written(tmp_path, browse):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "yard.db")}}
    with served(config, page=True) as yard:
        token = yard.key("*:*")
        client = browse(yard)
        sign_in(client, token)
        found = clients_of(client)
    assert all("TOOLYARD_KEY" in text or "Bearer" in text for text in found.values())
    assert not any(token in text for text in found.values())
    assert tomllib.loads(found["codex"])["mcp_servers"]["toolyard"]["bearer_token_env_var"] == "TOOLYARD_KEY"
    for name in ("claude-desktop", "cursor", "vscode", "gemini"):
        json.loads(found[name])
    for language in ("python", "openai"):
        ast.parse(found[language])


@pytest.mark.parametrize(("enabled", "offered"), [(True, True), (False, False)])
def test_without_mcp_no_settings_of_mcp_clients_are_shown(browse, enabled, offered):
    with served(CORE, page=True, mcp=McpBlock(enabled=enabled)) as yard:
        found = clients_of(browse(yard))
    assert ("cursor" in found) == offered and {"curl", "python", "openai"} <= set(found)
