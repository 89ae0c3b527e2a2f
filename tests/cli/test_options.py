"""Every verb finds its file in the same four places, and a word is a file by the same rule everywhere."""

import json
import os

import pytest
from hypothesis import given, strategies as st

from toolyard.cli.main import app, run
from toolyard.cli.options import name_file

TOOLS = """
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
def echo(text: str, raw=None) -> list:
    return [text, raw]
"""
VERBS = [
    ["check"],
    ["tools"],
    ["show", "add"],
    ["search", "add two numbers"],
    ["call", "add", "a=1", "b=2"],
    ["sample", "tc/random", "-k", "1", "--seed", "1"],
    ["graph", "--out", "graph.json"],
    ["session", "list"],
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLYARD_CONFIG", "TOOL_REGISTRY_DOMAINS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "mine.py").write_text(TOOLS)
    return tmp_path


def answer(capsys, *arguments):
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_file_is_named_first_by_option_by_the_environment_or_lies_in_the_folder(capsys, monkeypatch, folder, verb):
    words = 2 if verb[0] == "session" else 1
    head, rest = verb[:words], verb[words:]
    expected = answer(capsys, *verb, "-c", "mine.py")
    assert expected[0] == 0
    assert answer(capsys, *head, "mine.py", *rest) == expected
    assert answer(capsys, *head, "--skip-bad" if head[0] in ("tools", "show") else "-q", "mine.py", *rest) == expected
    monkeypatch.setenv("TOOLYARD_CONFIG", "mine.py")
    assert answer(capsys, *verb) == expected
    monkeypatch.delenv("TOOLYARD_CONFIG")
    (folder / "toolyard.yaml").write_text("tools: [{type: python, target: mine.py}]")
    code, from_folder = answer(capsys, *verb)
    assert (code, "mine.py" in json.dumps(from_folder)) == (0, "mine.py" in json.dumps(expected))


def test_a_tool_of_a_file_is_named_in_one_word(capsys):
    assert answer(capsys, "call", "mine.py::add", "a=1", "b=2")[1]["result"] == 3
    assert answer(capsys, "show", os.path.abspath("mine.py") + "::echo")[1][0]["name"] == "default::echo"
    assert answer(capsys, "call", "mine.py::default::add", '{"a": 1, "b": 2}')[1]["result"] == 3


def test_a_part_of_a_python_file_is_named_like_the_file(capsys, folder):
    (folder / "parts.py").write_text("class Desk:\n    def ring(self) -> int:\n        return 3\n\ndef other(): ...\n")
    assert [tool["name"] for tool in answer(capsys, "tools", "parts.py:Desk")[1]] == ["default::ring"]
    assert answer(capsys, "call", "parts.py:Desk::ring")[1]["result"] == 3
    assert answer(capsys, "call", "-c", "parts.py:Desk", "ring")[1]["result"] == 3
    assert run(["tools", "parts.py:Dsk"]) == 2
    assert "no attribute 'Dsk'; did you mean 'Desk'?" in capsys.readouterr().err


def test_a_colon_in_a_folder_name_is_no_part_of_a_file(capsys, folder):
    (folder / "at 10:30").mkdir()
    (folder / "mine.py").rename(folder / "at 10:30" / "mine.py")
    assert answer(capsys, "call", "at 10:30/mine.py", "add", "a=1", "b=2")[1]["result"] == 3
    assert answer(capsys, "show", "at 10:30/mine.py::add")[1][0]["name"] == "default::add"


@pytest.mark.parametrize("verb", [("tools",), ("call", "add", "a=1", "b=2"), ("session", "list")], ids=" ".join)
def test_a_missing_file_of_the_environment_is_told_with_the_variable(capsys, monkeypatch, verb):
    monkeypatch.setenv("TOOLYARD_CONFIG", "gone.yaml")
    assert run([*verb]) == 2
    assert "TOOLYARD_CONFIG: gone.yaml: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["call", "show"])
def test_a_single_colon_between_file_and_tool_is_told_of(capsys, verb):
    assert run([verb, "mine.py:add"]) == 2
    assert "with two colons, mine.py::add (of the part add: mine.py:add::NAME)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "report.json"],  # a name: there is no such file, and nothing follows
        ["show", "mine.py", "-c", "other.yaml"],
        ["show", "--config=other.yaml", "mine.py"],
        ["call", "n::mine.py"],
        ["search", "what is in mine.py"],
        ["cassette", "check", "tape.yaml"],
        ["manifest", "add", "scripts", "mine.py"],
        ["graph", "--out", "mine.json"],
        ["show", "--help"],
        ["nope", "mine.py"],
        ["--version"],
        [],
    ],
    ids=" ".join,
)
def test_what_is_not_the_file_stays_where_it_is(arguments):
    assert name_file(app, arguments) == arguments


def test_the_file_comes_after_the_files_of_the_verb_itself():
    assert name_file(app, ["cassette", "check", "tape.yaml", "mine.py"]) == [
        *("cassette", "check", "--config", "mine.py", "tape.yaml")
    ]


_OPTIONS = [["--json"], ["-q"], ["--skip-bad"], ["--namespace", "a.yaml"], ["-n", "x.py"], ["--tag=b.json"]]


@given(st.lists(st.sampled_from(_OPTIONS), max_size=4), st.lists(st.sampled_from(_OPTIONS), max_size=4))
def test_options_and_their_values_may_stand_around_the_file(before, after):
    before, after = [word for part in before for word in part], [word for part in after for word in part]
    assert name_file(app, ["search", *before, "y.yaml", *after, "q"]) == [
        *("search", "--config", "y.yaml", *before, *after, "q")
    ]


def test_a_file_may_import_what_stands_beside_it(capsys, folder):
    (folder / "beside_it.py").write_text("FACTOR = 3\n")
    (folder / "mine.py").write_text(
        "def times(x: int) -> int:\n    from beside_it import FACTOR\n    return x * FACTOR\n"
    )
    assert answer(capsys, "call", "mine.py::times", "x=2")[1]["result"] == 6


@pytest.mark.parametrize("verb", ["check", "tools", "serve", "mcp", "graph"])
def test_a_file_that_is_not_there_is_told_as_json_by_every_verb(capsys, verb):
    more = ["--out", "x.dot"] if verb == "graph" else []
    code, told = answer(capsys, verb, "missing.yaml", *more)
    assert code == 2 and "missing.yaml" in told["error"]["message"]


def test_a_file_of_another_kind_is_named_once(folder, capsys):
    (folder / "notes.txt").write_text("hello")
    assert run(["check", "notes.txt"]) == 2
    said = capsys.readouterr().err
    assert "unknown catalog format '.txt'" in said
    assert said.count("notes.txt") == 1
