"""The promises of seed 004: tools from a directory of Python files, gated by an allow-list."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolyard import ConfigError, PythonToolEngine, Tool, ToolCall, ToolRegistry
from toolyard.scripts import append_tool_manifest, load_tool_manifest_allowlist, load_tools

pytestmark = pytest.mark.process

SINGLE = """
TOOL_NAME = "{name}"
TOOL_DESCRIPTION = "{description}"
TOOL_PARAMETERS = {{
    "type": "object",
    "properties": {{"city": {{"type": "string"}}}},
    "required": ["city"],
}}


async def run(**kwargs) -> str:
    return f"sunny in {{kwargs['city']}}"
"""
MULTI = """
async def _add(a, b):
    return str(a + b)

async def _negate(a):
    return str(-a)

_NUMBER = {"type": "number"}
TOOLS = [
    {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": _NUMBER, "b": _NUMBER}}, "handler": _add},
    {"name": "negate", "description": "Negate.", "parameters": {"type": "object", "properties": {"a": _NUMBER}}, "handler": _negate},
]
"""


@pytest.fixture
def tools(tmp_path):
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "weather.py").write_text(SINGLE.format(name="get_weather", description="The weather."))
    (folder / "numbers_.py").write_text(MULTI)
    allow(folder, "weather.py", "numbers_.py")
    return folder


@pytest.fixture
def registry():
    with ToolRegistry() as made:
        yield made


def allow(folder, *names):
    (folder / "_manifest.json").write_text(json.dumps({"allow": list(names)}))


def test_both_formats_become_tools(tools, registry):
    load_tools(tools, registry)
    assert registry.tool_names() == ["add", "get_weather", "negate"]
    [weather] = registry.get("default::get_weather")
    assert weather.description == "The weather."
    assert weather.parameters["required"] == ["city"]


def test_the_directory_may_be_text_or_a_path(tools, registry):
    load_tools(str(tools), registry)
    load_tools(Path(tools), registry)
    assert len(registry) == 3


def test_a_malformed_file_is_logged_as_a_warning_and_does_not_prevent_the_others(tools, registry, caplog):
    (tools / "broken.py").write_text("def (")
    (tools / "failing.py").write_text("raise RuntimeError('at import')")
    (tools / "nothing.py").write_text("x = 1")
    allow(tools, "broken.py", "failing.py", "weather.py", "nothing.py", "numbers_.py")
    load_tools(tools, registry)
    assert len(registry) == 3
    for name in ("broken.py", "failing.py", "nothing.py"):
        assert any(name in record.getMessage() for record in caplog.records if record.levelname == "WARNING")


def test_the_allow_list_is_the_set_of_names(tools):
    assert load_tool_manifest_allowlist(tools) == {"weather.py", "numbers_.py"}


@pytest.mark.parametrize("text", [None, "", "{", '{"other": 1}', "[1]"])
def test_a_missing_or_unreadable_manifest_yields_an_empty_set_and_loads_nothing(tools, registry, text):
    manifest = tools / "_manifest.json"
    manifest.unlink() if text is None else manifest.write_text(text)
    assert load_tool_manifest_allowlist(tools) == set()
    load_tools(tools, registry)
    assert len(registry) == 0


def test_nothing_that_is_not_listed_is_loaded(tools, registry):
    (tools / "stray.py").write_text(SINGLE.format(name="stray", description=""))
    allow(tools, "weather.py")
    load_tools(tools, registry)
    assert registry.tool_names() == ["get_weather"]


def test_a_missing_directory_is_warned_about_and_skipped(tmp_path, registry, caplog):
    load_tools(tmp_path / "nowhere", registry)
    assert len(registry) == 0
    assert any("nowhere" in record.getMessage() for record in caplog.records if record.levelname == "WARNING")


def test_append_makes_a_new_tool_loadable_on_the_next_scan(tools, registry):
    load_tools(tools, registry)
    (tools / "made.py").write_text(SINGLE.format(name="made", description="Made at runtime."))
    append_tool_manifest("made.py", tools)
    load_tools(tools, registry)
    assert "default::made" in registry
    assert load_tool_manifest_allowlist(tools) == {"weather.py", "numbers_.py", "made.py"}


def test_append_accepts_a_file_that_is_not_there_yet(tools, registry):
    append_tool_manifest("later.py", str(tools))
    (tools / "later.py").write_text(SINGLE.format(name="later", description=""))
    load_tools(tools, registry)
    assert "default::later" in registry


def test_append_raises_file_not_found_without_a_manifest(tools, tmp_path, monkeypatch):
    (tools / "_manifest.json").unlink()
    with pytest.raises(FileNotFoundError):
        append_tool_manifest("new.py", tools)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        append_tool_manifest("new.py")
    with pytest.raises(FileNotFoundError):
        append_tool_manifest("new.py", tmp_path / "nowhere")


def test_append_on_a_corrupt_manifest_is_refused_and_leaves_it_unchanged(tools):
    (tools / "_manifest.json").write_text('{"allow": ["weather.py", ')
    with pytest.raises(Exception, match="_manifest"):
        append_tool_manifest("new.py", tools)
    assert (tools / "_manifest.json").read_text() == '{"allow": ["weather.py", '


APPEND = """
import os, sys, traceback
from toolyard.scripts import append_tool_manifest

waiting, begin = os.pipe()
writers = []
for n in range(50):
    writers.append(os.fork())
    if writers[-1] == 0:
        code = 1
        try:
            os.close(begin)
            os.read(waiting, 1)
            append_tool_manifest(f"new_{n}.py", sys.argv[1])
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
os.close(begin)
print(*(os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers))
"""


@pytest.mark.process
def test_fifty_processes_that_append_at_once_are_fifty_entries(tools):
    done = subprocess.run([sys.executable, "-c", APPEND, str(tools)], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["0"] * 50, "")
    assert load_tool_manifest_allowlist(tools) == {"weather.py", "numbers_.py", *(f"new_{n}.py" for n in range(50))}
    assert not [path.name for path in tools.iterdir() if ".new-" in path.name]


def test_aliases_resolve_and_are_not_further_tools(tools, registry):
    with (tools / "weather.py").open("a") as file:
        file.write("\nTOOL_ALIASES = ['forecast']\n")
    load_tools(tools, registry)
    assert registry.get("default::forecast") == registry.get("default::get_weather") != []
    assert registry.tool_names() == ["add", "get_weather", "negate"]


def test_flags_of_a_tool_are_kept(tools, registry):
    with (tools / "weather.py").open("a") as file:
        file.write("\nNO_BACKGROUND = True\nALLOW_REPEAT = True\n")
    load_tools(tools, registry)
    assert registry.get("default::get_weather")[0].metadata == {"no_background": True, "allow_repeat": True}


def test_an_edit_is_loaded_though_the_module_was_imported_before(tools, registry):
    load_tools(tools, registry)
    (tools / "weather.py").write_text(SINGLE.format(name="get_weather", description="Edited."))
    load_tools(tools, registry)
    assert registry.get("default::get_weather")[0].description == "Edited."


def test_a_deleted_tool_disappears_and_tools_of_others_stay(tools, registry):
    registry.add(Tool("mine", "default"))
    load_tools(tools, registry)
    (tools / "weather.py").unlink()
    load_tools(tools, registry)
    assert registry.tool_names() == ["add", "mine", "negate"]


def test_a_broken_edit_keeps_the_last_good_version_and_is_reported(tools, registry):
    load_tools(tools, registry)
    (tools / "weather.py").write_text("def (")
    load_tools(tools, registry)
    assert registry.get("default::get_weather")[0].description == "The weather."
    assert any("weather.py" in item.where for item in registry.report.rejected)


def test_two_files_of_one_name_are_an_error_that_names_both(tools, registry):
    (tools / "twin.py").write_text(SINGLE.format(name="get_weather", description="Twin."))
    append_tool_manifest("twin.py", tools)
    load_tools(tools, registry)
    [rejected] = registry.report.rejected
    assert "twin.py" in rejected.reason and "weather.py" in rejected.reason
    assert len(registry.get("default::get_weather")) == 1


def test_with_hashes_changed_bytes_are_refused(tools, registry):
    import hashlib

    digest = hashlib.sha256((tools / "weather.py").read_bytes()).hexdigest()
    (tools / "_manifest.json").write_text(json.dumps({"allow": {"weather.py": f"sha256:{digest}"}}))
    assert load_tool_manifest_allowlist(tools) == {"weather.py"}
    (tools / "weather.py").write_text(SINGLE.format(name="get_weather", description="Evil."))
    load_tools(tools, registry)
    assert len(registry) == 0
    (tools / "weather.py").write_text(SINGLE.format(name="get_weather", description="The weather."))
    load_tools(tools, registry)
    assert registry.tool_names() == ["get_weather"]


WRITER = """
import asyncio
from pathlib import Path
from toolyard.scripts import append_tool_manifest, load_tools

TOOL_NAME = "write_python_tool"
TOOL_DESCRIPTION = "Write another tool."
TOOL_PARAMETERS = {"type": "object", "properties": {"file": {"type": "string"}, "code": {"type": "string"}}}

async def run(file, code):
    tools = Path("TOOLS")
    (tools / file).write_text(code)
    await asyncio.to_thread(append_tool_manifest, file, tools)
    import yard_seed_host
    await asyncio.to_thread(load_tools, tools, yard_seed_host.REGISTRY)
    return "written"
"""


def test_a_tool_that_writes_another_and_allows_it_works_in_process(tools, registry, monkeypatch):
    monkeypatch.setitem(sys.modules, "yard_seed_host", SimpleNamespace(REGISTRY=registry))
    (tools / "write_python_tool.py").write_text(WRITER.replace('"TOOLS"', repr(str(tools))))
    append_tool_manifest("write_python_tool.py", tools)
    report = load_tools(tools, registry, isolation="inprocess")
    assert (report.loaded, report.rejected) == (4, ())
    with PythonToolEngine(registry) as engine:
        engine.setup("s")
        code = SINGLE.format(name="made", description="Made by a tool.")
        (written,) = engine.execute("s", [ToolCall("default::write_python_tool", {"file": "made.py", "code": code})])
        (made,) = engine.execute("s", [ToolCall("default::made", {"city": "Oslo"})])
        assert (written.result, made.result) == ("written", "sunny in Oslo")
    assert "made.py" in load_tool_manifest_allowlist(tools)


def test_a_worker_has_the_package_itself(tools, registry):
    (tools / "versed.py").write_text(
        "import toolyard.scripts\n" + SINGLE.format(name="versed", description="").replace("sunny in", "versed in")
    )
    append_tool_manifest("versed.py", tools)
    assert load_tools(tools, registry).rejected == ()


def test_how_a_directory_is_isolated_is_decided_once(tools, registry):
    load_tools(tools, registry, isolation="inprocess")
    assert load_tools(tools, registry).loaded == load_tools(tools, registry, isolation="inprocess").loaded == 3
    with pytest.raises(ConfigError, match="inprocess"):
        load_tools(tools, registry, isolation="process")
    with pytest.raises(ConfigError, match="isolation"):
        load_tools(tools, ToolRegistry(), isolation="thread")
