"""Typed dispatch: functions of a strict model, looked up by name.

from toolyard.typed import StrictModel, registry

class Shout(StrictModel):
    text: str

@registry.register("shout", Shout)
def shout(payload: Shout) -> Shout:
    return Shout(text=payload.text.upper())

registry.dispatch("shout", {"text": "hi"})
"""

from toolyard.model.errors import UnknownToolError
from toolyard.registry.functions import function_tool, tool
from toolyard.registry.typed import Registry
from toolyard.schema.strict import StrictModel
from toolyard.tools.echo import EchoToolInput, EchoToolOutput, echo_tool

registry = Registry()
"""The application-wide registry; tests should create their own."""

registry.register("echo", EchoToolInput)(echo_tool)

__all__ = [
    "EchoToolInput",
    "EchoToolOutput",
    "Registry",
    "StrictModel",
    "UnknownToolError",
    "echo_tool",
    "function_tool",
    "registry",
    "tool",
]
