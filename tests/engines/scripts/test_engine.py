"""ScriptToolEngine, and PythonToolEngine in its place: calls of scripts from beginning to end."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from calls.call_support import Listener
from script_folder import Folder
from waiting import until

from conftest import chosen_way, ways_to_try
from engines.scripts.support import AVAILABLE, acall, aends_late, call, code, ends_late, put, yard
from toolyard import (
    MultiToolEngine,
    PythonToolEngine,
    ScriptBinding,
    ScriptToolEngine,
    ScriptToolLoader,
    Tool,
    ToolCall,
    ToolRegistry,
    Toolyard,
    Tracer,
    get_tool_engine,
)

pytestmark = pytest.mark.process

SHOUT = "def run(text='hi'):\n    return text.upper()\n"
LOOP = "import time\ndef run():\n    time.sleep(600)\n"


@pytest.fixture(params=ways_to_try("scripts", "python"))
def engine_class(request):
    """Either engine that answers scripts: both by the same runner."""
    return ScriptToolEngine if chosen_way(request) == "scripts" else PythonToolEngine


class TestAnswers:
    def test_text_stays_text_and_json_stays_json(self, tmp_path, engine_class):
        bodies = {
            "text": 'def run():\n    return \'{"not": "parsed"}\'\n',
            "data": "def run():\n    return {'a': [1, 2.5, None, True, {'b': 'ü'}]}\n",
            "nothing": "def run():\n    pass\n",
            "waits": "import asyncio\nasync def run(n):\n    await asyncio.sleep(0)\n    return n + 1\n",
        }
        with yard(tmp_path / "t", bodies, engine=engine_class) as (_, _, engine):
            assert call(engine, "text").result == '{"not": "parsed"}'
            assert call(engine, "data").result == {"a": [1, 2.5, None, True, {"b": "ü"}]}
            assert call(engine, "nothing").result is None
            assert call(engine, "waits", {"n": 1 << 70}).result == (1 << 70) + 1

    async def test_the_same_from_async_code(self, tmp_path, engine_class):
        with yard(tmp_path / "t", {"shout": SHOUT}, engine=engine_class) as (_, _, engine):
            results = await asyncio.gather(*(engine.aexecute("s", [ToolCall("shout", {"text": c})]) for c in "abc"))
            assert [result[0].result for result in results] == ["A", "B", "C"]

    def test_what_the_sandbox_denies_names_the_option_that_allows_it(self, tmp_path):
        wanted = {
            "network": ("import socket\ndef run():\n    socket.socket()\n", "isolation: inprocess"),
            "reading": ("def run():\n    open('/etc/passwd')\n", "all that its user may"),
            "memory": ("def run():\n    return len('x' * (1 << 33))\n", "`memory_bytes`"),
            "files": ("def run():\n    return len([open('/dev/null') for _ in range(500)])\n", "`files`"),
            "size": ("def run():\n    open('big', 'wb').write(b'x' * 10_000)\n", "`file_bytes`"),
            "variable": ("import os\ndef run():\n    return os.environ['MINE']\n", "option `env`"),
        }
        expected = {name: hint for name, (_, hint) in wanted.items() if name != "reading" or AVAILABLE[0] != "rlimits"}
        bodies = {name: body for name, (body, _) in wanted.items()}
        with yard(tmp_path / "t", bodies, options={"file_bytes": 5_000}) as (_, _, engine):
            hints = {name: call(engine, name).error_info.hint for name in expected}
        assert {name: hint for name, hint in hints.items() if expected[name] not in (hint or "")} == {}

    def test_what_is_not_json_is_a_failure_that_says_so(self, tmp_path):
        bodies = {"odd": "def run():\n    return object()\n", "nan": "def run():\n    return float('nan')\n"}
        with yard(tmp_path / "t", bodies) as (_, _, engine):
            for name in bodies:
                result = call(engine, name)
                assert code(result) == ("tool.execution_error", "unknown")
                assert "not JSON" in result.error and f"{name}.py" in result.error

    def test_an_answer_over_the_limit_is_refused_and_the_next_is_fine(self, tmp_path):
        body = "def run(n):\n    return 'x' * n\n"
        with yard(tmp_path / "t", {"long": body}, options={"max_answer_bytes": 1000}) as (_, _, engine):
            assert "1000" in call(engine, "long", {"n": 5000}).error
            assert call(engine, "long", {"n": 5}).result == "xxxxx"

    def test_the_text_of_an_exception_is_told_and_its_type(self, tmp_path, engine_class):
        with yard(
            tmp_path / "t", {"bad": "def run():\n    raise LookupError('no such town')\n"}, engine=engine_class
        ) as (
            _,
            _,
            engine,
        ):
            result = call(engine, "bad")
            assert code(result) == ("tool.execution_error", "unknown")
            assert result.error == "bad.py: LookupError: no such town"
            assert result.error_info.details == {"exception": "LookupError"}

    def test_on_a_server_the_text_goes_to_the_log_only(self, tmp_path, caplog):
        with yard(tmp_path / "t", {"bad": "def run():\n    raise LookupError('a secret path')\n"}) as (_, _, engine):
            engine.discreet = True
            result = call(engine, "bad")
            assert "secret" not in result.error and "LookupError" in result.error
            [line] = [record.getMessage() for record in caplog.records if "error id" in record.getMessage()]
            assert "a secret path" in line and "bad.py" in line and "line 6" in line and "\n" not in line

    def test_tools_of_one_file_are_called_by_their_place(self, tmp_path):
        folder = Folder(tmp_path / "t").allow("two.py")
        folder.put(
            "two.py",
            """
            def add(a, b): return a + b
            async def negate(a): return -a
            TOOLS = [
                {"name": "add", "description": "Add.", "parameters": {"type": "object"}, "handler": add},
                {"name": "negate", "description": "Negate.", "parameters": {"type": "object"}, "handler": negate},
            ]
            """,
        )
        with (
            ToolRegistry.from_loaders([ScriptToolLoader(folder.path)]) as registry,
            ScriptToolEngine(registry) as engine,
        ):
            engine.setup("s")
            assert call(engine, "add", {"a": 2, "b": 3}).result == 5
            assert call(engine, "negate", {"a": 2}).result == -2

    def test_an_alias_calls_the_tool(self, tmp_path):
        with yard(tmp_path / "t", {"shout": SHOUT + "TOOL_ALIASES = ['cry']\n"}) as (_, _, engine):
            result = call(engine, "cry")
            assert (result.name, result.result) == ("default::shout", "HI")


class TestContext:
    BODY = "def run(ctx, **more):\n    return [ctx.call_id, ctx.session_id, ctx.context, ctx.trace, more]\n"

    def test_a_script_that_asks_is_told_about_its_call(self, tmp_path, engine_class):
        with yard(tmp_path / "t", {"who": self.BODY}, engine=engine_class) as (_, _, engine):
            result = call(engine, "who", {"x": 1}, with_id=True, context={"locale": "de"})
            assert result.result == ["c1", "s", {"locale": "de"}, {}, {"x": 1}]

    @pytest.mark.parametrize("isolation", ["process", "inprocess"])
    def test_nobody_else_can_say_what_ctx_is(self, tmp_path, engine_class, isolation):
        options = {"isolation": isolation}
        with yard(tmp_path / "t", {"who": self.BODY}, engine=engine_class, options=options) as (_, _, engine):
            result = call(engine, "who", {"ctx": {"session_id": "another"}})
            assert code(result) == ("tool.invalid_args", "none")
            assert "ctx" in result.error

    def test_without_such_a_parameter_ctx_is_an_argument_like_others(self, tmp_path):
        with yard(tmp_path / "t", {"any": "def run(**more):\n    return more\n"}) as (_, _, engine):
            assert call(engine, "any", {"ctx": 1}).result == {"ctx": 1}

    def test_a_context_that_cannot_be_sent_is_refused_before_anything_begins(self, tmp_path):
        with yard(tmp_path / "t", {"who": self.BODY}) as (_, _, engine):
            result = call(engine, "who", context={"lock": threading.Lock()})
            assert code(result) == ("tool.invalid_args", "none") and "context" in result.error


class TestDeadlines:
    def test_a_hung_script_is_ended_at_its_own_timeout_and_the_next_call_works(self, tmp_path, engine_class):
        body = "import time\nTOOL_TIMEOUT = 1.0\ndef run(hang=False):\n    while hang: pass\n    return 'fine'\n"
        with yard(tmp_path / "t", {"hang": body}, engine=engine_class) as (_, _, engine):
            assert ends_late(lambda: call(engine, "hang", {"hang": True}))
            assert until(lambda: call(engine, "hang").result == "fine")

    async def test_also_for_async_callers(self, tmp_path, engine_class):
        body = "TOOL_TIMEOUT = 1.0\nasync def run(hang=False):\n    while hang: pass\n    return 'fine'\n"
        with yard(tmp_path / "t", {"hang": body}, engine=engine_class) as (_, _, engine):
            assert await aends_late(lambda: acall(engine, "hang", {"hang": True}))
            while (result := await acall(engine, "hang")).result != "fine":
                assert code(result)[0] == "tool.timeout"

    def test_a_caller_may_shorten_the_time_of_a_script_but_not_lengthen_it(self, tmp_path):
        with yard(tmp_path / "t", {"hang": "TOOL_TIMEOUT = 1.0\n" + LOOP, "long": LOOP}) as (_, _, engine):
            assert ends_late(lambda: call(engine, "hang", timeout=600))
            assert ends_late(lambda: call(engine, "long", timeout=1.0))

    def test_without_a_timeout_of_its_own_that_of_the_source_holds(self, tmp_path):
        with yard(tmp_path / "t", {"hang": LOOP}, options={"timeout": 0.3}) as (_, _, engine):
            # Whether its worker had started by then is the machine's affair, and so is the effect.
            assert code(call(engine, "hang"))[0] == "tool.timeout"

    def test_what_only_reads_has_changed_nothing_when_it_is_ended(self, tmp_path):
        with yard(tmp_path / "t", {"hang": "TOOL_EFFECTS = 'read'\nTOOL_TIMEOUT = 0.3\n" + LOOP}) as (_, _, engine):
            assert code(call(engine, "hang")) == ("tool.timeout", "none")

    def test_a_hung_script_keeps_no_other_waiting(self, tmp_path):
        bodies = {"hang": "TOOL_TIMEOUT = 60\n" + LOOP, "shout": SHOUT}
        with yard(tmp_path / "t", bodies, options={"workers": 2}) as (_, _, engine), ThreadPoolExecutor() as threads:
            engine.setup("other")
            assert call(engine, "shout", session="other").result == "HI"
            hung = threads.submit(lambda: call(engine, "hang", timeout=5))
            for _ in range(20):
                assert call(engine, "shout", session="other").result == "HI"
            assert not hung.done() or code(hung.result()) == ("tool.timeout", "unknown")
            assert code(hung.result()) == ("tool.timeout", "unknown")

    def test_a_call_that_found_no_free_worker_in_time_has_no_effect(self, tmp_path):
        bodies = {"hang": LOOP, "shout": SHOUT}
        with yard(tmp_path / "t", bodies, options={"workers": 1}) as (_, _, engine), ThreadPoolExecutor() as threads:
            engine.setup("other")
            assert call(engine, "shout").result == "HI"
            hung = threads.submit(lambda: call(engine, "hang", timeout=3))
            seats = engine._runner._pools.copy().popitem()[1]._slots
            assert until(lambda: not seats.idle and not seats.gate.free)
            assert code(call(engine, "shout", session="other", timeout=0.3)) == ("tool.timeout", "none")
            assert code(hung.result()) == ("tool.timeout", "unknown")


class TestEndings:
    @pytest.mark.parametrize(
        "body", ["import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)", "raise SystemExit(2)"]
    )
    def test_a_script_that_ends_its_process_fails_alone(self, tmp_path, engine_class, body):
        bodies = {"dies": f"def run():\n    {body}\n", "shout": SHOUT}
        with yard(tmp_path / "t", bodies, engine=engine_class) as (_, _, engine):
            results = engine.execute("s", [ToolCall("shout"), ToolCall("dies"), ToolCall("shout")])
            assert [code(result) for result in results] == [None, ("tool.execution_error", "unknown"), None]

    def test_a_closed_engine_leaves_no_process(self, tmp_path):
        with yard(
            tmp_path / "t", {"pid": "import os\ndef run():\n    return os.getpid()\n"}, options={"sandbox": "rlimits"}
        ) as (
            _,
            _,
            engine,
        ):
            pid = call(engine, "pid").result
            assert Path(f"/proc/{pid}").exists()
        assert until(lambda: not Path(f"/proc/{pid}").exists())

    async def test_a_cancelled_call_is_ended_and_recorded_as_interrupted(self, tmp_path):
        bodies = {"hang": LOOP, "shout": SHOUT}
        with yard(tmp_path / "t", bodies, options={"workers": 1}) as (_, _, engine):
            task = asyncio.ensure_future(acall(engine, "hang"))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The only worker is free again.
            assert (await acall(engine, "shout", timeout=20)).result == "HI"
            history = engine.get_session_state("s")["tool_executions"]
            assert [entry["tool_output"].get("error_info", {}).get("code") for entry in history] == [
                "tool.interrupted",
                None,
            ]


class TestManyAtOnce:
    def test_calls_from_many_threads_are_all_answered(self, tmp_path, engine_class):
        body = "import time\ndef run(n):\n    time.sleep(0.005)\n    return n * 2\n"
        with (
            yard(tmp_path / "t", {"twice": body}, engine=engine_class) as (_, _, engine),
            ThreadPoolExecutor(16) as threads,
        ):
            for number in range(16):
                engine.setup(str(number))

            def work(number):
                return [call(engine, "twice", {"n": n}, session=str(number)).result for n in range(10)]

            assert list(threads.map(work, range(16))) == [[n * 2 for n in range(10)]] * 16

    async def test_calls_of_threads_and_tasks_share_the_workers(self, tmp_path):
        with yard(tmp_path / "t", {"shout": SHOUT}, options={"workers": 2}) as (_, _, engine):
            for number in range(20):
                engine.setup(str(number))
            work = [acall(engine, "shout", session=str(n)) for n in range(10)]
            work += [asyncio.to_thread(call, engine, "shout", session=str(n)) for n in range(10, 20)]
            assert [result.result for result in await asyncio.gather(*work)] == ["HI"] * 20

    def test_a_worker_is_replaced_after_so_many_calls(self, tmp_path):
        body = "import os\ndef run():\n    return os.getpid()\n"
        options = {"calls_per_worker": 3, "workers": 1, "sandbox": "rlimits"}
        with yard(tmp_path / "t", {"pid": body}, options=options) as (_, _, engine):
            pids = [call(engine, "pid").result for _ in range(9)]
            assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 3]


class TestEdits:
    def test_a_call_in_flight_finishes_on_the_old_code(self, tmp_path, meeting):
        body = """
            import os, time
            def run(meet=None):
                if meet:
                    open(meet + "/began", "w").close()
                    while not os.path.exists(meet + "/go"):
                        time.sleep(0.01)
                return "{}"
        """
        bodies, options = {"edit": body.format("old")}, {"sandbox": "rlimits"}
        with (
            yard(tmp_path / "t", bodies, options=options) as (folder, registry, engine),
            ThreadPoolExecutor() as threads,
        ):
            engine.setup("other")
            flying = threads.submit(lambda: call(engine, "edit", {"meet": str(meeting)}))
            assert until((meeting / "began").exists)
            put(folder, "edit", body.format("new"))
            registry.refresh()
            assert call(engine, "edit", session="other").result == "new"
            (meeting / "go").touch()
            assert flying.result().result == "old"
            assert call(engine, "edit").result == "new"

    def test_what_is_run_are_the_bytes_that_were_loaded(self, tmp_path):
        with yard(tmp_path / "t", {"edit": "def run():\n    return 'loaded'\n"}) as (folder, registry, engine):
            put(folder, "edit", "def run():\n    return 'changed'\n")
            assert call(engine, "edit").result == "loaded"
            (folder.path / "edit.py").unlink()
            assert call(engine, "edit").result == "loaded"
            registry.refresh()
            assert code(call(engine, "edit"))[0] == "tool.not_found"


class TestSimulate:
    def test_a_script_is_simulated_by_running_it_and_leaves_no_trace_in_the_session(self, tmp_path, engine_class):
        with yard(tmp_path / "t", {"shout": SHOUT}, engine=engine_class) as (_, _, engine):
            before = engine.state_hash("s")
            [result] = engine.simulate("s", [ToolCall("shout", {"text": "dry"})])
            assert result.result == "DRY" and engine.state_hash("s") == before

    def test_a_script_that_writes_is_not_run(self, tmp_path, engine_class):
        writes = f"{SHOUT}\nTOOL_EFFECTS = 'write'\n"
        with yard(tmp_path / "t", {"shout": writes}, engine=engine_class) as (_, _, engine):
            [result] = engine.simulate("s", [ToolCall("shout", {"text": "dry"})])
            assert result.result != "DRY" and result.metadata == {"simulated_by": "schema simulator"}
            assert engine.execute("s", [ToolCall("shout", {"text": "wet"})])[0].result == "WET"

    @pytest.mark.parametrize("isolation", ["process", "inprocess"])
    def test_unless_it_says_that_it_simulates_itself(self, tmp_path, engine_class, isolation):
        body = "TOOL_EFFECTS = 'write'\nTOOL_SIMULATES = True\ndef run(ctx):\n    return ctx.mode\n"
        options = {"isolation": isolation}
        with yard(tmp_path / "t", {"both": body}, engine=engine_class, options=options) as (_, _, engine):
            [result] = engine.simulate("s", [ToolCall("both", {})])
            assert (result.result, result.metadata) == ("simulate", {"simulated_by": "the tool itself"})
            assert engine.execute("s", [ToolCall("both", {})])[0].result == "execute"

    def test_which_takes_a_ctx_to_see_when(self, tmp_path):
        folder = Folder(tmp_path / "t")
        put(folder, "blind", "TOOL_SIMULATES = True\ndef run():\n    return 1\n")
        with ToolRegistry.from_loaders([ScriptToolLoader(folder.path)]) as registry:
            assert len(registry) == 0
            assert "takes no ctx" in registry.report.rejected[0].reason


class TestTraces:
    BODY = """
import sys
def run(fail=False, hang=False):
    print("to stdout", "secret-of-the-yard")
    print("to stderr", file=sys.stderr)
    if fail:
        raise ValueError("bad")
    while hang: pass
    return 1
"""

    SOONER_OR_LATER = (0.5, 2, 8)
    """Seconds: on a busy machine a script has not begun to print when the first are over."""

    def test_what_a_script_prints_is_in_the_trace_and_nowhere_else(self, tmp_path, capfd):
        sink = Listener()
        with yard(tmp_path / "t", {"loud": self.BODY}, tracer=Tracer([sink])) as (_, _, engine):
            result = call(engine, "loud")
            assert result.result == 1 and not result.metadata
        [event] = sink.events
        assert (event.stdout, event.stderr) == ("to stdout secret-of-the-yard\n", "to stderr\n")
        assert capfd.readouterr() == ("", "")

    def test_of_a_failure_the_traceback_comes_last_and_of_a_timeout_what_was_printed_until_then(self, tmp_path):
        sink = Listener()
        with yard(tmp_path / "t", {"loud": self.BODY}, tracer=Tracer([sink])) as (_, _, engine):
            call(engine, "loud", {"fail": True})
            for timeout in self.SOONER_OR_LATER:
                call(engine, "loud", {"hang": True}, timeout=timeout)
                if sink.events[-1].stderr:
                    break
        failed, *_, hung = sink.events
        assert failed.stdout.startswith("to stdout") and failed.stderr.startswith("to stderr\nTraceback")
        assert failed.stderr.endswith("ValueError: bad\n") and 'File "loud.py"' in failed.stderr
        assert (hung.code, hung.stdout, hung.stderr) == (
            "tool.timeout",
            "to stdout secret-of-the-yard\n",
            "to stderr\n",
        )

    async def test_async_callers_have_it_too(self, tmp_path):
        sink = Listener()
        with yard(tmp_path / "t", {"loud": self.BODY}, tracer=Tracer([sink])) as (_, _, engine):
            await acall(engine, "loud")
            for timeout in self.SOONER_OR_LATER:
                await acall(engine, "loud", {"hang": True}, timeout=timeout)
                if sink.events[-1].stderr:
                    break
        assert [sink.events[at].stderr for at in (0, -1)] == ["to stderr\n"] * 2

    def test_it_is_bounded_and_the_end_is_kept(self, tmp_path):
        sink = Listener()
        body = "def run():\n    for n in range(20000): print(n)\n"
        with yard(tmp_path / "t", {"loud": body}, options={"max_output_bytes": 2000}, tracer=Tracer([sink])) as (
            _,
            _,
            engine,
        ):
            assert call(engine, "loud").error is None
        assert len(sink.events[0].stdout) <= 1000 and sink.events[0].stdout.endswith("19998\n19999\n")

    def test_secrets_are_taken_out(self, tmp_path):
        from toolyard import Redactor

        sink, redactor = Listener(), Redactor(["secret-of-the-yard"])
        with yard(tmp_path / "t", {"loud": self.BODY}, tracer=Tracer([sink], redactor=redactor), redactor=redactor) as (
            _,
            _,
            engine,
        ):
            call(engine, "loud")
        assert "secret-of-the-yard" not in sink.events[0].stdout and "to stdout" in sink.events[0].stdout

    def test_a_quiet_script_leaves_nothing(self, tmp_path):
        sink = Listener()
        with yard(tmp_path / "t", {"shout": SHOUT}, tracer=Tracer([sink])) as (_, _, engine):
            call(engine, "shout")
        assert (sink.events[0].stdout, sink.events[0].stderr) == (None, None)


class TestPlaces:
    def test_every_directory_has_workers_of_its_own(self, tmp_path):
        folders = [Folder(tmp_path / name) for name in "ab"]
        for folder in folders:
            put(folder, "pid", "import os\ndef run():\n    return os.getcwd()\n")
        loaders = [ScriptToolLoader(folder.path, folder.path.name) for folder in folders]
        with ToolRegistry.from_loaders(loaders) as registry, ScriptToolEngine(registry) as engine:
            engine.setup("s")
            for name in "ab":
                assert call(engine, f"{name}::pid").error is None
            assert len(engine._runner._pools) == 2

    def test_the_registered_engine_is_this_one(self):
        with get_tool_engine("scripts") as engine:
            assert type(engine) is ScriptToolEngine

    def test_it_takes_scripts_and_nothing_else(self, tmp_path):
        with yard(tmp_path / "t", {"shout": SHOUT}) as (_, registry, engine):
            assert engine.takes(registry.get("default::shout")[0])
            assert not engine.takes(Tool("other", "default"))

    def test_a_binding_without_its_bytes_is_not_run(self):
        tool = Tool("hand", "made", binding=ScriptBinding("/nowhere", "hand.py"))
        with ScriptToolEngine(ToolRegistry([tool])) as engine:
            engine.setup("s")
            assert code(call(engine, "hand")) == ("tool.no_engine", "none")

    def test_a_closed_engine_answers_no_more(self, tmp_path):
        with yard(tmp_path / "t", {"shout": SHOUT}) as (_, _, engine):
            assert call(engine, "shout").result == "HI"
            engine._runner.close()
            assert code(call(engine, "shout")) == ("tool.unavailable", "none")

    def test_a_config_needs_no_engine_for_scripts(self, tmp_path):
        put(Folder(tmp_path / "t"), "shout", SHOUT)
        config = {"tools": [{"type": "scripts", "path": str(tmp_path / "t"), "namespace": "yard"}]}
        with Toolyard.from_config(config) as made:
            made.tool_engine.setup("s")
            assert call(made.tool_engine, "yard::shout").result == "HI"

    @pytest.mark.parametrize("kind", ["python", "scripts"])
    def test_a_source_may_name_its_engine_and_that_engines_limits_hold(self, tmp_path, kind):
        put(Folder(tmp_path / "t"), "hang", LOOP)
        put(Folder(tmp_path / "t"), "shout", SHOUT)
        config = {
            "tools": {
                "registry": [{"type": "scripts", "path": str(tmp_path / "t"), "engine": "mine"}],
                "engines": {"mine": {"type": kind, "timeout": 1.0}},
            }
        }
        with Toolyard.from_config(config) as made:
            assert isinstance(made.tool_engine, MultiToolEngine)
            made.tool_engine.setup("s")
            assert ends_late(lambda: call(made.tool_engine, "hang"))
            assert until(lambda: call(made.tool_engine, "shout").result == "HI")


class TestSecrets:
    def test_a_credential_of_the_environment_stays_in_the_script(self, tmp_path, engine_class, monkeypatch):
        monkeypatch.setenv("BANK_TOKEN", "swordfish-42")
        monkeypatch.setenv("REGION_NAME", "northern-europe")
        told = "import os\ndef run(fail=False):\n    print(os.environ['BANK_TOKEN'])\n"
        told += "    if fail:\n        raise ValueError(os.environ['BANK_TOKEN'])\n    return dict(os.environ)\n"
        options, listener = {"env": ["BANK_TOKEN", "REGION_NAME"]}, Listener()
        tracer = Tracer([listener], results=True)
        with yard(tmp_path / "t", {"tell": told}, engine=engine_class, options=options, tracer=tracer) as (
            _,
            _,
            engine,
        ):
            found, failed = call(engine, "tell"), call(engine, "tell", {"fail": True})
            assert (found.result["BANK_TOKEN"], found.result["REGION_NAME"]) == ("[redacted]", "northern-europe")
            assert failed.error is not None
            assert "swordfish" not in f"{found} {failed} {engine.get_session_state('s')} {listener.events}"
