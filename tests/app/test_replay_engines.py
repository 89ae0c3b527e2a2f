"""A config with fault plans and with a replay engine, which names the engine it records."""

import json
import logging

import jsonschema_rs
import pytest

from toolyard import ConfigError, ReplayToolEngine, ToolCall, ToolEngine, Toolyard, register_tool_engine
from toolyard.app.schema import config_schema


@register_tool_engine("counted_for_tests")
class Counted(ToolEngine):
    """Answers with how often it was asked."""

    type_name = "counted"
    asked = 0

    def answer(self, invocation):
        Counted.asked += 1
        return {"number": Counted.asked, **invocation.arguments}


SOURCE = {"type": "inline", "namespace": "n", "tools": [{"name": "look", "parameters": {"type": "object"}}]}


def yard_of(tmp_path, **engines):
    path = tmp_path / "yard.json"
    used = "taped" if "taped" in engines else next(iter(engines))
    path.write_text(json.dumps({"tools": {"registry": [{**SOURCE, "engine": used}], "engines": engines}}))
    return Toolyard.from_config(path)


def asked(yard, *places):
    yard.tool_engine.setup("s")
    return yard.tool_engine.execute("s", [ToolCall("n::look", {"place": place}) for place in places])


def test_a_replay_engine_names_what_it_records_and_its_cassette_lies_beside_the_config(tmp_path, caplog):
    live = {"type": "counted_for_tests", "faults": {"rules": [{"type": "auth", "every": 2}]}}
    taped = {"type": "replay", "cassette": "tapes/one.jsonl", "engine": "live"}
    with caplog.at_level(logging.WARNING), yard_of(tmp_path, taped={**taped, "mode": "record"}, live=live) as yard:
        first = asked(yard, "a", "b", "c")
    assert (tmp_path / "tapes/one.jsonl").is_file() and not caplog.records
    assert [result.is_error for result in first] == [False, True, False]
    before = Counted.asked
    with yard_of(tmp_path, live=live, taped=taped) as yard:
        assert asked(yard, "a", "b", "c") == first
        assert isinstance(yard.tool_engine.part("taped"), ReplayToolEngine)
        assert yard.tool_engine.part("taped").drift().ok
    assert Counted.asked == before


def test_any_engine_of_a_config_accepts_faults(tmp_path):
    with yard_of(tmp_path, live={"type": "counted_for_tests", "faults": {"rules": [{"type": "not_found"}]}}) as yard:
        (result,) = asked(yard, "a")
        assert result.metadata["fault"] == {"type": "not_found", "rule": 0}


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        ({"taped": {"type": "replay", "cassette": "x.jsonl"}}, "tools.engines.taped: no cassette to replay"),
        ({"taped": {"type": "replay"}}, "needs the option 'cassette'"),
        (
            {
                "taped": {"type": "replay", "cassette": "x.jsonl", "mode": "auto", "engine": "lve"},
                "live": {"type": "counted_for_tests"},
            },
            "tools.engines.taped.engine: no engine is called 'lve'; did you mean 'live'?",
        ),
        (
            {
                "taped": {"type": "replay", "cassette": "x.jsonl", "mode": "auto", "engine": "other"},
                "other": {"type": "replay", "cassette": "y.jsonl", "mode": "auto", "engine": "taped"},
            },
            "'taped' refers back to itself",
        ),
        (
            {"taped": {"type": "counted_for_tests", "faults": {"rules": [{"type": "auth", "evry": 2}]}}},
            "did you mean 'every'",
        ),
        ({"taped": {"type": "counted_for_tests", "fault": {}}}, "did you mean 'faults'"),
    ],
)
def test_an_engine_that_cannot_be_built_is_refused_with_the_reason(tmp_path, engines, said):
    with pytest.raises(ConfigError) as caught:
        yard_of(tmp_path, **engines)
    assert said in str(caught.value)


def test_editors_are_told_what_a_plan_and_a_cassette_may_be():
    validator = jsonschema_rs.validator_for(config_schema())

    def valid(**engine):
        return validator.is_valid({"tools": {"registry": [], "engines": {"e": engine}}})

    assert valid(type="python", faults={"seed": "${SEED}", "rules": [{"type": "auth", "probability": "${P}"}]})
    assert not valid(type="python", faults={"rules": [{"type": "auth", "seconds": -1}]})
    assert valid(type="replay", cassette="x.yaml", mode="auto", engine="live", match="fifo", repeat=False)
    assert not valid(type="replay", cassette="x.yaml", mode="rewind")
    assert not valid(type="replay", cassette="x.yaml", matches="fifo")


def test_numbers_of_a_plan_may_be_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERY", "2")
    faults = {"rules": [{"type": "auth", "every": "${EVERY}"}]}
    with yard_of(tmp_path, live={"type": "counted_for_tests", "faults": faults}) as yard:
        assert [result.is_error for result in asked(yard, "a", "b")] == [False, True]
