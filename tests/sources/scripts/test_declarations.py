"""Declarations come out of a process that ran a stranger's code, so nothing in them is believed."""

import hashlib

import pytest
from hypothesis import given, strategies as st

from toolyard import DefinitionError
from toolyard.links.scripts import Code, DeclaredTools, ScriptPool, WorkerSettings
from toolyard.links.scripts.fork_server import ForkServer
from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import ConfigError, SourceUnavailable, Unavailable
from toolyard.sources.scripts.loader import declare_scripts, read_tool

SCRIPT = ScriptBinding("/d", "f.py", sha256="sha256:0", code=b"code", timeout=30.0)
GOOD = {"name": "x", "description": "d", "parameters": {"type": "object"}, "handler": "run"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["name", "description", "parameters", "output", "aliases", "timeout", "effects", "tags", "version", "flags", "left_out", "handler", "takes_ctx", "is_async"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_whatever_is_declared_is_a_tool_or_a_definition_error(changes):
    try:
        candidate, _ = read_tool({**GOOD, **changes}, SCRIPT, namespace="default", source="/d")
    except DefinitionError:
        return
    tool = candidate.tool
    assert tool.namespace == "default" and tool.source == "/d"
    assert tool.binding.timeout > 0
    assert set(tool.metadata) <= set(changes.get("flags") or ())
    assert (candidate.tool.source, candidate.place) == ("/d", "/f.py")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"handler": "__import__('os').system"}, "handler"),
        ({"handler": "TOOLS[-1]"}, "handler"),
        ({"handler": "os.system"}, "handler"),
        ({"timeout": float("nan")}, "TOOL_TIMEOUT"),
        ({"timeout": True}, "TOOL_TIMEOUT"),
        ({"timeout": float("inf")}, "TOOL_TIMEOUT"),
        ({"aliases": [1]}, "aliases"),
        ({"aliases": ["a::b"]}, "::"),
        ({"tags": {"a": 1}}, "tags"),
        ({"version": 1}, "version"),
        ({"effects": "sometimes"}, "effects"),
        ({"parameters": []}, "parameters"),
        ({"output": "text"}, "output"),
        ({"name": None}, "name"),
        ({"takes_ctx": True, "parameters": {"type": "object", "properties": {"ctx": {}}}}, "ctx"),
    ],
)
def test_what_a_tool_cannot_be_says_why(changes, reason):
    with pytest.raises(DefinitionError, match=reason):
        read_tool({**GOOD, **changes}, SCRIPT, namespace="default", source="/d")


TEXT = b"TOOL_NAME = 'a'\nTOOL_DESCRIPTION = 'b'\nTOOL_PARAMETERS = {}\ndef run(): pass\n"
CODES = [Code(f"{name}.py", hashlib.sha256(TEXT).hexdigest(), TEXT) for name in "ab"]


@pytest.mark.process
def test_nobody_is_left_of_the_processes_that_read_files(monkeypatch):
    made, start = [], ForkServer.start

    def noted(nursery):
        start(nursery)
        made.append(nursery)

    monkeypatch.setattr(ForkServer, "start", noted)
    assert [type(item) for item in declare_scripts(CODES, WorkerSettings(), "here")] == [DeclaredTools, DeclaredTools]
    assert [nursery._process for nursery in made] == [None]


def test_what_stands_against_reading_files_is_said(monkeypatch):
    def refuse(_sandbox):
        raise ConfigError("not here")

    monkeypatch.setattr("toolyard.links.scripts.pool.probe_level", refuse)
    with pytest.raises(ConfigError, match="not here"):
        declare_scripts(CODES, WorkerSettings(), "here")


def test_without_workers_the_source_is_unavailable(monkeypatch):
    def fail(*_args, **_named):
        raise Unavailable("nobody came")

    monkeypatch.setattr(ScriptPool, "declare", fail)
    with pytest.raises(SourceUnavailable, match="here: no worker could read the scripts: nobody came"):
        declare_scripts(CODES, WorkerSettings(), "here")
