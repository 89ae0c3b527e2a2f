"""A minimal typed tool, as an example: it returns its input."""

from __future__ import annotations

from toolyard.schema.strict import StrictModel


class EchoToolInput(StrictModel):
    """What to say back."""

    message: str


class EchoToolOutput(StrictModel):
    """What was said."""

    message: str


def echo_tool(payload: EchoToolInput) -> EchoToolOutput:
    """Return the message unchanged."""
    return EchoToolOutput(message=payload.message)
