"""The promises of seed 003 about domains, without a wire: how tools are defined, registered, found and validated."""

import subprocess
import sys

import pytest

from toolyard import DomainToolLoader, PythonToolEngine, Tool, ToolCall, ToolContext, ToolRegistry, function_tool
from toolyard.sources.domains import enabled_domains

DOMAIN = '''
from toolyard import Tool, function_tool

def greet(name: str) -> dict[str, str]:
    """Greet somebody."""
    return {"greeting": f"Hello, {name}!"}

def load_tools() -> list[Tool]:
    return [function_tool(greet, namespace="yard_seed_003", version="0.1.0", tags=["social"])]
'''


@pytest.fixture
def registry():
    return ToolRegistry.from_loaders([DomainToolLoader()])


@pytest.fixture
def engine(registry):
    with PythonToolEngine(registry) as made:
        made.setup("s")
        yield made


def test_each_domain_module_exports_load_tools():
    from toolyard.tools.core import load_tools

    tools = load_tools()
    assert isinstance(tools, list) and all(isinstance(tool, Tool) for tool in tools)
    assert "time_now" in [tool.name for tool in tools]


def test_a_definition_has_a_stable_name_a_short_description_a_version_and_a_json_schema(registry):
    for tool in registry:
        assert tool.name.isidentifier()
        assert tool.description
        assert tool.version == "0.1.0"
        assert tool.parameters["type"] == "object"
        assert tool.output_parameters["type"] == "object"


def test_the_planners_view_is_name_and_description(registry):
    view = [{"name": tool.name, "description": tool.description} for tool in registry]
    assert [item["name"] for item in view] == ["echo", "calc", "time_now"]
    assert all(len(item["description"]) < 300 for item in view)


def test_the_default_domain_is_core_and_the_environment_names_others(monkeypatch):
    monkeypatch.delenv("TOOL_REGISTRY_DOMAINS", raising=False)
    assert enabled_domains() == ("core",)
    monkeypatch.setenv("TOOL_REGISTRY_DOMAINS", "core,hr")
    assert enabled_domains() == ("core", "hr")


def test_a_domains_namespace_is_its_name(registry):
    assert registry.namespaces() == ["core"]
    assert registry.get("core::time_now")[0].qualified_name == "core::time_now"


@pytest.mark.process
def test_a_domain_of_ones_own_needs_no_patched_package(tmp_path):
    (tmp_path / "yard_seed_003.py").write_text(DOMAIN)
    done = subprocess.run(
        [sys.executable, "-m", "toolyard", "call", "greet", '{"name": "Ann"}'],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(tmp_path),
            "TOOL_REGISTRY_DOMAINS": "core,yard_seed_003",
            "PATH": "",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '"greeting": "Hello, Ann!"' in done.stdout


def test_one_bad_domain_does_not_stop_the_others():
    loader = DomainToolLoader("nope,core")
    assert len(ToolRegistry.from_loaders([loader])) == 3
    assert [item.where for item in loader.report.rejected] == ["domains:nope"]


def test_args_are_validated_against_the_tools_own_schema(engine):
    calls = [
        ToolCall("core::echo", {"text": "a"}),
        ToolCall("core::echo", {"text": ["a"]}),
        ToolCall("core::echo", {"text": "a", "more": 1}),
        ToolCall("core::nope", {}),
    ]
    codes = [result.error_info and result.error_info.code for result in engine.execute("s", calls)]
    assert codes == [None, "tool.invalid_args", "tool.invalid_args", "tool.not_found"]


def test_the_runtimes_demo_gets_what_it_reads(engine):
    now, product = engine.execute(
        "s", [ToolCall("core::time_now", {"tz": "UTC"}), ToolCall("core::calc", {"expression": "19*23"})]
    )
    assert sorted(now.result) == ["iso", "tz"]
    assert product.result == {"expression": "19*23", "value": 437}


def test_a_tool_of_a_domain_gets_the_context_of_the_call(tmp_path, monkeypatch):
    def who(ctx: ToolContext) -> str:
        """Tell who asks."""
        return ctx.context["user"]

    class Domain:
        @staticmethod
        def load_tools() -> list[Tool]:
            return [function_tool(who, namespace="yard_seed_ctx")]

    monkeypatch.setitem(sys.modules, "yard_seed_ctx", Domain)
    with PythonToolEngine(ToolRegistry.from_loaders([DomainToolLoader("yard_seed_ctx")])) as engine:
        engine.setup("s")
        result = engine.execute("s", [ToolCall("yard_seed_ctx::who")], context={"user": "ann"})[0]
        assert result.result == "ann"


@pytest.mark.parametrize(
    ("expression", "value"), [("9007199254740993", 9007199254740993), ("2**100", 2**100), ("7/2", 3.5)]
)
def test_calc_does_not_repeat_the_fault_of_turning_everything_into_floats(engine, expression, value):
    result = engine.execute("s", [ToolCall("core::calc", {"expression": expression})])[0].result["value"]
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    "expression", ["1e308*10", "(-1)**0.5", "9**99999", "9" * 4_000, "-" * 4_000 + "1", "-" * 5_000 + "1"]
)
def test_nor_that_of_failing_in_other_ways_than_an_execution_error(engine, expression):
    info = engine.execute("s", [ToolCall("core::calc", {"expression": expression})])[0].error_info
    assert (info.code, info.effect, info.retryable) == ("tool.execution_error", "none", False)


def test_nor_that_of_a_required_zone_with_a_default(engine):
    for arguments in ({}, {"tz": None}):
        assert engine.execute("s", [ToolCall("core::time_now", arguments)])[0].result["tz"] == "UTC"
