"""The client of the MCP SDK. Importing it takes half a second, so that is left to the tests that use it."""

from collections.abc import Mapping, Sequence
from typing import Any


def connect(server: Any, **options: Any) -> Any:
    """A client of a URL, or of what `describe_process` returns."""
    from mcp import Client

    return Client(server, **options)


def describe_process(command: Sequence[str], env: Mapping[str, str] | None = None) -> Any:
    """A server that the client starts and talks to over standard input and output."""
    from mcp import StdioServerParameters

    return StdioServerParameters(command=command[0], args=list(command[1:]), env=env)
