"""Shared by the tests of the call path: short ways to create engines and registries of functions."""

import dataclasses
import threading

from waiting import SOON, Hung, until  # noqa: F401 - handed on

from toolyard.calls.invocation import Invocation
from toolyard.calls.sinks import CallEvent
from toolyard.engines.python import PythonToolEngine
from toolyard.model.call import ToolCall
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import bind
from toolyard.registry.functions import function_tool
from toolyard.sessions.sessions import Sessions

SHORT = 0.25
"""Long enough for a thread to begin on a busy machine, which these tests count on."""
TINY = 0.02


def registry_of(*functions, namespace="n", **options):
    registry = ToolRegistry()
    for function in functions:
        is_tool = isinstance(function, Tool)
        registry.add(function if is_tool else function_tool(function, namespace=namespace, **options))
    return registry


def tool_of(function, name=None, **schemas):
    """The tool of a function, with the given schemas."""
    return dataclasses.replace(function_tool(function, namespace="n", name=name or function.__name__), **schemas)


def engine_of(*functions, effects="unknown", session="s", **settings):
    """A python engine with one session in it."""
    engine = PythonToolEngine(registry_of(*functions, effects=effects), **settings)
    engine.setup(session)
    return engine


def invocation_of(function, arguments=None, *, call_id=None, deadline=None, attempt=1, **options):
    registry = registry_of(function, **options)
    call = ToolCall(f"n::{function.__name__}", arguments or {}, call_id)
    bound = bind(registry.snapshot, call)
    session = Sessions().open("s")
    return Invocation(bound.tool, bound.arguments, call, "execute", deadline, attempt, "python", bound, session)


def call(name, call_id=None, /, **arguments):
    return ToolCall(f"n::{name}", arguments, call_id)


def executions(engine, session="s"):
    return engine.get_session_state(session)["tool_executions"]


def codes(engine, session="s"):
    """The error code of every entry; None for success."""
    return [item["tool_output"].get("error_info", {}).get("code") for item in executions(engine, session)]


def is_free(engine, session="s"):
    """True if no caller has the session's turn."""
    return not engine.sessions.find(session).gate.busy


def hanging_engine(**settings):
    """A function that hangs until it is told to end, and an engine with it and a quick one."""
    hung = Hung()

    def hang():
        return hung()

    def quick(x: int) -> int:
        return x

    return hung, engine_of(hang, quick, **settings)


def in_threads(*work):
    """Run all concurrently; returns their values in order."""
    values = [None] * len(work)

    def one(number):
        values[number] = work[number]()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return values


def make_event(**changes):
    """The event of a call, with these fields changed."""
    fields = {"time": 1.5, "latency": 0.25, "mode": "execute", "session_id": "s1", "name": "weather::get"}
    return CallEvent(**{**fields, "definition_hash": "h", **changes})


class Listener:
    """Records events."""

    def __init__(self):
        self.events = []

    def emit(self, event):
        self.events.append(event)

    def close(self):
        pass


class Spans(Listener):
    """A sink that tracks the running calls."""

    def __init__(self):
        super().__init__()
        self.open = []

    def begin(self, tool, call, session_id, mode):
        self.open.append(tool.qualified_name)
        return tool.qualified_name

    def end(self, token, event):
        self.open.remove(token)
        self.events.append(event)
