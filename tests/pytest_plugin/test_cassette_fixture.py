"""The pytest plugin, in pytests of its own: recorded once, played from then on, and told what drifted."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from warm_python import WarmPython

from toolyard.engines.cassette import Cassette

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]

TOOLS = """\
import os
from toolyard import tool

@tool
def look(place: str) -> dict:
    "Look somewhere."
    with open(os.environ["ASKED"], "a") as asked:
        asked.write(place + "\\n")
    return {"place": place, "answer": os.environ.get("ANSWER", "first")}
"""

YARD = "tools:\n  registry:\n    - {type: python, target: tools.py, namespace: n}\n"

TEST = """\
import pytest
from toolyard import ToolCall

def asked(yard, place):
    yard.tool_engine.setup("s")
    (result,) = yard.tool_engine.execute("s", [ToolCall("n::look", {"place": place})])
    return result

@pytest.mark.toolyard_cassette("weather")
def test_it(toolyard_yard):
    assert asked(toolyard_yard, "oslo").result == {"place": "oslo", "answer": "first"}
"""


class Run:
    def __init__(self, folder, python):
        self.folder = folder
        self.python = python
        self.asked = folder / "asked.txt"
        (folder / "tools.py").write_text(TOOLS)
        (folder / "yard.yaml").write_text(YARD)
        (folder / "pytest.ini").write_text("[pytest]\ntoolyard_config = yard.yaml\naddopts = --strict-markers\n")

    def write(self, text, name="test_it.py"):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)

    def __call__(self, *options, code=0, **env):
        done = self.python.run(
            ["-m", "pytest", "-p", "toolyard.pytest_plugin", "-p", "no:cacheprovider", *options],
            cwd=self.folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "ASKED": str(self.asked), **env},
            strict=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def places(self):
        return self.asked.read_text().split() if self.asked.exists() else []


@pytest.fixture(scope="module")
def python():
    found = WarmPython(
        *("pytest", "xdist", "_pytest.junitxml", "_pytest.unittest", "_pytest.debugging", "pdb", "toolyard.app"),
        *("toolyard.engines.python", "toolyard.engines.replay", "toolyard.sources.python"),
        *(
            "toolyard.parsing.yaml_events",
            "toolyard.pytest_plugin.cassette_fixture",
            "configparser",
            "pydantic.dataclasses",
        ),
        *(
            f"_pytest.{name}"
            for name in ("faulthandler", "helpconfig", "pastebin", "setuponly", "setupplan", "skipping")
        ),
        *(f"_pytest.{name}" for name in ("threadexception", "tracemalloc", "unraisableexception", "warnings")),
    )
    yield found
    found.close()


@pytest.fixture
def pytest_in(tmp_path, python):
    return Run(tmp_path, python)


def test_a_recorded_test_needs_its_tools_no_longer(pytest_in, tmp_path):
    pytest_in.write(TEST)
    pytest_in("--toolyard-record")
    assert pytest_in.places == ["oslo"]
    (line,) = (tmp_path / "cassettes/weather.jsonl").read_text().splitlines()
    assert json.loads(line)["name"] == "n::look"
    out = pytest_in(ANSWER="second")
    assert pytest_in.places == ["oslo"] and "toolyard cassettes" not in out
    assert os.listdir(tmp_path / "cassettes") == ["weather.jsonl"]


def test_without_a_cassette_the_test_fails_and_says_how_to_record_it(pytest_in):
    pytest_in.write(TEST)
    out = pytest_in(code=1)
    assert "record it with: pytest --toolyard-record" in out
    assert pytest_in.places == []


def test_recording_anew_replaces_the_cassette_only_if_the_test_goes_well(pytest_in, tmp_path):
    pytest_in.write(TEST)
    pytest_in("--toolyard-record")
    before = (tmp_path / "cassettes/weather.jsonl").read_bytes()
    pytest_in("--toolyard-record", code=1, ANSWER="second")
    assert (tmp_path / "cassettes/weather.jsonl").read_bytes() == before
    assert os.listdir(tmp_path / "cassettes") == ["weather.jsonl"]
    pytest_in.write(TEST.replace('"first"', '"second"'))
    pytest_in("--toolyard-record", ANSWER="second")
    (line,) = (tmp_path / "cassettes/weather.jsonl").read_text().splitlines()
    assert json.loads(line)["result"]["answer"] == "second"


def test_what_drifted_is_told_at_the_end(pytest_in):
    pytest_in.write(TEST)
    pytest_in("--toolyard-record")
    pytest_in.write(
        TEST.replace(
            'asked(toolyard_yard, "oslo").result == {"place": "oslo", "answer": "first"}',
            'asked(toolyard_yard, "bergen").is_error',
        )
    )
    out = pytest_in()
    assert "toolyard cassettes" in out
    assert 'never played: n::look {"place":"oslo"}' in out
    assert 'arguments changed: n::look {"place":"bergen"}; recorded was n::look {"place":"oslo"}' in out
    (pytest_in.folder / "tools.py").write_text(TOOLS.replace("Look somewhere.", "Look elsewhere."))
    pytest_in.write(TEST)
    assert "definition changed: n::look has another definition now" in pytest_in()


def test_a_test_that_fails_is_told_beside_it_what_the_cassette_does_not_have(pytest_in):
    pytest_in.write(TEST)
    pytest_in("--toolyard-record")
    pytest_in.write(TEST.replace('asked(toolyard_yard, "oslo")', 'asked(toolyard_yard, "bergen")'))
    _, failure = pytest_in(code=1).split("= FAILURES =")
    beside, _ = failure.split("= toolyard cassettes =")
    assert 'arguments changed: n::look {"place":"bergen"}; recorded was n::look {"place":"oslo"}' in beside


def test_an_engine_of_the_tests_own_is_recorded_under_the_tests_name(pytest_in, tmp_path):
    pytest_in.write(
        """\
import pytest
from toolyard import PythonToolEngine, ToolCall, ToolRegistry, function_tool

CALLS = []

def look(place: str) -> str:
    CALLS.append(place)
    return place.upper()

@pytest.mark.parametrize("place", ["a b", "c/d"])
def test_own(toolyard_cassette, place):
    registry = ToolRegistry([function_tool(look, namespace="n")])
    engine = toolyard_cassette.engine(PythonToolEngine(registry))
    engine.setup("s")
    assert engine.execute("s", [ToolCall("n::look", {"place": place})])[0].result == place.upper()
    assert bool(CALLS) == (toolyard_cassette.mode == "record")
    CALLS.clear()
"""
    )
    pytest_in("--toolyard-record")
    pytest_in()
    assert [name[:12] for name in sorted(os.listdir(tmp_path / "cassettes/test_it"))] == [
        "test_own-a-b",
        "test_own-c-d",
    ]


def test_tests_that_share_a_cassette_add_to_it(pytest_in, tmp_path):
    pytest_in.write(TEST + "\n" + TEST.replace("oslo", "bergen").replace("test_it", "test_other"))
    pytest_in("--toolyard-record")
    pytest_in("--toolyard-record")
    assert len((tmp_path / "cassettes/weather.jsonl").read_text().splitlines()) == 2
    assert "never played" in pytest_in()


def test_the_marker_says_how_to_match_and_how_to_write(pytest_in, tmp_path):
    marked = TEST.replace('("weather")', '("weather.yaml", config="yard.yaml", match="strict", repeat=False)')
    (tmp_path / "pytest.ini").write_text("[pytest]\ntoolyard_cassettes = tapes\n")
    pytest_in.write(marked)
    pytest_in("--toolyard-record")
    assert (tmp_path / "tapes/weather.yaml").read_text().startswith("- name: n::look\n")
    pytest_in()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('("weather")', '("weather", matches="fifo")', "takes a name, config, match and repeat"),
        ('("weather")', '("weather", match="loosely")', "Invalid enum value 'loosely'"),
        ('("weather")', '("a", "b")', "takes a name"),
    ],
)
def test_a_marker_that_cannot_be_meant_is_refused(pytest_in, old, new, said):
    pytest_in.write(TEST.replace(old, new))
    assert said in pytest_in(code=1)


def test_a_yard_needs_a_config(pytest_in, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    pytest_in.write(TEST)
    assert "set toolyard_config" in pytest_in(code=1)


def test_a_policy_of_the_yard_holds_in_replay_too(pytest_in, tmp_path):
    (tmp_path / "yard.yaml").write_text(YARD + "policy: {budgets: [{max_calls: 1}]}\n")
    pytest_in.write(
        TEST
        + """\
    (result,) = toolyard_yard.tool_engine.execute("s", [ToolCall("n::look", {"place": "oslo"})])
    assert result.error_info.code == "tool.denied"
"""
    )
    assert "1 passed" in pytest_in("--toolyard-record")
    assert "1 passed" in pytest_in()


def test_the_plugin_is_found_by_pytest_and_costs_next_to_nothing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"toolyard": "toolyard.pytest_plugin"}
    code = "import sys, pytest; before = set(sys.modules); import toolyard.pytest_plugin; print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {name for name in done.stdout.split() if not name.startswith("toolyard")} <= {"__future__"}
    assert not any(name.startswith("toolyard.engines") for name in done.stdout.split())


def test_drift_is_told_of_tests_that_ran_in_other_processes(pytest_in):
    pytest_in.write(TEST)
    pytest_in("--toolyard-record")
    pytest_in.write(TEST.replace("assert asked", "assert True or asked"))
    assert 'never played: n::look {"place":"oslo"}' in pytest_in("-p", "xdist", "-n", "1")


NAMES = """\
import pytest
from toolyard import PythonToolEngine, ToolCall, ToolRegistry, function_tool

def look(place: str) -> str:
    return place.upper()

def check(cassette, place):
    registry = ToolRegistry([function_tool(look, namespace="n")])
    engine = cassette.engine(PythonToolEngine(registry))
    engine.setup("s")
    assert engine.execute("s", [ToolCall("n::look", {"place": place})])[0].result == place.upper()

@pytest.mark.parametrize("sign", ["<", ">", "1", "x" * 300])
def test_it(toolyard_cassette, sign):
    check(toolyard_cassette, sign)

class TestOne:
    def test_it(self, toolyard_cassette):
        check(toolyard_cassette, "one")

class TestTwo:
    def test_it(self, toolyard_cassette):
        check(toolyard_cassette, "two")
"""


def test_no_two_tests_have_one_cassette_by_accident(pytest_in, tmp_path):
    pytest_in.write(NAMES)
    pytest_in("--toolyard-record")
    assert "toolyard cassettes" not in pytest_in()
    names = sorted(os.listdir(tmp_path / "cassettes/test_it"))
    assert len(names) == 6
    assert {"TestOne.test_it.jsonl", "TestTwo.test_it.jsonl", "test_it-1.jsonl"} <= set(names)


def test_tests_that_share_a_cassette_record_it_together(pytest_in, tmp_path):
    places = ["oslo", "bergen", "bodo"]
    more = [TEST.replace("oslo", place).replace("test_it", f"test_{place}") for place in places]
    pytest_in.write("\n".join(more))
    for _ in range(2):
        pytest_in("--toolyard-record")
    assert len(Cassette.load(tmp_path / "cassettes/weather.jsonl")) == len(places)
    assert [file for file in os.listdir(tmp_path / "cassettes") if file.startswith(".")] == []
    assert "3 passed" in pytest_in()


def test_recording_from_several_processes_is_refused_with_what_to_do(pytest_in, tmp_path):
    pytest_in.write(TEST)
    said = pytest_in("--toolyard-record", "-p", "xdist", "-n", "2", code=4)
    assert "run it without pytest-xdist, or with -n0" in said
    assert not (tmp_path / "cassettes").exists()
    assert "1 passed" in pytest_in("--toolyard-record", "-p", "xdist", "-n", "0")


ALONE = """\
import asyncio, pytest
from toolyard import PythonToolEngine, ToolCall, ToolRegistry, Toolyard, function_tool
from tools import look

@pytest.fixture(scope="module")
def engine():
    with PythonToolEngine(ToolRegistry([function_tool(look, namespace="n")])) as made:
        yield made

def places(results):
    return [result.result["place"] for result in results]

@pytest.mark.toolyard_cassette
def test_a_yard_of_its_own():
    with Toolyard.from_config("yard.yaml") as yard:
        yard.tool_engine.setup("s")
        assert places(yard.tool_engine.execute("s", [ToolCall("n::look", {"place": "oslo"})])) == ["oslo"]
        assert len(yard.tool_engine.get_session_state("s")["tool_executions"]) == 1
        yard.tool_engine.setup("t", fork_of="s")
        assert places(yard.tool_engine.execute("t", [ToolCall("n::look", {"place": "moss"})])) == ["moss"]

@pytest.mark.toolyard_cassette
class TestClass:
    def test_an_engine_of_a_fixture(self, engine):
        async def ask():
            await engine.asetup("s")
            calls = [ToolCall("n::look", {"place": "bodo"})]
            found = await engine.aexecute("s", calls), await engine.asimulate("s", calls)
            await engine.ateardown("s")
            return found
        assert [places(found) for found in asyncio.run(ask())] == [["bodo"], ["bodo"]]

@pytest.mark.parametrize("place", ["live", pytest.param("vang", marks=pytest.mark.toolyard_cassette)])
def test_unmarked_ones_run_live(engine, place):
    engine.setup(place)
    assert places(engine.execute(place, [ToolCall("n::look", {"place": place})])) == [place]
"""


def test_the_marker_alone_records_and_replays_whatever_engine_is_called(pytest_in, tmp_path):
    pytest_in.write(ALONE)
    assert "no cassette" in pytest_in(code=1)
    assert pytest_in.places == ["live"]
    pytest_in("--toolyard-record")
    assert set(pytest_in.places[1:]) == {"oslo", "moss", "bodo", "vang", "live"}
    assert sorted(os.listdir(tmp_path / "cassettes/test_it")) == [
        "TestClass.test_an_engine_of_a_fixture.jsonl",
        "test_a_yard_of_its_own.jsonl",
        "test_unmarked_ones_run_live-vang.jsonl",
    ]
    pytest_in.asked.unlink()
    shown = pytest_in("--setup-show")
    assert "toolyard cassettes" not in shown
    assert shown.count("SETUP    F _toolyard_marked") == 3
    assert pytest_in.places == ["live"]


LIVE = """\
import pytest
from toolyard import ToolRegistry, function_tool
from tools import look

@pytest.mark.toolyard_cassette("weather")
def test_it():
    assert ToolRegistry([function_tool(look, namespace="n")]).dispatch("n::look", {"place": "oslo"})
"""


@pytest.mark.parametrize("options", [(), ("--toolyard-record",)])
def test_a_marked_test_that_runs_live_fails_and_says_why(pytest_in, tmp_path, options):
    pytest_in.write(LIVE)
    out = pytest_in(*options, code=1)
    assert "none of its calls went through a cassette" in out and "registry.dispatch" in out
    assert "1 failed" in out and not (tmp_path / "cassettes").exists()


def test_what_a_tool_calls_while_it_is_recorded_is_part_of_its_answer(pytest_in, tmp_path):
    pytest_in.write(
        """\
import pytest
from toolyard import PythonToolEngine, ToolCall, ToolRegistry, function_tool
from tools import look

def outer(place: str) -> str:
    inner = PythonToolEngine(ToolRegistry([function_tool(look, namespace="n")]))
    inner.setup("i")
    return inner.execute("i", [ToolCall("n::look", {"place": place})])[0].result["place"]

@pytest.mark.toolyard_cassette("outer")
def test_it():
    engine = PythonToolEngine(ToolRegistry([function_tool(outer, namespace="n")]))
    engine.setup("s")
    assert engine.execute("s", [ToolCall("n::outer", {"place": "oslo"})])[0].result == "oslo"
"""
    )
    pytest_in("--toolyard-record")
    (line,) = (tmp_path / "cassettes/outer.jsonl").read_text().splitlines()
    assert json.loads(line)["name"] == "n::outer"
    assert "toolyard cassettes" not in pytest_in()
    assert pytest_in.places == ["oslo"]
