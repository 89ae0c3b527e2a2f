"""How a tool is reached: data that a source attaches and the matching engine reads.

Sources and engines never import each other; these types are all they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Arguments = dict[str, Any]


class PythonBinding(msgspec.Struct, frozen=True, eq=False):
    """An in-process callable.

    `prepare` turns validated JSON arguments into the positional and keyword arguments the callable
    wants (models, dates, enums); None means the JSON values are passed as keywords as they are.
    `finish` turns what the callable returned into plain JSON for a `ToolResult`.
    """

    callable: Callable[..., Any]
    is_async: bool = False
    takes_ctx: bool = False
    prepare: Callable[[Arguments], tuple[tuple[Any, ...], Arguments]] | None = None
    finish: Callable[[Any], Any] | None = None
    integers: tuple[str, ...] = ()
    """Keywords the callable wants as int; JSON Schema lets 3.0 pass for one."""
    returns: type | None = None
    """The class an answer must be an instance of, where the tool promises one."""
    plain: bool = False
    """True when `finish` would leave an answer that is JSON already as it is."""


class ScriptBinding(msgspec.Struct, frozen=True):
    """A handler in a script file, run by a worker process."""

    directory: str
    file: str
    handler: str = "run"
    sha256: str | None = None


class RestBinding(msgspec.Struct, frozen=True):
    """One HTTP operation; `locations` maps an argument to (where, name on the wire)."""

    method: str
    path: str
    base_url: str
    locations: Mapping[str, tuple[str, str]] = {}


class McpBinding(msgspec.Struct, frozen=True):
    """A tool of an MCP server, under the name it has there."""

    server: str
    tool_name: str


Binding = PythonBinding | ScriptBinding | RestBinding | McpBinding
