"""Names and limits that every layer may use."""

VERSION = "0.1.0"

TOOL_NAMESPACE_SEP = "::"
TOOL_DEFAULT_NAMESPACE = "default"

MAX_NAME_LENGTH = 128
"""Most characters in a namespace, and in a tool name."""

MAX_DIGITS = 4300
"""Most digits of an integer. Python refuses to convert longer ones, because that takes quadratic time."""

__all__ = ["MAX_DIGITS", "MAX_NAME_LENGTH", "TOOL_DEFAULT_NAMESPACE", "TOOL_NAMESPACE_SEP", "VERSION"]
