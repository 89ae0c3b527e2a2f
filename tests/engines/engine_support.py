"""What the tests of engines share."""

import threading

from toolyard.model.call import ToolCall
from toolyard.registry import ToolRegistry
from toolyard.registry.functions import function_tool

SOON = 10


def registry_of(*functions, namespace="n", **options):
    registry = ToolRegistry()
    for function in functions:
        registry.add(function_tool(function, namespace=namespace, **options))
    return registry


def call(name, call_id=None, /, **arguments):
    return ToolCall(name if "::" in name else f"n::{name}", arguments, call_id)


def results_of(engine, session="s"):
    return [item["tool_output"].get("result") for item in engine.get_session_state(session)["tool_executions"]]


class Hung:
    """A tool's inside that goes on until it is told to end."""

    def __init__(self):
        self.began = threading.Event()
        self.end = threading.Event()

    def __call__(self):
        self.began.set()
        assert self.end.wait(SOON)
        return "ended"
