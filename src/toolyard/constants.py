"""Names and limits that every floor may use."""

VERSION = "0.1.0"

TOOL_NAMESPACE_SEP = "::"
TOOL_DEFAULT_NAMESPACE = "default"

MAX_NAME_LENGTH = 128
"""Characters in a namespace, and in a tool name."""

MAX_DIGITS = 4300
"""Of an integer: Python refuses to read or print longer ones, because that takes the square of their length."""

__all__ = ["MAX_DIGITS", "MAX_NAME_LENGTH", "TOOL_DEFAULT_NAMESPACE", "TOOL_NAMESPACE_SEP", "VERSION"]
