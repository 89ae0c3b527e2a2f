"""What the tests of engines share."""

from waiting import SOON, Hung  # noqa: F401 - handed on

from toolyard.model.call import ToolCall
from toolyard.registry import ToolRegistry
from toolyard.registry.functions import function_tool


def registry_of(*functions, namespace="n", **options):
    registry = ToolRegistry()
    for function in functions:
        registry.add(function_tool(function, namespace=namespace, **options))
    return registry


def call(name, call_id=None, /, **arguments):
    return ToolCall(name if "::" in name else f"n::{name}", arguments, call_id)


def results_of(engine, session="s"):
    return [item["tool_output"].get("result") for item in engine.get_session_state(session)["tool_executions"]]
