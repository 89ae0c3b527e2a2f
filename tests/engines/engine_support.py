"""Shared by the tests of engines."""

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


def ask(engine, name, session="s", /, **arguments):
    """Make a call; returns its value."""
    (result,) = engine.execute(session, [call(name, **arguments)])
    assert not result.is_error, result.error
    return result.result


def refused(engine, name, session="s", /, **arguments):
    """Make a call; returns its error, or None."""
    (result,) = engine.execute(session, [call(name, **arguments)])
    return result.error_info
