"""A language model is asked what tools return: all at once, and nothing is asked twice."""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys

import pytest
from links.lm.model_server import ModelServer
from waiting import until

from toolyard import ConfigError, OutputParametersEnrichment, Tool, ToolRegistry
from toolyard.insight.cache import FILE
from toolyard.insight.outputs import enrichment
from toolyard.insight.outputs.enrichment import read_schema

AREA = {"type": "object", "properties": {"area": {"type": "number"}}}


def tools(count, **more):
    return [
        Tool(f"t{n}", "n", f"Number {n}.", {"type": "object", "properties": {"a": {"type": "string"}}}, **more)
        for n in range(count)
    ]


def asking(server, cache, **more):
    config = {"type": "openai", "model_id_or_path": "m", "base_url": server.url, "retries": 0, **more.pop("config", {})}
    return OutputParametersEnrichment(lm_config=config, cache=str(cache), **more)


def named(asked):
    return json.loads(asked.messages[-1][1])["name"]


def by_name(asked):
    return json.dumps({"type": "object", "properties": {f"{named(asked)}_out": {"type": "string"}}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(AREA), AREA),
        (json.dumps({"properties": AREA["properties"]}), AREA),
        (json.dumps({"output_schema": AREA}), AREA),
        (json.dumps(AREA["properties"]), AREA),
        (json.dumps({**AREA, "required": ["area"]}), AREA),
        (f"<think>{{}}</think>```json\n{json.dumps(AREA)}\n```", AREA),
        (f"Here it is: {json.dumps(AREA)} Good luck!", AREA),
    ],
)
def test_a_schema_is_found_in_any_wrapping(text, expected):
    assert read_schema(text) == (expected, "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I cannot.", "did not answer with a JSON object"),
        ("[1]", "did not answer with a JSON object"),
        ("{}", "did not answer with a JSON object"),
        ('{"a": 1, "b": {"type": "string"}}', "no JSON Schema of an object"),
        ('{"type": "object"}', "has no properties"),
        ('{"type": "object", "properties": {"a": {"type": "whatever"}}}', "cannot be used"),
    ],
)
def test_an_answer_without_a_schema_is_refused_with_the_reason(text, says):
    schema, problem = read_schema(text)
    assert schema is None and says in problem


def test_the_model_is_asked_concurrently_about_tools_without_a_schema_only(tmp_path):
    known = Tool("known", "n", output_parameters=AREA)
    with ModelServer(otherwise=by_name, delay=0.05) as server:
        registry = ToolRegistry([known, *tools(20)], enrichments=[asking(server, tmp_path)])
        assert sorted(map(named, server.asked)) == sorted(f"t{n}" for n in range(20))
        assert server.most > 5
        assert server.asked[0].body["response_format"] == {"type": "json_object"}
    assert registry.get("n::known")[0].output_parameters == AREA
    assert registry.get("n::t7")[0].output_parameters == {
        "type": "object",
        "properties": {"t7_out": {"type": "string"}},
        "x-inferred": "lm",
    }


def test_a_new_tool_is_asked_about_alone_and_another_model_about_all(tmp_path):
    with ModelServer(otherwise=by_name) as server:
        ToolRegistry(tools(5), enrichments=[asking(server, tmp_path)])
        assert len(server.asked) == 5
        registry = ToolRegistry(tools(6), enrichments=[asking(server, tmp_path)])
        assert len(server.asked) == 6
        assert all(one.output_parameters for one in registry)
        ToolRegistry(tools(6), enrichments=[asking(server, tmp_path, config={"model_id_or_path": "other"})])
        assert len(server.asked) == 12
        ToolRegistry(tools(2), enrichments=[asking(server, tmp_path, force=True)])
        assert len(server.asked) == 14


def test_the_same_tool_in_two_namespaces_is_asked_about_once(tmp_path):
    pair = [*tools(1), tools(1)[0].replace(namespace="other")]
    with ModelServer(otherwise=by_name) as server:
        registry = ToolRegistry(pair, enrichments=[asking(server, tmp_path)])
        assert len(server.asked) == 1
    assert [bool(one.output_parameters) for one in registry] == [True, True]


def test_overloads_are_asked_about_each(tmp_path):
    one, two = tools(1)[0], tools(1)[0].replace(parameters={"type": "object", "properties": {"b": {"type": "string"}}})
    with ModelServer(otherwise=by_name) as server:
        registry = ToolRegistry([one, two], enrichments=[asking(server, tmp_path)])
        assert len(server.asked) == 2
    assert all(each.output_parameters for each in registry)


def test_a_tool_that_the_model_fails_on_stays_as_it_is_and_is_asked_about_again(tmp_path, caplog):
    def says(asked):
        return "No idea." if named(asked) == "t1" else (500, {}, "broken") if named(asked) == "t2" else by_name(asked)

    with ModelServer(otherwise=says) as server, caplog.at_level(logging.WARNING):
        registry = ToolRegistry(tools(4), enrichments=[asking(server, tmp_path)])
        assert [bool(one.output_parameters) for one in registry] == [True, False, False, True]
        assert "no output schema for n::t1: the model did not answer with a JSON object" in caplog.text
        assert "no output schema for n::t2" in caplog.text
        server.otherwise = by_name
        server.asked.clear()
        again = ToolRegistry(tools(4), enrichments=[asking(server, tmp_path)])
        assert sorted(map(named, server.asked)) == ["t1", "t2"]
    assert all(one.output_parameters for one in again)


def test_the_model_is_not_asked_any_more_after_many_failures(tmp_path, caplog):
    with ModelServer(otherwise=lambda asked: (401, {}, "who?")) as server, caplog.at_level(logging.WARNING):
        registry = ToolRegistry(tools(60), enrichments=[asking(server, tmp_path, config={"max_concurrent": 1})])
        assert len(server.asked) < 60
    assert "it is not asked any more" in caplog.text
    assert not any(one.output_parameters for one in registry)


def test_the_api_key_is_in_no_log_or_error(tmp_path, caplog):
    secret = "sk-very-secret-0123456789"
    with ModelServer(otherwise=lambda asked: (401, {}, f"bad key {secret}")) as server, caplog.at_level(logging.DEBUG):
        enrichment = asking(server, tmp_path, config={"api_key": secret})
        ToolRegistry(tools(1), enrichments=[enrichment])
    assert secret not in caplog.text and secret not in repr(enrichment)
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_server_that_takes_no_format_is_not_sent_one(tmp_path):
    with ModelServer(otherwise=by_name) as server:
        ToolRegistry(tools(1), enrichments=[asking(server, tmp_path, config={"response_format": "text"})])
        assert "response_format" not in server.asked[0].body


_KILLED = """
import sys
from toolyard import OutputParametersEnrichment, Tool, ToolRegistry
url, cache = sys.argv[1:]
config = {"type": "openai", "model_id_or_path": "m", "base_url": url, "retries": 0}
schema = {"type": "object", "properties": {"a": {"type": "string"}}}
tools = [Tool(f"t{n}", "n", f"Number {n}.", schema) for n in range(8)]
ToolRegistry(tools, enrichments=[OutputParametersEnrichment(lm_config=config, cache=cache)])
"""


@pytest.mark.process
def test_a_process_that_is_killed_loses_no_answer_that_it_had(tmp_path):
    def slow_from_five(asked):
        return by_name(asked) if int(named(asked)[1:]) < 5 else (429, {"Retry-After": "60"}, "later")

    def kept():
        if not (tmp_path / FILE).exists():
            return 0
        db = sqlite3.connect(tmp_path / FILE)
        try:
            return db.execute("SELECT count(*) FROM items").fetchone()[0]
        except sqlite3.Error:
            return 0
        finally:
            db.close()

    with ModelServer(otherwise=slow_from_five) as server:
        command = [sys.executable, "-c", _KILLED.replace('"retries": 0', '"retries": 3'), server.url, str(tmp_path)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            assert until(lambda: kept() == 5)
            os.kill(running.pid, signal.SIGKILL)
        server.otherwise = by_name
        server.asked.clear()
        registry = ToolRegistry(tools(8), enrichments=[asking(server, tmp_path)])
        assert sorted(map(named, server.asked)) == ["t5", "t6", "t7"]
    assert all(one.output_parameters for one in registry)


def test_a_lone_surrogate_in_one_description_affects_no_tool(tmp_path):
    given = [tools(1)[0].replace(description="Half \ud800 a character."), *tools(2)[1:]]
    with ModelServer(otherwise=by_name) as server:
        registry = ToolRegistry(given, enrichments=[asking(server, tmp_path)])
        asked = {named(one): json.loads(one.messages[-1][1]) for one in server.asked}
    assert all(one.output_parameters for one in registry)
    assert asked["t0"]["description"] == "Half ? a character."
    assert asked["t0"]["parameters"] == given[0].parameters


def failing(*names):
    def says(asked):
        return (
            ("No idea." if named(asked) == "t1" else (500, {}, "broken")) if named(asked) in names else by_name(asked)
        )

    return says


def test_adding_a_tool_does_not_repeat_questions_that_failed(tmp_path):
    with ModelServer(otherwise=failing("t1", "t2")) as server:
        registry = ToolRegistry(tools(3), enrichments=[asking(server, tmp_path)])
        server.otherwise = by_name
        for number in (3, 4):
            server.asked.clear()
            registry.add(tools(5)[number])
            assert [named(one) for one in server.asked] == [f"t{number}"]
    assert [bool(one.output_parameters) for one in registry] == [True, False, False, True, True]


def test_questions_that_failed_are_repeated_after_a_while(tmp_path, monkeypatch):
    with ModelServer(otherwise=failing("t1", "t2")) as server:
        registry = ToolRegistry(tools(3), enrichments=[asking(server, tmp_path)])
        server.otherwise = by_name
        server.asked.clear()
        monkeypatch.setattr(enrichment, "_ASK_AGAIN", 0.0)
        registry.add(tools(4)[3])
        assert sorted(map(named, server.asked)) == ["t1", "t2", "t3"]
    assert all(one.output_parameters for one in registry)


def test_force_repeats_questions_that_failed(tmp_path):
    with ModelServer(otherwise=failing("t1")) as server:
        registry = ToolRegistry(tools(2), enrichments=[asking(server, tmp_path, force=True)])
        server.asked.clear()
        registry.add(tools(3)[2])
        assert sorted(map(named, server.asked)) == ["t1", "t2"]


def test_a_changed_tool_is_asked_about_even_if_it_failed_before(tmp_path):
    with ModelServer(otherwise=failing("t1")) as server:
        registry = ToolRegistry(tools(2), enrichments=[asking(server, tmp_path)])
        server.otherwise = by_name
        server.asked.clear()
        registry.remove("n::t1")
        registry.add(tools(2)[1].replace(description="Described better."))
        assert list(map(named, server.asked)) == ["t1"]
    assert all(one.output_parameters for one in registry)


def test_an_unreachable_model_is_not_tried_again_for_each_added_tool(tmp_path):
    with ModelServer(otherwise=lambda asked: (401, {}, "who?")) as server:
        registry = ToolRegistry(tools(60), enrichments=[asking(server, tmp_path, config={"max_concurrent": 1})])
        server.asked.clear()
        registry.add(tools(61)[60])
        assert list(map(named, server.asked)) == ["t60"]


def test_force_must_be_a_bool():
    with pytest.raises(ConfigError, match="force: must be true or false, not text"):
        OutputParametersEnrichment(force="no")
