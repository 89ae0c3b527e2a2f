"""`namespaces: locked` holds for every source: no entry takes tools out of the namespace that the operator gave."""

import json

import pytest
from script_folder import Folder, script

from sources.rest.documents import document
from toolyard import (
    ConfigError,
    DomainToolLoader,
    FileToolLoader,
    FilterToolLoader,
    MCPConfigToolLoader,
    MCPToolLoader,
    RenameToolLoader,
    RESTToolLoader,
    ToolRegistry,
    Toolyard,
)
from toolyard.links.mcp import Listing
from toolyard.model.errors import MalformedSource
from toolyard.scripts import ScriptToolLoader


def reasons(loader):
    return [item.reason for item in loader.report.rejected]


def test_a_tool_of_an_mcp_server_that_names_another_namespace_is_refused():
    loader = MCPToolLoader(command="never-started", namespace="raw", namespaces="locked")
    tools = [{"name": "own", "inputSchema": {}}, {"name": "send", "inputSchema": {}, "namespace": "bank"}]
    assert [tool.qualified_name for tool in loader._admit_tools(Listing(tools=tools, complete=True, notes=[]))] == [
        "raw::own"
    ]
    assert "claims the namespace 'bank'" in reasons(loader)[0]


@pytest.mark.parametrize("given", ["time", ["time", "wiki"]])
def test_a_server_of_a_file_that_has_another_name_is_refused_and_never_started(tmp_path, given):
    path = tmp_path / "desktop.json"
    path.write_text(json.dumps({"mcpServers": {"bank": {"command": "never-started"}}}))
    loader = MCPConfigToolLoader(path, namespace=given, namespaces="locked")
    assert loader.load() == [] and loader.servers == {}
    assert "claims the namespace 'bank'" in reasons(loader)[0]
    with pytest.raises(MalformedSource, match="bank"):
        MCPConfigToolLoader(path, namespace=given, namespaces="locked", on_error="raise").load()
    with pytest.raises(ConfigError, match="needs a namespace"):
        MCPConfigToolLoader(path, namespaces="locked")


def test_a_tool_of_a_domain_that_names_another_namespace_is_refused_instead_of_moved(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "claiming_domain.py").write_text(
        "from toolyard import Tool\n"
        "def load_tools():\n"
        "    return [Tool('a', 'bank'), Tool('b', 'default'), Tool('c', 'claiming_domain')]\n"
    )
    assert [tool.name for tool in DomainToolLoader("claiming_domain").load()] == ["a", "b", "c"]
    locked = DomainToolLoader("claiming_domain", namespaces="locked")
    assert [tool.qualified_name for tool in locked.load()] == ["claiming_domain::b", "claiming_domain::c"]
    assert "claims the namespace 'bank'" in reasons(locked)[0]


@pytest.mark.process
def test_a_script_that_names_another_namespace_is_refused(tmp_path):
    folder = Folder(tmp_path / "tools")
    folder.put("a.py", script("a"))
    folder.put("b.py", script("b") + "\nTOOL_NAMESPACE = 'bank'\n")
    folder.allow("a.py", "b.py")
    loader = ScriptToolLoader(folder.path, "mine", namespaces="locked")
    assert [tool.qualified_name for tool in loader.load()] == ["mine::a"]
    assert "claims the namespace 'bank'" in reasons(loader)[0]


def test_wrappers_keep_the_lock_of_what_they_wrap(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"name": "own"}, {"name": "send", "namespace": "bank"}]))
    inner = FileToolLoader(path, "mine", namespaces="locked", on_error="skip")
    for loader in (FilterToolLoader(inner, include=["*"]), RenameToolLoader(inner, {"own": "kept"})):
        registry = ToolRegistry.from_loaders([loader])
        assert registry.namespaces() == ["mine"]
        assert "claims the namespace 'bank'" in registry.report.rejected[0].reason


def test_every_source_takes_the_option_in_a_config(tmp_path):
    (tmp_path / "api.json").write_text(json.dumps(document()))
    assert [tool.namespace for tool in RESTToolLoader(tmp_path / "api.json", "api", namespaces="locked").load()] == [
        "api"
    ]
    entries = [
        {"type": "rest", "spec": str(tmp_path / "api.json"), "namespace": "api", "namespaces": "locked"},
        {"type": "domains", "domains": ["core"], "namespaces": "locked"},
    ]
    with Toolyard.from_config({"tools": entries}) as yard:
        assert yard.tool_registry.namespaces() == ["api", "core"]
    entries[0]["namespaces"] = "lokced"
    with pytest.raises(ConfigError, match="locked"):
        Toolyard.from_config({"tools": entries})
