"""Output schemas that somebody inferred: good to plan with, no promise of the tool that it was made for."""

from __future__ import annotations

from toolyard.model.tool import Tool

INFERRED = "x-inferred"
"""The keyword that says where an output schema was taken from."""
SOURCES = ("rules", "lm", "examples")
"""What it may say."""


def is_guess(tool: Tool) -> bool:
    """True if a tool that really runs has an output schema that it never saw; its answers are not held to it.

    A tool that nothing is behind is simulated, by that very schema, so there it is none.
    """
    return tool.binding is not None and INFERRED in tool.output_parameters


def promises_output(tool: Tool) -> bool:
    """True if the tool has an output schema that its answers are held to."""
    return bool(tool.output_parameters) and not is_guess(tool)
