"""`toolyard serve --watch`: an edited script is served without anybody asking for it."""

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
from toolyard.cli.serve import _watch_scripts

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


def test_only_script_sources_are_watched_and_the_flag_beats_the_config(config, capsys):
    [entry] = _watch_scripts(read_anything(config)).loaders
    assert entry.options["watch"] is True
    assert capsys.readouterr().err == ""
    catalog = config.with_name("catalog.json")
    catalog.write_text("[]")
    [entry] = _watch_scripts(read_anything(catalog)).loaders
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
