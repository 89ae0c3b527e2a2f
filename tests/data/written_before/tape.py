"""Tools whose answers are played from a cassette."""

from toolyard import ToolFailed, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(why: str) -> None:
    """Fail, and say why."""
    raise ToolFailed(why, effect="none")
