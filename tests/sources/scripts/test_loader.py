"""Script directories as a source: what becomes a tool, what does not, and that nothing is run in this process."""

import os
import sys
import types

import pytest
from script_folder import Folder, script

from toolyard import ConfigError, DuplicateToolError, InvalidArguments, MalformedSource, ToolCall, ToolRegistry
from toolyard.model import Effects
from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import ManifestError, SourceUnavailable
from toolyard.plugins import get_tool_loader
from toolyard.scripts import ScriptToolLoader
from toolyard.sources.scripts.manifest import sha256_of

pytestmark = pytest.mark.process

MANY = """
def _add(a, b):
    return a + b

async def _shout(text, ctx):
    return text.upper()

_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "add", "description": "Adds.", "parameters": {"type": "object"}, "handler": _add},
    {"name": "shout", "description": "Shouts.", "parameters": _TEXT, "handler": _shout, "timeout": 3},
]
"""


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "tools")


@pytest.fixture
def load(folder):
    """Load what the folder holds, all of it allowed."""
    made = []

    def load(**options):
        loader = ScriptToolLoader(folder.path, **options)
        made.append(loader)
        if not folder.manifest.exists():
            folder.allow(*sorted(path.name for path in folder.path.glob("*.py")))
        return loader, {tool.name: tool for tool in loader.load()}

    yield load
    for loader in made:
        loader.close()


def test_a_file_with_one_tool(folder, load):
    path = folder.put("greet.py", script("greet"))
    loader, tools = load()
    tool = tools["greet"]
    assert (tool.qualified_name, tool.description) == ("default::greet", "Says hello.")
    assert tool.parameters["properties"] == {"n": {"type": "integer"}}
    assert (tool.version, tool.tags, tool.aliases, tool.metadata) == (None, (), (), {})
    assert tool.effects is Effects.UNKNOWN and tool.source == str(folder.path)
    binding = tool.binding
    assert isinstance(binding, ScriptBinding)
    assert (binding.directory, binding.file, binding.handler) == (os.path.realpath(folder.path), "greet.py", "run")
    assert binding.code == path.read_bytes() and binding.sha256 == sha256_of(binding.code)
    assert (binding.isolation, binding.timeout, binding.takes_ctx, binding.is_async) == ("process", 30.0, False, True)
    assert loader.report.loaded == 1 and loader.report.rejected == ()


def test_a_file_with_several_tools(folder, load):
    folder.put("many.py", MANY)
    _, tools = load(namespace="calc", timeout=7)
    assert list(tools) == ["add", "shout"]
    assert [tool.namespace for tool in tools.values()] == ["calc", "calc"]
    add, shout = (tool.binding for tool in tools.values())
    assert (add.handler, shout.handler) == ("TOOLS[0]", "TOOLS[1]")
    assert (add.timeout, shout.timeout) == (7.0, 3.0)
    assert (add.takes_ctx, shout.takes_ctx) == (False, True)
    assert (add.is_async, shout.is_async) == (False, True)


def test_flags_of_a_tool(folder, load):
    flags = (
        'TOOL_TIMEOUT = 2.5\nTOOL_EFFECTS = "write"\nTOOL_TAGS = ["x", "y"]\nTOOL_VERSION = "1.2.0"\n'
        'TOOL_ALIASES = ["hi"]\nNO_BACKGROUND = True\nALLOW_REPEAT = True\n'
        'TOOL_OUTPUT = {"type": "string"}\n'
    )
    folder.put("greet.py", script("greet") + flags)
    _, tools = load()
    tool = tools["greet"]
    assert tool.binding.timeout == 2.5
    assert tool.effects is Effects.WRITE
    assert (tool.tags, tool.version, tool.aliases) == (("x", "y"), "1.2.0", ("hi",))
    assert tool.metadata == {"no_background": True, "allow_repeat": True}
    assert tool.output_parameters == {"type": "string"}


def test_flags_of_the_authors_own_are_metadata_and_what_cannot_be_is_listed(folder, load):
    flags = (
        "TOOL_NO_BACKGROUND = True\nTOOL_COST = {'usd': 0.5}\nTOOL_QUIET = False\nTOOL_LOCK = object()\nTOOLING = 1\n"
    )
    folder.put("greet.py", script("greet") + flags)
    folder.put("many.py", MANY.replace('"name": "add"', '"name": "add", "beta": True') + "TOOL_NO_BACKGROUND = True\n")
    loader, tools = load()
    assert tools["greet"].metadata == {"no_background": True, "cost": {"usd": 0.5}, "quiet": False}
    assert tools["add"].metadata == {"no_background": True, "beta": True}
    assert tools["shout"].metadata == {"no_background": True}
    listed = [(item.tool, item.pointer, item.change) for item in loader.report.rewrites]
    assert listed == [("default::greet", "/TOOL_LOCK", "is not JSON, so not a flag")]


BROKEN = {
    "syntax.py": ("def (", "SyntaxError"),
    "raises.py": ("raise RuntimeError('no database')", "no database"),
    "exits.py": ("import sys; sys.exit(3)", "SystemExit"),
    "ends.py": ("import os; os._exit(0)", ""),
    "crashes.py": ("import os; os.abort()", ""),
    "empty.py": ("", "TOOL_NAME"),
    "nameless.py": ("TOOL_NAME = 5\nTOOL_DESCRIPTION = 'x'\nTOOL_PARAMETERS = {}\ndef run(): ...", "TOOL_NAME"),
    "no_run.py": ("TOOL_NAME = 'x'\nTOOL_DESCRIPTION = 'x'\nTOOL_PARAMETERS = {}", "run"),
    "no_list.py": ("TOOLS = 5", "TOOLS"),
    "no_dict.py": ("TOOLS = [5]", "TOOLS"),
    "bad_schema.py": (script("bad").replace("'type': 'object'", "'type': 'strnig'"), "parameters of default::bad"),
    "bad_name.py": (script("a::b"), "::"),
    "bad_effects.py": (script("eff") + "TOOL_EFFECTS = 'maybe'", "effects"),
    "bad_timeout.py": (script("tim") + "TOOL_TIMEOUT = -1", "timeout"),
    "bytes.py": ("\x00\x01", ""),
}


def test_one_bad_file_never_blocks_the_rest_and_is_logged_and_listed(folder, load, caplog):
    for name, (text, _) in BROKEN.items():
        folder.put(name, text)
    folder.put("aaa.py", script("first"))
    folder.put("zzz.py", script("last"))
    loader, tools = load()
    assert list(tools) == ["first", "last"]
    assert {os.path.basename(item.where) for item in loader.report.rejected} == set(BROKEN)
    reasons = {os.path.basename(item.where): item.reason for item in loader.report.rejected}
    for name, (_, reason) in BROKEN.items():
        assert reason.lower() in reasons[name].lower()
        assert str(folder.path / name) in caplog.text
    assert loader.report.entries == loader.report.loaded + len(loader.report.rejected)


def test_a_file_that_never_ends_is_given_up_and_the_others_load(folder, load):
    folder.put("aaa.py", script("first"))
    folder.put("hangs.py", "while True: pass")
    folder.put("sleeps.py", "import time; time.sleep(3600)")
    folder.put("zzz.py", script("last"))
    loader, tools = load(load_timeout=3)
    assert list(tools) == ["first", "last"]
    assert [os.path.basename(item.where) for item in loader.report.rejected] == ["hangs.py", "sleeps.py"]


def test_a_thread_that_a_file_starts_does_not_keep_it_from_loading(folder, load):
    folder.put("t.py", script("t") + "import threading, time\nthreading.Thread(target=time.sleep, args=[3600]).start()")
    _, tools = load()
    assert list(tools) == ["t"]


def test_what_a_script_raises_cannot_write_lines_of_its_own_into_the_log(folder, load, caplog):
    folder.put("liar.py", "raise RuntimeError('one\\nERROR two\\x1b[31m' + 'x' * 9999)")
    loader, _ = load()
    [rejected] = loader.report.rejected
    assert "one ERROR two\\x1b[31mxxx" in rejected.reason and len(rejected.reason) < 700
    assert "\n" not in rejected.reason and "\x1b" not in caplog.text


def test_nothing_of_a_script_is_run_in_this_process(folder, load):
    own = "import os, sys\nTOOL_DESCRIPTION = str(os.getpid())\nsys.modules['toolyard_was_here'] = sys\n"
    folder.put("who.py", script("who") + own)
    _, tools = load()
    assert tools["who"].description != str(os.getpid()) and tools["who"].description.isdigit()
    assert "toolyard_was_here" not in sys.modules
    assert not [name for name in sys.modules if name.endswith("who")]


def test_modules_that_somebody_planted_are_not_taken_for_the_file(folder, load, monkeypatch):
    planted = types.ModuleType("tools.greet")
    planted.TOOL_NAME = "evil"
    for name in ("tools.greet", "greet", "tools"):
        monkeypatch.setitem(sys.modules, name, planted)
    folder.put("greet.py", script("greet"))
    _, tools = load()
    assert list(tools) == ["greet"]
    assert sys.modules["tools.greet"] is planted


def test_one_file_cannot_change_what_another_declares(folder, load):
    evil = "import builtins, sys\nbuiltins.str = builtins.dict = None\nsys.modules['json'] = None\n"
    folder.put("a_evil.py", script("evil") + evil)
    folder.put("b.py", "import json\n" + script("b") + "TOOL_DESCRIPTION = str(dict(a=1))")
    _, tools = load(workers=1)
    assert tools["b"].description == "{'a': 1}"


def test_one_bad_entry_of_several_is_left_out_alone(folder, load):
    folder.put("many.py", MANY.replace('"name": "shout"', '"name": "a::b"'))
    loader, tools = load()
    assert list(tools) == ["add"]
    assert loader.report.rejected[0].tool == "a::b"


def test_a_missing_directory_gives_nothing_and_is_listed(tmp_path, caplog):
    loader = ScriptToolLoader(tmp_path / "nowhere")
    assert loader.load() == []
    assert "nowhere" in loader.report.rejected[0].where
    assert "nowhere" in caplog.text
    with pytest.raises(SourceUnavailable):
        ScriptToolLoader(tmp_path / "nowhere", on_error="raise").load()


@pytest.mark.parametrize("text", [None, "{", '{"allow": 5}', "[]"])
def test_without_a_usable_manifest_nothing_is_loaded(folder, text, caplog):
    folder.put("greet.py", script("greet"))
    if text is not None:
        folder.manifest.write_text(text)
    loader = ScriptToolLoader(folder.path)
    assert loader.load() == []
    assert len(loader.report.rejected) == 1 and "manifest" in loader.report.rejected[0].reason
    with pytest.raises(ManifestError):
        ScriptToolLoader(folder.path, on_error="raise").load()


def test_what_the_gate_refuses_is_listed_with_the_reason(folder, tmp_path):
    (tmp_path / "evil.py").write_text(script("evil"))
    (folder.path / "link.py").symlink_to(tmp_path / "evil.py")
    os.mkfifo(folder.path / "pipe.py")
    (folder.path / "folder.py").mkdir()
    folder.put("open.py", script("open")).chmod(0o666)
    folder.put("json.py", script("json"))
    folder.put("Twin.py", script("twin"))
    folder.put("twin.py", script("twin"))
    folder.put("stray.py", script("stray"))
    folder.put("good.py", script("good"))
    bad = ["link.py", "pipe.py", "folder.py", "open.py", "json.py", "Twin.py", "twin.py", "gone.py"]
    bad += ["../x.py", "/etc/x.py", "a/b.py", "n\0l.py", "__init__.py", "_manifest.json"]
    folder.allow("good.py", *bad)
    loader = ScriptToolLoader(folder.path)
    assert [tool.name for tool in loader.load()] == ["good"]
    told = " | ".join(f"{item.where}: {item.reason}" for item in loader.report.rejected)
    for reason in (
        *("link.py: this is a symbolic link", "pipe.py: this is a pipe", "folder.py: this is a directory"),
        *("open.py: it is writable", "'json.py' has the name of a module", "'Twin.py' differs from 'twin.py'"),
        *("'twin.py' differs from 'Twin.py'", "gone.py: in _manifest.json, but not", "stray.py: not in _manifest.json"),
        *("'../x.py' is a path", "'/etc/x.py' is a path", "'a/b.py' is a path", "'n\\x00l.py' holds"),
        *("'__init__.py' marks a package", "'_manifest.json' is not the name of a script"),
    ):
        assert reason in told
    assert len(loader.report.rejected) == len(bad) + 1


def test_with_on_error_raise_a_bad_file_raises_but_one_that_nobody_allowed_does_not(folder):
    folder.put("good.py", script("good"))
    folder.put("stray.py", "raise RuntimeError")
    folder.allow("good.py")
    assert len(ScriptToolLoader(folder.path, on_error="raise").load()) == 1
    folder.put("bad.py", "raise RuntimeError('no database')")
    folder.allow("good.py", "bad.py")
    with pytest.raises(MalformedSource, match=r"bad\.py.*no database"):
        ScriptToolLoader(folder.path, on_error="raise").load()


def test_a_changed_file_is_refused_where_the_manifest_has_its_hash(folder):
    good = folder.put("good.py", script("good"))
    changed = folder.put("changed.py", script("changed"))
    folder.allow(**{name.name: sha256_of(name.read_bytes()) for name in (good, changed)})
    changed.write_text(script("evil"))
    loader = ScriptToolLoader(folder.path)
    assert [tool.name for tool in loader.load()] == ["good"]
    assert "its content does not match the hash" in loader.report.rejected[0].reason


def test_two_files_that_claim_one_name_are_both_named_and_the_first_stays(folder, load):
    folder.put("a.py", script("same", "first"))
    folder.put("b.py", script("same", "second").replace("'n'", "'m'"))
    loader, tools = load()
    assert tools["same"].binding.file == "a.py"
    [rejected] = loader.report.rejected
    assert "a.py" in rejected.reason and "b.py" in rejected.reason
    assert rejected.error == "DuplicateToolError" and rejected.tool == "same"
    with pytest.raises(DuplicateToolError, match=r"a\.py and by b\.py"):
        load(on_duplicate="raise")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (script("one") + "TOOL_ALIASES = ['two']", script("two")),
        (script("two"), script("one") + "TOOL_ALIASES = ['two']"),
        (script("two") + "TOOL_ALIASES = ['x']", script("one") + "TOOL_ALIASES = ['x']"),
    ],
)
def test_an_alias_hides_no_tool_and_no_other_alias(folder, load, first, second):
    folder.put("a.py", first)
    folder.put("b.py", second)
    loader, tools = load()
    assert list(tools) == ["two"]
    [rejected] = loader.report.rejected
    assert "a.py" in rejected.reason and "b.py" in rejected.reason and rejected.tool == "one"


def test_arguments_are_checked_before_anything_runs(folder):
    folder.put("greet.py", script("greet"))
    folder.allow("greet.py")
    with ToolRegistry.from_loaders([ScriptToolLoader(folder.path)]) as registry:
        for bad in ({"n": "many"}, {"ctx": {}}, {"x": 1}):
            with pytest.raises(InvalidArguments):
                registry.bind(ToolCall("default::greet", bad))


def test_ctx_is_filled_in_and_cannot_be_a_parameter(folder, load):
    declares = script("greet").replace("(n: int = 1)", "(n=1, ctx=None)").replace("'n': {", "'ctx': {")
    folder.put("greet.py", declares)
    loader, tools = load()
    assert tools == {} and "'ctx'" in loader.report.rejected[0].reason


def test_the_code_is_not_in_the_repr_of_a_tool(folder, load):
    folder.put("greet.py", script("greet") + "PASSWORD = 'hunter2'")
    _, tools = load()
    assert "hunter2" not in repr(tools["greet"]) and "greet.py" in repr(tools["greet"].binding)


def test_the_loader_is_registered_as_scripts(folder):
    loader = get_tool_loader("scripts", path=str(folder.path), namespace="x")
    assert isinstance(loader, ScriptToolLoader) and loader.namespace == "x"
    assert (loader.on_error, loader.on_duplicate) == ("skip", "skip")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"isolation": "thread"}, "isolation: no such choice 'thread'; write one of process, inprocess"),
        ({"sandbox": "jail"}, "sandbox: no such choice 'jail'; write one of auto"),
        ({"imports": "all"}, "imports: no such choice 'all'; write one of site, stdlib"),
        ({"timeout": 0}, "timeout: must be above 0, not 0"),
        ({"load_timeout": "5"}, "load_timeout: must be a number, not text"),
        ({"workers": 0}, "workers: must be 1 or more, not 0"),
        ({"memory_bytes": 1.5}, "memory_bytes: must be a whole number, not number"),
        ({"memory_bytes": 1000}, "memory_bytes: must be 67108864 or more, not 1000"),
        ({"files": 3}, "files: must be 16 or more, not 3"),
        ({"uid": 0}, "uid: must be 1 or more, not 0"),
        ({"env": "HOME"}, "env: must be a list, not text"),
        ({"env": ["TOKEN=hunter2"]}, "'TOKEN' must be only a name"),
        ({"on_error": "ignore"}, "on_error"),
        ({"watch": "no"}, "watch: must be true or false"),
    ],
)
def test_a_wrong_option_is_said_at_once(folder, options, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        ScriptToolLoader(folder.path, **options)
    assert "hunter2" not in str(caught.value)
