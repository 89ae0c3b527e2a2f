"""`output_parameters`: who gets an output schema, from where, and what it costs."""

import pytest

from toolyard import ConfigError, EnrichmentError, OutputParametersEnrichment, Tool, ToolRegistry
from toolyard.insight.cache import FILE, ItemCache

PLAIN = {"type": "object", "properties": {"city": {"type": "string"}}}
KNOWN = {"type": "object", "properties": {"x": {"type": "string"}}}


def some(count):
    return [Tool(f"get_area_{n}", "n", "Get the area of a city.", PLAIN) for n in range(count)]


def test_tools_with_an_output_schema_are_left_alone():
    known = Tool("known", "n", "Get the area.", PLAIN, KNOWN)
    registry = ToolRegistry([known, *some(1)], enrichments=[OutputParametersEnrichment(cache=False)])
    assert registry.get("n::known")[0].output_parameters == KNOWN
    assert registry.get("n::get_area_0")[0].output_parameters == {
        "type": "object",
        "properties": {"area": {"type": "number", "description": "The area."}},
        "x-inferred": "rules",
    }


@pytest.mark.parametrize("options", [{}, {"lm_config": {"type": "schema"}}, {"infer": "rules"}])
def test_without_a_model_rules_are_used(options):
    registry = ToolRegistry(some(1), enrichments=[OutputParametersEnrichment(cache=False, **options)])
    assert next(iter(registry)).output_parameters["x-inferred"] == "rules"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"infer": "magic"}, "must be 'rules' or 'examples'"),
        ({"infer": "examples"}, "add results"),
        ({"results": []}, "add infer: examples"),
        ({"lm_config": {"type": "schema", "seed": 3}}, "no option 'seed'"),
        ({"lm_config": {"type": "opnai"}}, "did you mean 'openai'"),
        ({"lm_config": {"type": "openai"}}, "needs 'model_id_or_path'"),
        ({"infer": "rules", "lm_config": {"type": "openai", "model_id_or_path": "m"}}, "asks no model"),
        ({"cache": 5}, "a folder or false"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_it_is_made(options, says):
    with pytest.raises(ConfigError) as caught:
        OutputParametersEnrichment(**options)
    assert says in str(caught.value)


def test_one_new_tool_is_computed_alone_and_force_computes_all(tmp_path, monkeypatch):
    from toolyard.insight.outputs import rules

    computed = []
    real = rules.output_schema

    def counting(tool):
        computed.append(tool.name)
        return real(tool)

    # A counter, not a stand-in: what it counts is what really runs.
    monkeypatch.setattr(rules, "output_schema", counting)
    ToolRegistry(some(50), enrichments=[OutputParametersEnrichment(cache=tmp_path)])
    assert len(computed) == 50
    ToolRegistry(some(51), enrichments=[OutputParametersEnrichment(cache=tmp_path)])
    assert computed[50:] == ["get_area_50"]
    ToolRegistry(some(3), enrichments=[OutputParametersEnrichment(cache=tmp_path, force=True)])
    assert len(computed) == 54


def test_a_registry_that_grows_computes_the_new_tool_alone_even_without_a_cache(monkeypatch):
    from toolyard.insight.outputs import rules

    computed = []
    real = rules.output_schema
    monkeypatch.setattr(rules, "output_schema", lambda tool: (computed.append(tool.name), real(tool))[1])
    registry = ToolRegistry(some(20), enrichments=[OutputParametersEnrichment(cache=False)])
    before = registry.snapshot.candidates
    registry.add(Tool("get_price", "n", "Get the price."))
    assert computed[20:] == ["get_price"]
    assert registry.snapshot.candidates[:20] == before


def test_no_cache_is_written_if_no_tool_lacks_a_schema(tmp_path):
    ToolRegistry([Tool("known", "n", "", PLAIN, KNOWN)], enrichments=[OutputParametersEnrichment(cache=tmp_path)])
    assert not (tmp_path / FILE).exists()


def test_a_damaged_cache_is_recomputed(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a database at all" * 100)
    registry = ToolRegistry(some(2), enrichments=[OutputParametersEnrichment(cache=tmp_path)])
    assert all(one.output_parameters for one in registry)


def test_equal_tools_in_several_namespaces_share_cache_entries(tmp_path):
    pair = [some(1)[0], some(1)[0].replace(namespace="m", tags=("x",), metadata={"a": 1})]
    ToolRegistry(pair, enrichments=[OutputParametersEnrichment(cache=tmp_path)])
    import sqlite3

    db = sqlite3.connect(ItemCache(tmp_path).path)
    assert db.execute("SELECT count(*) FROM items").fetchone() == (1,)
    db.close()


def test_an_inferred_output_that_cannot_be_written_out_is_refused_by_name():
    registry = ToolRegistry([Tool(f"tool_{number}", "ns") for number in range(5)])
    recorded = [{"name": "ns::tool_3", "result": {"\ud83d": 1}}]
    with pytest.raises(EnrichmentError, match=r"output_parameters of ns::tool_3: .*surrogates"):
        registry.enrich(OutputParametersEnrichment(infer="examples", results=recorded, cache=False))
    assert not registry.get("ns::tool_3")[0].output_parameters
