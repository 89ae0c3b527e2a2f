"""`toolyard serve --watch`: an edited file is served without anybody asking for it."""

import json
import os
import signal
import subprocess
import urllib.request

import pytest
from script_folder import Folder, script
from waiting import SOON, until
from warm_python import warm_toolyard

from toolyard.app.config import read_anything
from toolyard.cli.serve import _watch_sources

pytestmark = pytest.mark.process


@pytest.fixture
def config(tmp_path, monkeypatch):
    for name in ("TOOLYARD_CONFIG", "TOOL_REGISTRY_HOST", "TOOL_REGISTRY_PORT", "TOOL_REGISTRY_DOMAINS"):
        monkeypatch.delenv(name, raising=False)
    folder = Folder(tmp_path / "tools").allow("a.py")
    folder.put("a.py", script("a"))
    path = tmp_path / "yard.yaml"
    path.write_text("tools:\n  - {type: scripts, path: tools, namespace: yard, watch: false}\n")
    return path


def test_the_flag_beats_the_config_and_says_where_there_is_nothing_to_watch(config, capsys):
    [entry] = _watch_sources(read_anything(config)).loaders
    assert entry.options["watch"] is True
    assert capsys.readouterr().err == ""
    [entry] = _watch_sources(read_anything({"tools": [{"type": "domains", "domains": ["core"]}]})).loaders
    assert "watch" not in entry.options
    assert "nothing to watch" in capsys.readouterr().err


@pytest.fixture
def served(config):
    started = []

    def serve(*flags):
        process = warm_toolyard().start(
            ["-m", "toolyard", "serve", str(config), "--port", "0", "--log", "off", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return json.loads(process.stdout.readline())

    yield serve
    for process in started:
        process.terminate()
        process.communicate(timeout=3 * SOON)


def descriptions(url):
    with urllib.request.urlopen(f"{url}/v1/tools", timeout=SOON) as answer:
        return {tool["name"]: tool["description"] for tool in json.load(answer)}


def test_edits_are_served_with_watch(config, served):
    folder = Folder(config.parent / "tools")
    url = served("--watch")["url"]
    assert descriptions(url) == {"yard::a": "Says hello."}
    folder.put("a.py", script("a", "edited"))
    assert until(lambda: descriptions(url) == {"yard::a": "Says edited."})
    folder.put("b.py", script("b"))
    folder.allow("a.py", "b.py")
    assert until(lambda: set(descriptions(url)) == {"yard::a", "yard::b"})
    (folder.path / "a.py").unlink()
    assert until(lambda: set(descriptions(url)) == {"yard::b"})


def test_without_watch_edits_wait_until_they_are_asked_for(config, served):
    folder = Folder(config.parent / "tools")
    started = served()
    folder.put("a.py", script("a", "edited"))
    assert descriptions(started["url"]) == {"yard::a": "Says hello."}
    os.kill(started["pid"], signal.SIGHUP)
    assert until(lambda: descriptions(started["url"]) == {"yard::a": "Says edited."})


def test_edited_functions_and_catalogs_are_served_with_watch(config, served):
    (config.parent / "desk.py").write_text('def add(a: int) -> int:\n    "Add."\n    return a\n')
    catalog = config.with_name("more.yaml")
    catalog.write_text("- {name: b, description: First.}")
    config.write_text("tools: [{type: python, target: 'desk.py:add'}, {type: file, path: more.yaml, namespace: n}]")
    url = served("--watch")["url"]
    assert descriptions(url) == {"default::add": "Add.", "n::b": "First."}
    (config.parent / "desk.py").write_text('def add(a: int) -> int:\n    "Add more."\n    return a\n')
    assert until(lambda: descriptions(url)["default::add"] == "Add more.")
    catalog.write_text("- {name: b, descript")
    catalog.write_text("- {name: b, description: Second.}")
    assert until(lambda: descriptions(url)["n::b"] == "Second.")
