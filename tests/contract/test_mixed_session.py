"""Contract 4 with every kind of engine in one session: a model, the simulator, a recording, a service and MCP."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from links.lm.model_server import ModelServer
from warm_python import warm_toolyard

from conftest import ROOT
from toolyard import ToolCall, Toolyard

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TASK = {"type": "object", "properties": {"task_id": {"type": "integer"}, "title": {"type": "string"}}}
WEATHER = {
    "name": "weather",
    "effects": "read",
    "parameters": CITY,
    "output_parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
TASKS = [
    {
        "name": "create_task",
        "parameters": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
        "output_parameters": {**TASK, "required": ["task_id", "title"]},
    },
    {
        "name": "list_tasks",
        "parameters": {"type": "object", "properties": {}},
        "output_parameters": {
            "type": "object",
            "properties": {"tasks": {"type": "array", "items": {**TASK, "required": ["task_id", "title"]}}},
            "required": ["tasks"],
        },
    },
]
TAPED = [{"name": "rate", "parameters": CITY, "output_parameters": {"type": "object"}}]


@contextmanager
def petstore():
    command = ["examples/petstore/server.py", "--port", "0"]
    with warm_toolyard().start(
        command, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PETSTORE_KEY": "k"}
    ) as process:
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def config(model, pets, folder):
    return {
        "tools": {
            "registry": [
                {"type": "inline", "namespace": "sky", "tools": [WEATHER], "engine": "model"},
                {"type": "inline", "namespace": "todo", "tools": TASKS},
                {"type": "inline", "namespace": "tape", "tools": TAPED, "engine": "tape"},
                {
                    "type": "rest",
                    "spec": str(ROOT / "examples/petstore/petstore.yaml"),
                    "namespace": "pets",
                    "base_url": pets,
                    "engine": "pets",
                },
                {
                    "type": "mcp",
                    "command": sys.executable,
                    "args": [str(ROOT / "examples/notebook/server.py")],
                    "namespace": "notes",
                },
            ],
            "engines": {
                "model": {"type": "lm", "lm_config": {"type": "openai", "model_id_or_path": "m", "base_url": model}},
                "simulator": {"type": "lm", "lm_config": {"type": "schema", "seed": 5}},
                "tape": {"type": "replay", "mode": "auto", "cassette": str(folder / "t.jsonl"), "engine": "simulator"},
                "pets": {"type": "rest", "auth": {"type": "bearer", "token": "k", "origin": pets}},
            },
        }
    }


@pytest.fixture
def mixed(tmp_path):
    """A yard of all of them, its engine with a session, and the model's server."""
    with (
        petstore() as pets,
        ModelServer(otherwise=lambda asked: '{"text": "fine"}') as model,
        Toolyard.from_config(config(model.url, pets, tmp_path)) as yard,
    ):
        yard.tool_engine.setup("trunk")
        yield yard.tool_engine, model


EVERYTHING = [
    ToolCall("todo::create_task", {"title": "sow"}, "1"),
    ToolCall("tape::rate", {"city": "Oslo"}, "2"),
    ToolCall("pets::createPet", {"name": "Ada"}, "3"),
    ToolCall("notes::write", {"title": "seeds"}, "4"),
    ToolCall("pets::getPet", {"petId": 999}, "5"),
    ToolCall("sky::weather", {"city": "Oslo"}, "6"),
]
READS = [
    ToolCall("todo::list_tasks", {}, "7"),
    ToolCall("tape::rate", {"city": "Oslo"}, "8"),
    ToolCall("pets::listPets", {}, "9"),
    ToolCall("notes::find", {}, "10"),
    ToolCall("sky::weather", {"city": "Rome"}, "11"),
]


def titles(result):
    return [task["title"] for task in result.result["tasks"]]


def told(asked):
    """The names of the calls that the model was told of, in order."""
    users = [content for role, content in asked.messages if role == "user"]
    return [json.loads(content.rpartition("Tool call:\n")[2])["name"] for content in users]


@pytest.mark.process
def test_execute_commits_on_every_engine_and_the_model_is_told_of_all_that_came_before(mixed):
    engine, model = mixed
    results = engine.execute("trunk", EVERYTHING)
    assert [result.is_error for result in results] == [False, False, False, False, True, False]
    history = engine.get_session_state("trunk")["tool_executions"]
    assert [entry["tool_call"]["call_id"] for entry in history] == ["1", "2", "3", "4", "5", "6"]
    assert told(model.asked[-1]) == [call.name for call in EVERYTHING]
    answers = [content for role, content in model.asked[-1].messages if role == "assistant"]
    assert json.loads(answers[0]) == results[0].result and "404" in answers[4]
    tasks, taped, pets, notes, weather = engine.execute("trunk", READS)
    assert titles(tasks).count("sow") == 1
    assert taped.result == results[1].result
    assert "Ada" in [pet["name"] for pet in pets.result["pets"]]
    assert [note["title"] for note in notes.result["notes"]] == ["seeds"]
    assert weather.result == {"text": "fine"}


@pytest.mark.process
def test_simulate_leaves_the_session_and_the_world_as_they_were_on_every_engine(mixed):
    engine, model = mixed
    engine.execute("trunk", EVERYTHING)
    before = json.dumps(engine.get_session_state("trunk"), sort_keys=True), engine.state_hash("trunk")
    pets, notes = engine.simulate("trunk", [READS[2], READS[3]])
    again = [ToolCall(call.name, call.arguments, f"s{call.call_id}") for call in EVERYTHING]
    made = engine.simulate("trunk", [*again, READS[0], READS[4]])
    assert [result.error_info.code if result.error_info else None for result in made] == [
        None,
        None,
        "tool.denied",
        "tool.denied",
        "tool.execution_error",
        None,
        None,
        None,
    ]
    # Inside, later calls see what earlier ones did; a service and an MCP server, which cannot take back, are not asked.
    assert titles(made[6]).count("sow") == 2
    assert told(model.asked[-1])[-3:] == ["sky::weather", "todo::list_tasks", "sky::weather"]
    assert (json.dumps(engine.get_session_state("trunk"), sort_keys=True), engine.state_hash("trunk")) == before
    later = engine.execute("trunk", READS)
    assert titles(later[0]).count("sow") == 1
    assert later[2].result == pets.result and later[3].result == notes.result


@pytest.mark.process
def test_a_fork_has_the_history_of_all_engines_and_what_it_does_stays_its_own(mixed):
    engine, model = mixed
    engine.execute("trunk", EVERYTHING)
    engine.setup("branch", fork_of="trunk")
    assert engine.state_hash("branch") == engine.state_hash("trunk")
    engine.execute("branch", [ToolCall("todo::create_task", {"title": "reap"}, "7"), READS[4]])
    assert told(model.asked[-1]) == [*(call.name for call in EVERYTHING), "todo::create_task", "sky::weather"]
    engine.execute("trunk", [ToolCall("sky::weather", {"city": "Bern"}, "7")])
    assert told(model.asked[-1]) == [*(call.name for call in EVERYTHING), "sky::weather"]
    (mine,) = engine.execute("branch", [ToolCall("todo::list_tasks", {}, "12")])
    (theirs,) = engine.execute("trunk", [ToolCall("todo::list_tasks", {}, "12")])
    assert "reap" in titles(mine) and "reap" not in titles(theirs)
    assert "sow" in titles(mine) and "sow" in titles(theirs)
    engine.teardown("trunk")
    assert len(engine.get_session_state("branch")["tool_executions"]) == len(EVERYTHING) + 3
