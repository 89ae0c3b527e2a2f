"""The code and the promises of seed 000 (registry and loaders), with only the import path changed."""

from pathlib import Path

import pytest

from toolyard import (
    ConfigError,
    FileToolLoader,
    Tool,
    ToolCall,
    ToolLoader,
    ToolRegistry,
    ToolResult,
    get_tool_loader,
    register_tool_loader,
)
from toolyard.constants import TOOL_NAMESPACE_SEP

SHAPE_1 = """\
weather_api:
  - name: get_weather
    description: Get current weather for a location.
    parameters:
      type: object
      properties:
        location: {type: string}
      required: [location]
"""
SHAPE_2 = """\
- name: get_weather
  description: Get current weather for a location.
  parameters:
    type: object
    properties:
      location: {type: string}
    required: [location]
"""
SHAPE_3 = """\
get_weather:
  name: get_weather
  description: Get current weather for a location.
  parameters:
    type: object
    properties:
      location: {type: string}
    required: [location]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"tools.yaml": SHAPE_2, "weather.yaml": SHAPE_1, "hr.yaml": SHAPE_3}.items():
        (tmp_path / name).write_text(text)


def test_the_data_model_has_the_seeds_fields_and_defaults():
    tool = Tool(name="search", namespace="weather_api")
    assert (tool.description, tool.parameters, tool.output_parameters, tool.metadata) == ("", {}, {}, {})
    call = ToolCall(name="weather_api::search")
    assert (call.arguments, call.call_id) == ({}, None)
    result = ToolResult(call_id=None, name="weather_api::search")
    assert (result.result, result.error, result.metadata) == (None, None, {})


def test_single_file():
    registry = ToolRegistry.from_file("tools.yaml", namespace="weather_api")
    assert registry.get("weather_api::get_weather")[0].description == "Get current weather for a location."


def test_multiple_sources():
    registry = ToolRegistry.from_loaders(
        [
            FileToolLoader("weather.yaml", namespace="weather_api"),
            FileToolLoader("hr.yaml", namespace="hr_api"),
        ]
    )
    assert registry.namespaces() == ["hr_api", "weather_api"]


def test_direct_construction():
    registry = ToolRegistry([Tool(name="search", namespace="weather_api")])
    assert "weather_api::search" in registry


def test_the_separator_is_a_constant():
    assert TOOL_NAMESPACE_SEP == "::"
    assert Tool("get_weather", "weather_api").qualified_name == f"weather_api{TOOL_NAMESPACE_SEP}get_weather"


@pytest.mark.parametrize(("text", "namespace"), [(SHAPE_1, "weather_api"), (SHAPE_2, "default"), (SHAPE_3, "default")])
def test_the_three_shapes(tmp_path, text, namespace):
    (tmp_path / "x.yaml").write_text(text)
    registry = ToolRegistry.from_file("x.yaml")
    assert [t.qualified_name for t in registry] == [f"{namespace}::get_weather"]


def test_namespace_precedence_is_tool_then_argument_then_file(tmp_path):
    (tmp_path / "x.yaml").write_text(SHAPE_1 + "  - name: other\n    namespace: own\n")
    registry = ToolRegistry.from_file("x.yaml", namespace="argument")
    assert [t.qualified_name for t in registry] == ["argument::get_weather", "own::other"]


def test_identical_schemas_are_a_hard_error_and_different_ones_an_overload():
    one = {"type": "object", "properties": {"a": {"type": "string"}}}
    two = {"type": "object", "properties": {"b": {"type": "string"}}}
    with pytest.raises(
        ValueError, match="duplicate tool: weather_api::get_weather with identical input schema registered twice"
    ):
        ToolRegistry([Tool("get_weather", "weather_api", "", one), Tool("get_weather", "weather_api", "", one)])
    overloaded = ToolRegistry(
        [Tool("get_weather", "weather_api", "", one), Tool("get_weather", "weather_api", "", two)]
    )
    assert len(overloaded.get("weather_api::get_weather")) == 2
    ToolRegistry([Tool("get_weather", "a", "", one), Tool("get_weather", "b", "", one)])


def test_refresh_runs_the_loaders_again_then_the_enrichments():
    order = []

    class Stage:
        def enrich(self, snapshot):
            order.append("enrich")
            return snapshot.tools, {"embeddings": len(snapshot.tools)}

    class Loader(ToolLoader):
        def load(self):
            order.append("load")
            return [Tool("a", "ns")]

    registry = ToolRegistry.from_loaders([Loader()], enrichments=[Stage()])
    order.clear()
    registry.refresh()
    assert order == ["load", "enrich"]
    assert registry.artifacts["embeddings"] == 1


def test_loaders_are_registered_by_decorator():
    @register_tool_loader("seed_000_test")
    class Mine(ToolLoader):
        def __init__(self, namespace: str) -> None:
            self.namespace = namespace

        def load(self):
            return [Tool("a", self.namespace)]

    assert get_tool_loader("seed_000_test", namespace="x").load() == [Tool("a", "x")]
    assert isinstance(get_tool_loader("file", path="tools.yaml"), FileToolLoader)


def test_match_and_tool_names_can_be_held_to_namespaces():
    registry = ToolRegistry([Tool("search", "a"), Tool("search", "b"), Tool("look", "c")])
    call = ToolCall("b::search")
    assert registry.match(call).namespace == registry.match(call, namespaces=["a", "b"]).namespace == "b"
    assert registry.match(call, namespaces=["a"]) is None and registry.match(call, []) is None
    assert registry.tool_names(namespaces=["b", "c"]) == ["look", "search"]
    assert registry.tool_names("c") == registry.tool_names("a", namespaces=["c"]) == ["look"]
    with pytest.raises(TypeError, match="namespaces"):
        registry.match(call, namespaces="b")


def test_a_path_may_hold_variables_in_code_as_in_a_config(tmp_path, monkeypatch):
    monkeypatch.setenv("DGT_DATA_DIR", str(tmp_path))
    for path in ("${DGT_DATA_DIR}/tools.yaml", Path("${DGT_DATA_DIR}/tools.yaml"), "${NOT_SET:-.}/tools.yaml"):
        assert len(FileToolLoader(path, namespace="weather_api").load()) == 1
    assert len(ToolRegistry.from_file("${DGT_DATA_DIR}/weather.yaml")) == 1
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        FileToolLoader("${NOT_SET}/tools.yaml")
