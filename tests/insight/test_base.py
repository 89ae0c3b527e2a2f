"""Enrichments and samplers in a config: by name, in any order, with errors that say what to do; a bar for long work."""

import io
import json
import subprocess
import sys

import pytest

from toolyard import (
    ConfigError,
    EnrichmentError,
    SamplingError,
    Tool,
    ToolEnrichment,
    ToolRegistry,
    Toolyard,
    get_tool_enrichment,
    get_tool_sampler,
    register_tool_enrichment,
)
from toolyard.app.config import read_anything
from toolyard.app.schema import config_schema
from toolyard.app.toolyard import build_parts, build_registry, survey
from toolyard.insight import base
from toolyard.insight.cache import FILE
from toolyard.plugins import ENRICHMENTS, SAMPLERS, parameters_of

TOOLS = [
    {
        "name": "find_user_id",
        "description": "Find the user id by email.",
        "parameters": {"type": "object", "properties": {"email": {"type": "string"}}},
    },
    {
        "name": "get_user",
        "description": "Get the details of a user.",
        "parameters": {"type": "object", "properties": {"user_id": {"type": "string"}}, "required": ["user_id"]},
    },
    {
        "name": "get_weather",
        "description": "Get the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(tmp_path / "cache"))


def config(*enrichments, tools=TOOLS):
    return {
        "tools": {"registry": [{"type": "inline", "tools": tools, "namespace": "n"}], "enrichments": list(enrichments)}
    }


@register_tool_enrichment("test/lengths")
class Lengths(ToolEnrichment):
    """Counts letters."""

    reads = ("tool.output_parameters",)
    writes = ("lengths",)
    runs = 0

    def __init__(self, scale: int = 1) -> None:
        self.scale = scale

    def enrich(self, snapshot):
        type(self).runs += 1
        sizes = {tool.name: len(json.dumps(tool.output_parameters)) * self.scale for tool in snapshot.tools}
        return snapshot.tools, {"lengths": sizes}


@pytest.mark.parametrize("first", ["output_parameters", "test/lengths"])
def test_the_order_in_a_config_does_not_matter(first):
    both = sorted(("output_parameters", "test/lengths"), key=lambda name: name != first)
    with Toolyard.from_config(config(*({"type": name} for name in both))) as yard:
        assert min(yard.tool_registry.artifacts["lengths"].values()) > 2
        assert all(tool.output_parameters["x-inferred"] == "rules" for tool in yard.tool_registry)


def test_dataflow_follows_output_parameters_and_a_chain_is_drawn():
    pair = ({"type": "dataflow"}, {"type": "output_parameters", "lm_config": {"type": "schema"}})
    with Toolyard.from_config(config(*pair)) as yard:
        sampler = yard.sampler("tc/chain", k=2)
        sample = sampler.sample(seed=1)
        assert [tool.name for tool in sample] == ["find_user_id", "get_user"]
        assert sample.edges[0].feeds[0].parameter == "user_id"
        assert yard.sampler(type="tc/random", k=3).sample(seed=2).topology


def test_a_sampler_whose_artifact_is_missing_names_the_enrichment():
    registry = ToolRegistry([Tool("a", "n")])
    with pytest.raises(SamplingError, match="- type: dataflow"):
        get_tool_sampler("tc/chain", registry=registry, k=2).sample()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"type": "embedings"}, "did you mean 'embeddings'"),
        ({"type": "output_parameters", "lm_confg": {}}, "did you mean 'lm_config'"),
        ({"type": "output_parameters", "lm_config": {"type": "nobody"}}, "tools.enrichments[0]"),
        ({"type": "test/lengths", "scale": 2, "x": 1}, "no option 'x'"),
    ],
)
def test_an_invalid_entry_is_an_error_with_place_and_nearest_name(entry, says):
    with pytest.raises(ConfigError) as caught:
        Toolyard.from_config(config(entry))
    assert says in str(caught.value) and "tools.enrichments[0]" in str(caught.value)


def test_an_artifact_without_writer_is_refused_before_loading():
    @register_tool_enrichment("test/needy")
    class Needy(ToolEnrichment):
        reads = ("embeddings",)

        def enrich(self, snapshot):
            return snapshot.tools, {}

    gone = {
        "tools": {"registry": [{"type": "file", "path": "there-is-none.json"}], "enrichments": [{"type": "test/needy"}]}
    }
    for load in (survey, lambda document: build_parts(read_anything(document), lenient=True), build_registry):
        with pytest.raises(EnrichmentError, match="- type: embeddings"):
            load(gone)


def test_a_check_makes_enrichments_and_runs_none():
    Lengths.runs = 0
    registry, report = survey(config({"type": "test/lengths"}))
    assert len(registry) == 3 and report.ok and Lengths.runs == 0 and dict(registry.artifacts) == {}


def test_a_yard_of_several_sources_that_may_fail_runs_them_once():
    Lengths.runs = 0
    document = config({"type": "test/lengths"})
    document["tools"]["registry"] += [{"type": "inline", "tools": TOOLS, "namespace": name} for name in ("o", "p")]
    registry, engine, _ = build_parts(read_anything(document), lenient=True)
    with engine, registry:
        assert Lengths.runs == 1
        assert len(registry.artifacts["lengths"]) == 3
        registry.refresh()
        assert Lengths.runs == 2


def test_a_relative_cache_folder_is_resolved_against_the_config(tmp_path):
    folder = tmp_path / "yard"
    folder.mkdir()
    path = folder / "yard.json"
    path.write_text(json.dumps(config({"type": "output_parameters", "cache": "kept"})))
    with Toolyard.from_config(path) as yard:
        assert all(tool.output_parameters for tool in yard.tool_registry)
    assert (folder / "kept" / FILE).exists()
    path.write_text(json.dumps(config({"type": "output_parameters", "infer": "examples", "results": "tape.jsonl"})))
    (folder / "tape.jsonl").write_text('{"name": "n::get_weather", "result": {"degrees": 3}}\n')
    with Toolyard.from_config(path) as yard:
        assert yard.tool_registry.get("n::get_weather")[0].output_parameters["x-inferred"] == "examples"


def test_every_kind_is_in_the_schema_of_configs_with_its_options():
    items = config_schema()["properties"]["tools"]["anyOf"][0]["properties"]["enrichments"]["items"]
    assert {"dataflow", "embeddings", "neighbors", "output_parameters"} <= set(items["properties"]["type"]["enum"])
    options = {case["if"]["properties"]["type"]["const"]: case["then"]["properties"] for case in items["allOf"]}
    assert {"lm_config", "force", "infer", "results", "cache"} <= set(options["output_parameters"])
    assert {"model", "force"} <= set(options["embeddings"])
    assert {"model", "max_neighbors", "force"} <= set(options["dataflow"])
    assert {"model", "max_candidates", "max_neighbors", "duplicate_sim_thresh", "force"} <= set(options["neighbors"])


@pytest.mark.parametrize("table", [ENRICHMENTS, SAMPLERS], ids=["enrichments", "samplers"])
def test_every_name_of_the_tables_is_a_class(table):
    names = [name for name in table.names() if not name.startswith("test/")]
    assert len(names) >= (4 if table is ENRICHMENTS else 12)
    for name in names:
        assert isinstance(table.get(name), type), name
        assert table.get(name).__doc__, name


@pytest.mark.parametrize("name", ["dataflow", "embeddings", "neighbors", "output_parameters"])
def test_documented_options_keep_working(name):
    assert {"force", "cache"} <= set(parameters_of(ENRICHMENTS.get(name)))
    assert issubclass(ENRICHMENTS.get(name), ToolEnrichment)


def test_an_enrichment_is_made_by_its_name():
    assert get_tool_enrichment("test/lengths", scale=3).scale == 3
    with pytest.raises(ConfigError, match="did you mean 'scale'"):
        get_tool_enrichment("test/lengths", scal=3)


@pytest.mark.process
def test_importing_the_package_loads_no_heavy_module():
    code = (
        "import sys, toolyard; toolyard.ToolRegistry([toolyard.Tool('a', 'n')]); toolyard.Toolyard; "
        "print([m for m in ('numpy', 'onnxruntime', 'tokenizers', 'rich', 'snowballstemmer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_no_progress_bar_without_a_terminal_but_a_line_of_the_log_now_and_then(monkeypatch, caplog):
    out, now = io.StringIO(), [100.0]
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(base, "PROGRESS_DELAY", -1)
    monkeypatch.setattr(base.time, "monotonic", lambda: now[0])
    for item in base.track_progress(range(40), "weaving", 40):
        now[0] += 3.0
        assert len(caplog.messages) == sum(item >= number for number in (4, 25)), item
    assert caplog.messages == ["weaving: 10% done, about 108 s to go", "weaving: 62% done, about 45 s to go"]
    assert out.getvalue() == ""


def test_short_work_has_no_progress_bar(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(base, "PROGRESS_DELAY", 1000)
    assert list(base.track_progress(range(5), "work", 5)) == [0, 1, 2, 3, 4]
    assert out.getvalue() == ""


def test_long_work_has_a_progress_bar(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(base, "PROGRESS_DELAY", -1)
    assert list(base.track_progress(iter(range(5)), "weaving", 5)) == [0, 1, 2, 3, 4]
    assert "weaving" in out.getvalue()


def test_a_process_without_standard_error_works_too(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(base.track_progress([1], "work", 1)) == [1]
