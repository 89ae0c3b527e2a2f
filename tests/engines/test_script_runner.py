"""`isolation: inprocess`: by explicit choice, and under a name of its own."""

import asyncio
import json
import os
import sys
import threading

import pytest
from waiting import SOON

from conftest import chosen_way, ways_to_try
from engines.scripts.support import acall, call, code, put, yard
from toolyard import PythonToolEngine, ScriptToolEngine

pytestmark = pytest.mark.process

HERE = {"isolation": "inprocess"}
PID = "import os\ndef run():\n    return os.getpid()\n"


@pytest.fixture(params=ways_to_try("scripts", "python"))
def engine_class(request):
    """Either engine that answers scripts: both by the same runner."""
    return ScriptToolEngine if chosen_way(request) == "scripts" else PythonToolEngine


def test_only_who_asks_for_it_runs_here(tmp_path, engine_class):
    with yard(tmp_path / "a", {"pid": PID}, engine=engine_class) as (_, _, engine):
        assert call(engine, "pid").result != os.getpid()
    with yard(tmp_path / "b", {"pid": PID}, engine=engine_class, options=HERE) as (_, _, engine):
        assert call(engine, "pid").result == os.getpid()


def test_a_script_hides_no_module_whatever_its_name(tmp_path):
    before = dict(sys.modules)
    bodies = {"mine": "NAME = __name__\ndef run():\n    return NAME\n", "other": "def run():\n    return __name__\n"}
    with yard(tmp_path / "t", bodies, options=HERE) as (_, _, engine):
        names = {call(engine, name).result for name in bodies}
        assert len(names) == 2 and all(name.startswith("toolyard_script_") for name in names)
        assert sys.modules["json"] is json and all(sys.modules[name] is module for name, module in before.items())
        assert names <= set(sys.modules)
    assert not names & set(sys.modules)


def test_two_engines_do_not_share_what_a_script_keeps(tmp_path):
    body = "count = 0\ndef run():\n    global count\n    count += 1\n    return count\n"
    with (
        yard(tmp_path / "t", {"count": body}, options=HERE) as (_, registry, engine),
        ScriptToolEngine(registry) as other,
    ):
        other.setup("s")
        assert [call(engine, "count").result, call(engine, "count").result, call(other, "count").result] == [1, 2, 1]


def test_an_edit_is_another_module(tmp_path):
    with yard(tmp_path / "t", {"edit": "def run():\n    return 'old'\n"}, options=HERE) as (folder, registry, engine):
        assert call(engine, "edit").result == "old"
        put(folder, "edit", "def run():\n    return 'new'\n")
        assert call(engine, "edit").result == "old"
        registry.refresh()
        assert call(engine, "edit").result == "new"


def test_classes_that_look_up_their_module_work(tmp_path):
    body = """
from __future__ import annotations
import dataclasses, typing
@dataclasses.dataclass
class Point:
    x: int
    y: typing.ClassVar[int] = 2
def run():
    return dataclasses.asdict(Point(1))
"""
    folder = tmp_path / "t"
    text = body.replace("from __future__ import annotations\n", "")
    with yard(folder, {"point": text}, options=HERE) as (_, registry, engine):
        assert call(engine, "point").result == {"x": 1}
        path = folder / "point.py"
        path.write_text("from __future__ import annotations\n" + path.read_text())
        registry.refresh()
        assert call(engine, "point").result == {"x": 1}


def test_the_context_is_the_one_that_functions_get(tmp_path):
    body = "def run(ctx):\n    return [ctx.call_id, ctx.session_id, ctx.tool.qualified_name, ctx.context['a']]\n"
    with yard(tmp_path / "t", {"who": body}, options=HERE) as (_, _, engine):
        assert call(engine, "who", with_id=True, context={"a": 1}).result == ["c1", "s", "default::who", 1]


def test_a_file_that_fails_here_only_says_so(tmp_path):
    body = "import os\nif os.environ.get('TEST_ONLY_HERE'):\n    raise RuntimeError('at import')\ndef run():\n    return 1\n"
    with yard(tmp_path / "t", {"fails": body}, options=HERE) as (_, _, engine):
        os.environ["TEST_ONLY_HERE"] = "1"
        try:
            result = call(engine, "fails")
        finally:
            del os.environ["TEST_ONLY_HERE"]
        assert code(result) == ("tool.execution_error", "unknown") and "RuntimeError: at import" in result.error
        assert call(engine, "fails").result == 1


def test_an_exit_does_not_end_the_server(tmp_path, engine_class):
    body = "import sys\ndef run():\n    sys.exit(3)\n"
    with yard(tmp_path / "t", {"exits": body}, engine=engine_class, options=HERE) as (_, _, engine):
        assert code(call(engine, "exits")) == ("tool.execution_error", "unknown")


def test_a_deadline_is_kept_though_nothing_can_end_the_function(tmp_path):
    body = "import threading\nlet_go = threading.Event()\nTOOL_TIMEOUT = 0.3\ndef run():\n    let_go.wait(60)\n"
    with yard(tmp_path / "t", {"hang": body}, options=HERE, abandoned="release") as (_, _, engine):
        assert code(call(engine, "hang")) == ("tool.timeout", "unknown")
        [module] = engine._runner._modules._modules.values()
        module.let_go.set()


async def test_async_callers_a_blocking_script_goes_to_a_thread_and_an_async_one_stays_on_the_loop(tmp_path):
    bodies = {
        "sync": "import threading\ndef run():\n    return threading.current_thread().name\n",
        "async_": "import threading\nasync def run():\n    return threading.current_thread().name\n",
    }
    with yard(tmp_path / "t", bodies, options=HERE) as (_, _, engine):
        async with asyncio.timeout(SOON):
            assert (await acall(engine, "sync")).result != threading.current_thread().name
            assert (await acall(engine, "async_")).result == threading.current_thread().name
