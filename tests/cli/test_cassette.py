"""`toolyard cassette`: real files, the command as people type it."""

import json

import pytest

from cli import running
from conftest import chosen_way, ways_to_try
from toolyard import PythonToolEngine, ReplayToolEngine, ToolCall, ToolRegistry, function_tool

CATALOG = """\
n:
  - name: look
    description: Look somewhere.
    parameters: {type: object, properties: {place: {type: string}}, required: [place], additionalProperties: false}
"""


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLYARD_CONFIG", "TOOL_REGISTRY_DOMAINS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tools.yaml").write_text(CATALOG)


@pytest.fixture(params=ways_to_try("tape.jsonl", "tape.yaml"))
def tape(request, tmp_path):
    """Two answers and an error of the catalog's tool."""
    name = chosen_way(request)
    (tool,) = ToolRegistry.from_file(tmp_path / "tools.yaml").get("n::look")

    def look(place: str) -> dict:
        """Look somewhere."""
        if place == "nowhere":
            raise ValueError("nothing there")
        return {"place": place}

    made = function_tool(look, namespace="n", description=tool.description, parameters=tool.parameters)
    registry = ToolRegistry([made])
    with ReplayToolEngine(registry, cassette=name, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        engine.execute("s", [ToolCall("n::look", {"place": place}) for place in ("a", "nowhere", "\x1b[31mb")])
    text = (tmp_path / name).read_text()
    assert made.definition_hash in text
    (tmp_path / name).write_text(text.replace(made.definition_hash, tool.definition_hash))
    return name


def output(capsys, *arguments):
    return running.output(capsys, "cassette", *arguments)


def test_show_lists_the_recordings_and_lets_none_drive_the_terminal(capsys, tape):
    code, out, _ = output(capsys, "show", tape)
    assert code == 0
    assert "n::look" in out and "tool.execution_error" in out and "3 recordings of 1 tool" in out
    assert "\x1b" not in out
    code, out, _ = output(capsys, "show", tape, "--tool", "n::other")
    assert (code, "0 recordings" in out) == (0, True)


def test_show_prints_json_for_programs(capsys, tape):
    code, out, _ = output(capsys, "show", tape, "--json")
    recordings = json.loads(out)
    assert code == 0
    assert [item["arguments"]["place"] for item in recordings] == ["a", "nowhere", "\x1b[31mb"]
    assert recordings[1]["error"]["code"] == "tool.execution_error"


def test_check_is_content_while_the_tools_stay_as_they_were(capsys, tape):
    code, out, _ = output(capsys, "check", tape, "--config", "tools.yaml")
    assert (code, out) == (0, "3 recordings of 1 tool; all fit, held against tools.yaml\n")


def test_check_without_a_file_says_which_tools_it_looked_at(capsys, tape):
    code, out, _ = output(capsys, "check", tape)
    assert code == 1 and "held against the tools that ship with toolyard, as no file was named" in out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Look somewhere.", "Look elsewhere.", "definition changed: n::look has another definition now"),
        ("name: look", "name: glance", "definition changed: n::look is gone"),
        ("place: {type: string}", "place: {type: string, minLength: 3}", 'arguments changed: n::look {"place":"a"}'),
    ],
)
def test_check_says_how_they_have_moved_apart_and_exits_1(capsys, tape, tmp_path, old, new, said):
    (tmp_path / "tools.yaml").write_text(CATALOG.replace(old, new))
    code, out, _ = output(capsys, "check", tape, "--config", "tools.yaml")
    assert code == 1 and said in out and "finding" in out
    code, out, _ = output(capsys, "check", tape, "--config", "tools.yaml", "--json")
    report = json.loads(out)
    assert (code, report["ok"], report["recordings"]) == (1, False, 3)
    assert report["definitions_changed"]


def test_a_file_that_is_no_cassette_is_refused_with_its_place(capsys, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"name": "a::b", "result": 1}\n{"name": "a::b", "reslt": 1}\n')
    code, _, err = output(capsys, "show", "bad.jsonl")
    assert code == 2 and "bad.jsonl:2" in err and "reslt" in err
    assert output(capsys, "show", "none.jsonl")[0] == 2
    code, _, err = output(capsys, "show", "tools.txt")
    assert code == 2 and ".jsonl or .yaml" in err
