"""Where toolyard does something else than a seed says, on purpose: README.md in this folder gives the reasons."""

import sys

import pytest

from toolyard import (
    ConfigError,
    PythonToolEngine,
    SessionError,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolResult,
    Toolyard,
    function_tool,
)
from toolyard.model.report import SourceReport
from toolyard.scripts import load_tools


def buy(what: str) -> str:
    """Buy something."""
    return what


@pytest.fixture
def registry():
    return ToolRegistry([function_tool(buy, namespace="shop")])


@pytest.mark.parametrize(
    ("value", "field"),
    [(Tool("a", "n"), "description"), (ToolCall("n::a"), "call_id"), (ToolResult("c", "n::a"), "error")],
)
def test_tools_calls_and_results_are_frozen(value, field):
    with pytest.raises(AttributeError):
        setattr(value, field, "x")


def test_artifacts_are_read_only(registry):
    with pytest.raises(TypeError):
        registry.artifacts["mine"] = 1


def test_an_engine_accepts_a_bare_name_that_one_namespace_has(registry):
    with PythonToolEngine(registry) as engine:
        engine.setup("s")
        assert engine.execute("s", [ToolCall("buy", {"what": "tea"})])[0].result == "tea"


def test_session_ids_are_any_text_that_every_store_can_keep(registry):
    with PythonToolEngine(registry) as engine:
        for session_id in ("a/b\n", "é" * 10_000, "::", " "):
            engine.setup(session_id)
            assert engine.get_session_state(session_id) == {"tool_executions": []}
        for session_id in ("", "a\0b", None, 5):
            with pytest.raises(SessionError):
                engine.setup(session_id)


def test_what_a_databuilder_sets_is_no_key_of_a_config():
    with pytest.raises(ConfigError, match="max_concurrent_conversations"):
        Toolyard.from_config({"tools": {"registry": []}, "max_concurrent_conversations": 1})


@pytest.mark.process
def test_loading_scripts_tells_what_came_of_them_and_plants_no_module(tmp_path):
    (tmp_path / "greet.py").write_text(
        "TOOL_NAME = 'greet'\nTOOL_DESCRIPTION = 'Greet.'\nTOOL_PARAMETERS = {}\nasync def run():\n    return 'hello'\n"
    )
    (tmp_path / "_manifest.json").write_text('{"allow": ["greet.py"]}')
    with ToolRegistry() as registry:
        report = load_tools(tmp_path, registry)
        assert isinstance(report, SourceReport) and report.loaded == 1
        assert not hasattr(registry, "_tools") and "tools.greet" not in sys.modules
