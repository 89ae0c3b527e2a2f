"""Scripts that mean harm, through source and engine; what each sandbox level denies is tested in `links/scripts`."""

from pathlib import Path

import pytest
from script_folder import Folder
from waiting import SOON

from engines.scripts.support import call, code, put, yard
from toolyard import ScriptToolEngine, ScriptToolLoader, ToolRegistry

pytestmark = pytest.mark.process

FINE = "def run():\n    return 'fine'\n"
FAILED, LATE = ("tool.execution_error", "unknown"), ("tool.timeout", "unknown")


def test_a_file_that_hangs_dies_or_breaks_when_it_is_loaded_spoils_no_other(tmp_path, ending_level):
    folder = Folder(tmp_path / "t")
    bad = {
        "loops": "while True: pass",
        "exits": "import os; os._exit(0)",
        "patches": "import builtins\nbuiltins.len = builtins.isinstance = None\nraise SystemExit",
    }
    for name, text in bad.items():
        put(folder, name, text + "\n" + FINE)
        put(folder, f"after_{name}", FINE)
    loader = ScriptToolLoader(folder.path, sandbox=ending_level, load_timeout=1.0)
    with ToolRegistry.from_loaders([loader]) as registry:
        assert sorted(registry.tool_names()) == sorted(f"after_{name}" for name in bad)
        assert {Path(item.where).stem for item in registry.report.rejected} == set(bad)
        with ScriptToolEngine(registry) as engine:
            engine.setup("s")
            assert all(call(engine, f"after_{name}").result == "fine" for name in bad)


ENDS_BADLY = {
    "deaf_loop": (
        "import signal\n    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    while True: pass",
        LATE,
    ),
    "_exit": ("import os; os._exit(0)", FAILED),
    "ten_gigabytes_bit_by_bit": ("x = []\n    while True: x.append('x' * 10_000_000)", FAILED),
    "recursion": ("import sys; sys.setrecursionlimit(10 ** 9)\n    def f(n): return f(n + 1)\n    f(0)", FAILED),
}


def test_what_ends_badly_is_an_error_of_its_call_alone(tmp_path, ending_level):
    bodies = {name: f"def run():\n    {body}\n" for name, (body, _) in ENDS_BADLY.items()}
    # Little memory is used up sooner.
    options = {"sandbox": ending_level, "memory_bytes": 128 << 20}
    found = {}
    with yard(tmp_path / "t", {**bodies, "fine": FINE}, options=options) as (_, _, engine):
        for name, (_, expected) in ENDS_BADLY.items():
            found[name] = code(call(engine, name, timeout=0.5 if expected is LATE else SOON))
            assert call(engine, "fine").result == "fine", name
    assert found == {name: expected for name, (_, expected) in ENDS_BADLY.items()}


def test_a_variable_that_is_named_is_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_YARD_SETTING", "on")
    body = "import os\ndef run():\n    return os.environ['TEST_YARD_SETTING']\n"
    with yard(tmp_path / "t", {"sees": body}, options={"env": ["TEST_YARD_SETTING"]}) as (_, _, engine):
        assert call(engine, "sees").result == "on"
