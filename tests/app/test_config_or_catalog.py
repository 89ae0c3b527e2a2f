"""A config is told from a catalog by what is meant, so that a misspelt key cannot drop a policy."""

import pytest

from toolyard import ConfigError, Toolyard
from toolyard.app import build_registry
from toolyard.app.blocks import is_config

SOURCES = [{"type": "file", "path": "x.yaml"}]


@pytest.mark.parametrize(
    "document",
    [
        {"tools": {"registry": []}},
        {"tools": SOURCES},
        {"tools": []},
        {"tools": [{"typ": "python", "target": "x.py"}]},
        {"tools": "my_tools.py"},
        {"tools": None},
        {"tools": ["my_tools.py"]},
        {"tools": ["my_tools.py", *SOURCES]},
        {"tools": [*SOURCES, {"path": "y.yaml"}]},
        {"tools": {"registrry": []}},
        {"tools": {"engines": {"a": {"type": "python"}}}},
        {"tools": {"engins": {"a": {"type": "python"}}}},
        {"tool": {"registry": SOURCES}},
        {"tool": SOURCES},
        {"Tools": {"registry": SOURCES}},
        {"tool": {"registry": SOURCES}, "policy": {"default": "deny"}},
        {"toolz": {"things": SOURCES}, "policy": {"default": "deny"}},
        {"policy": {"default": "deny"}},
        {"polcy": {"default": "deny"}},
        {"session": {"store": "sqlite"}, "tools": [{"name": "a"}]},
        {"servr": {"port": 80}},
    ],
)
def test_a_config_is_one_however_its_keys_are_spelt(document):
    assert is_config(document)


@pytest.mark.parametrize(
    "document",
    [
        None,
        3,
        [{"name": "a"}],
        {"tools": [{"name": "a"}]},
        {"tools": [{"types": [], "parameters": {}}]},
        {"tools": [{"type": "function", "function": {"name": "a"}}]},
        {"tools": {"a": {"description": "x"}}},
        {"tools": {"registry": {"description": "a tool"}, "engine": {"parameters": {}}}},
        {"namespace": "n", "tools": [{"name": "a"}]},
        {"name": "server", "server": {"port": 1}},
        {"a": [{"name": "b"}]},
        {"policy": [{"name": "x"}], "server": [], "tool": [{"name": "y"}]},
        {"policy": {"description": "Find a policy."}, "server": {"parameters": {"type": "object"}}},
        {"policy": {"find": {"name": "find"}, "drop": {"description": "Drop it."}}},
        {"tracking": {"description": "Where is it?"}, "service": {"effects": "read"}},
        {"session": {}, "get": {}},
        {"query": "q", "tools": '[{"name": "a"}]'},
        {"query": "q", "tools": ['{"name": "a"}']},
        {"tools": [{"type": "file_search"}, {"type": "function", "function": {"name": "a"}}]},
    ],
)
def test_a_catalog_stays_one_whatever_its_namespaces_are_called(document):
    assert not is_config(document)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tool:\n  registry: [{type: inline, tools: []}]\npolicy:\n  default: deny\n", "did you mean 'tools'"),
        ("tools: {engines: {a: {type: python}}}", "tools.registry must be a list"),
        ("tools: {registri: []}", "did you mean 'registry'"),
    ],
)
def test_a_misspelt_file_is_refused_and_never_loaded_as_tools(tmp_path, text, says):
    path = tmp_path / "yard.yaml"
    path.write_text(text)
    for read in (Toolyard.from_config, build_registry):
        with pytest.raises(ConfigError, match=says):
            read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_json_lines_are_a_catalog_whatever_the_file_is_called(tmp_path, encoding):
    path = tmp_path / "tools.json"
    path.write_text('{"name": "x"}\n{"name": "y"}\n', encoding)
    assert [tool.name for tool in build_registry(path)] == ["x", "y"]


def test_a_catalog_with_a_namespace_called_policy_loads(tmp_path):
    path = tmp_path / "tools.yaml"
    path.write_text("policy: [{name: x}]\nserver: [{name: y}]\n")
    assert [tool.qualified_name for tool in build_registry(path)] == ["policy::x", "server::y"]
