"""The lm engine out of a config: the seed's own, and what surrounds it."""

import json
import socket

import pytest
from links.lm.model_server import ModelServer
from waiting import until

from engines.lm.support import GOOD, SYSTEM, WEATHER, user
from toolyard.app.toolyard import Toolyard
from toolyard.engines.lm import LMToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.errors import ConfigError
from toolyard.registry import ToolRegistry

OLLAMA_PORT = 11434
SEED = """
tools:
  registry:
    - type: file
      path: weather_tools.yaml
      namespace: weather_api
      engine: lm_sim
  engines:
    lm_sim:
      type: lm
      lm_config:
        type: ollama
        model_id_or_path: granite3.3:8b
      error_categories:
        - type: network_error
          probability: 0.05
          message: "Connection timed out"
        - type: unparseable_result
          probability: 0.05
        - type: schema_violation
          probability: 0.05
"""
TOOL = WEATHER.replace(namespace="weather_api")
CALL = ToolCall("weather_api::get_weather", {"city": "Rom"})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weather_tools.yaml").write_text(json.dumps([TOOL.to_dict()]))
    return tmp_path


def written(folder, text):
    (folder / "yard.yaml").write_text(text)
    return folder / "yard.yaml"


def ollama_is_free():
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", OLLAMA_PORT)) != 0


@pytest.mark.skipif(not ollama_is_free(), reason=f"something listens on port {OLLAMA_PORT}, where Ollama would")
def test_the_seeds_config_runs_unchanged_against_a_server_where_ollama_is(folder):
    until(ollama_is_free)  # another run of the tests may be here
    with ModelServer(otherwise=lambda asked: GOOD, port=OLLAMA_PORT) as server:
        seen = faulty_and_played(Toolyard.from_config(written(folder, SEED)), server)
    assert server.asked[0].path == "/api/chat"
    assert server.asked[0].body["model"] == "granite3.3:8b"
    assert server.asked[0].body["format"]["required"] == ["temp", "notes"]
    assert seen >= {"played", "network_error", "unparseable_result", "schema_violation"}


def test_the_seeds_config_runs_against_an_openai_server_by_its_base_url(folder):
    with ModelServer(otherwise=lambda asked: GOOD) as server:
        text = SEED.replace("type: ollama", f"type: openai\n        base_url: {server.url}/v1")
        seen = faulty_and_played(Toolyard.from_config(written(folder, text)), server)
    assert server.asked[0].path == "/v1/chat/completions"
    assert server.asked[0].body["response_format"]["json_schema"]["schema"]["required"] == ["temp", "notes"]
    assert seen >= {"played", "network_error", "unparseable_result", "schema_violation"}


def faulty_and_played(yard, server):
    """Three hundred sessions of one call: which kinds of answer there were."""
    seen = set()
    with yard:
        engine = yard.tool_engine
        for number in range(300):
            before = len(server.asked)
            engine.setup(f"s{number}")
            (result,) = engine.execute(f"s{number}", [CALL])
            engine.teardown(f"s{number}")
            kind = result.metadata["fault"]["type"] if "fault" in result.metadata else "played"
            seen.add(kind)
            # What fails on purpose costs nothing; what is played was asked once.
            assert len(server.asked) - before == (kind == "played")
            if kind == "played":
                assert result.result == json.loads(GOOD)
                assert server.asked[-1].messages == [SYSTEM, user(TOOL, city="Rom")]
            elif kind == "network_error":
                assert result.error == "Connection timed out"
            elif kind == "unparseable_result":
                assert result.error is None and result.result.startswith("<garbled: ")
            else:
                assert result.error == "Tool execution failed"
    return seen


def test_numbers_and_keys_may_come_from_the_environment_and_files_from_the_configs_folder(folder, monkeypatch):
    monkeypatch.setenv("LM_KEY", "sk-hidden-key")
    monkeypatch.setenv("LM_SECONDS", "7.5")
    with ModelServer(GOOD) as server:
        text = SEED.split("      error_categories")[0].replace("type: ollama", "type: openai")
        text += f"""
        base_url: {server.url}
        api_key: ${{LM_KEY}}
        timeout: ${{LM_SECONDS}}
        journal: lm.sqlite
"""
        with Toolyard.from_config(written(folder, text)) as yard:
            yard.tool_engine.setup("s")
            assert yard.tool_engine.execute("s", [CALL])[0].result == json.loads(GOOD)
    assert server.asked[0].headers["authorization"] == "Bearer sk-hidden-key"
    assert (folder / "lm.sqlite").is_file()


def test_a_wrong_key_of_lm_config_is_said_with_its_place(folder):
    with pytest.raises(ConfigError, match=r"tools\.engines\.lm_sim.*did you mean 'model_id_or_path'"):
        Toolyard.from_config(written(folder, SEED.replace("model_id_or_path:", "model_id_or_pat:")))


def test_without_a_model_results_come_from_the_schemas():
    with (
        LMToolEngine(ToolRegistry([WEATHER])) as engine,
        LMToolEngine(ToolRegistry([WEATHER]), lm_config={"type": "schema", "seed": 0}) as same,
    ):
        for one in (engine, same):
            one.setup("s")
        calls = [ToolCall("w::get_weather", {"city": "Rom"})]
        (result,) = engine.execute("s", calls)
        assert result.error is None and set(result.result) >= {"temp", "notes"}
        assert same.execute("s", calls) == [result]
        assert engine.spent == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lm_config": {"type": "schema", "sed": 1}}, "did you mean 'seed'"),
        ({"error_categories": [{"type": "network_eror"}]}, "network_error"),
        ({"error_categories": "often"}, "error_categories"),
        ({"error_categories": [], "faults": {"rules": []}}, "write them into faults"),
    ],
)
def test_a_wrong_option_is_said_at_once(options, said):
    with pytest.raises(ConfigError, match=said):
        LMToolEngine(ToolRegistry(), **options)


def test_injected_failures_are_part_of_the_history_that_the_model_sees():
    with ModelServer(otherwise=lambda asked: GOOD) as server:
        block = {"type": "openai", "model_id_or_path": "m", "base_url": server.url}
        plan = {"rules": [{"type": "network_error", "every": 2, "message": "Connection timed out"}]}
        with LMToolEngine(ToolRegistry([WEATHER]), lm_config=block, faults=plan) as engine:
            engine.setup("s")
            results = engine.execute("s", [ToolCall("w::get_weather", {"city": city}) for city in "abc"])
    assert [result.error for result in results] == [None, "Connection timed out", None]
    assert server.asked[-1].messages[3:5] == [
        user(WEATHER, city="b"),
        ("assistant", '{"error":"Connection timed out"}'),
    ]
