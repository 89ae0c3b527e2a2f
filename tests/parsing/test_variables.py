"""`${VAR}` in a place that code gives: every source and engine that takes one reads it as a config would."""

import json

import pytest

from toolyard import (
    ConfigError,
    FileToolLoader,
    MCPToolLoader,
    PythonToolLoader,
    ReplayToolEngine,
    RESTToolLoader,
    ScriptToolLoader,
    SqliteStore,
    ToolRegistry,
    Toolyard,
)
from toolyard.plugins import get_tool_loader
from toolyard.scripts import append_tool_manifest, load_tool_manifest_allowlist, load_tools

SPEC = {"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"get": {"operationId": "a"}}}}
TAKERS = [
    lambda place: FileToolLoader(f"{place}/catalog.json").load(),
    lambda place: RESTToolLoader(f"{place}/spec.json").load(),
    lambda place: PythonToolLoader(f"{place}/functions.py").load(),
    lambda place: ScriptToolLoader(f"{place}/scripts").load(),
    lambda place: get_tool_loader("mcp_config", path=f"{place}/servers.json").load(),
    lambda place: ReplayToolEngine(ToolRegistry(), cassette=f"{place}/tape.jsonl").close(),
    lambda place: RESTToolLoader("spec.json", base_url=f"http://service.example{place}"),
    lambda place: MCPToolLoader(f"http://service.example{place}", namespace="n"),
    lambda place: MCPToolLoader("http://service.example", namespace="n", approved=f"{place}/approved.json"),
    lambda place: SqliteStore(f"{place}/sessions.db").close(),
    lambda place: Toolyard.from_config(f"{place}/catalog.json").close(),
    lambda place: load_tools(f"{place}/scripts", ToolRegistry()),
    lambda place: load_tool_manifest_allowlist(f"{place}/scripts"),
    lambda place: append_tool_manifest("a.py", f"{place}/scripts"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "catalog.json").write_text('[{"name": "a"}]')
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    (tmp_path / "functions.py").write_text("from toolyard import tool\n@tool\ndef a() -> int:\n    return 1\n")
    (tmp_path / "servers.json").write_text('{"mcpServers": {}}')
    (tmp_path / "tape.jsonl").write_text("")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/_manifest.json").write_text('{"allow": []}')
    monkeypatch.setenv("YARD_PLACE", str(tmp_path))


@pytest.mark.parametrize("take", TAKERS)
def test_variables_in_a_path_are_replaced_and_an_unset_one_is_an_error(folder, take):
    take("${YARD_PLACE}")
    with pytest.raises(ConfigError, match="YARD_NOWHERE is not set"):
        take("${YARD_NOWHERE}")
