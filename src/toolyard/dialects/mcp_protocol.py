"""What MCP clients and servers share: versions, error codes, `_meta` keys and headers.

Since 2026-07-28, request headers repeat parts of the body for intermediaries: the version, the method, the tool's name,
and arguments that a tool's schema marks with `x-mcp-header`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolyard.constants import VERSION
from toolyard.model.errors import DefinitionError
from toolyard.model.names import show
from toolyard.model.tool import Schema
from toolyard.schema.common_options import HEADER_TEXT, HTTP_TOKEN
from toolyard.schema.subschemas import iter_children

TOOLYARD = {"name": "toolyard", "version": VERSION}
"""How toolyard identifies itself, as a client and as a server."""
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that start with `initialize`, oldest first."""
NEWEST_HANDSHAKE = HANDSHAKE[-1]
STATELESS = "2026-07-28"
"""The version without a handshake: every request is self-contained."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REFUSED = -32000
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
CANCELLED = -32800
DECLINED = -1
"""The user, or a client acting for the user, declined."""

_OWN = "io.modelcontextprotocol/"
PROTOCOL_VERSION = _OWN + "protocolVersion"
CLIENT_INFO = _OWN + "clientInfo"
CLIENT_CAPABILITIES = _OWN + "clientCapabilities"
LOG_LEVEL = _OWN + "logLevel"
SERVER_INFO = _OWN + "serverInfo"
SUBSCRIPTION_ID = _OWN + "subscriptionId"

LISTEN = "subscriptions/listen"
"""A long-lived request, answered when the server has no more notifications to send."""
LIST_CHANGED = "notifications/tools/list_changed"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

HEADER = "x-mcp-header"
MIRRORED = "Mcp-Param-"
_MIRRORABLE = ("string", "integer", "boolean")
_WRAPPED = re.compile(r"=\?base64\?(.*)\?=")


def encode_notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Encode a JSON-RPC notification, which has no response."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return msgspec.json.encode(message if params is None else {**message, "params": params})


class HeaderParam(msgspec.Struct, frozen=True):
    """An argument that is repeated in a header."""

    path: tuple[str, ...]
    name: str
    """The header's name: `Mcp-Param-` and the name in the schema."""
    is_integer: bool


def find_header_params(schema: Schema) -> tuple[HeaderParam, ...]:
    """Find the arguments that are repeated in headers; `DefinitionError` if a marked one is not allowed there."""
    found: dict[str, HeaderParam] = {}
    for path, node in _walk_arguments(schema):
        if HEADER not in node:
            continue
        name, kind = node[HEADER], node.get("type")
        if not path:
            raise DefinitionError(f"{HEADER} is allowed on properties only, not inside of other keywords")
        where = show(".".join(path))
        if not isinstance(name, str) or not HTTP_TOKEN.fullmatch(name):
            raise DefinitionError(f"{HEADER} of {where} is no name of a header")
        if kind not in _MIRRORABLE:
            raise DefinitionError(f"{HEADER} of {where}: only text, integers and booleans fit into a header")
        param = HeaderParam(path, MIRRORED + name, kind == "integer")
        if found.setdefault(name.lower(), param) is not param:
            raise DefinitionError(f"{HEADER} {show(name)} stands for two arguments")
    return tuple(found.values())


def _walk_arguments(schema: Schema) -> Iterator[tuple[tuple[str, ...] | None, Schema]]:
    """Yield every subschema with its argument path; None if the path is not made of properties alone."""
    waiting: list[tuple[tuple[str, ...] | None, Schema]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        below: list[tuple[tuple[str, ...] | None, Schema]] = []
        for place, sub in iter_children(node):
            is_argument = path is not None and place[0] == "properties"
            if isinstance(sub, dict):
                below.append(((*path, str(place[1])) if path is not None and is_argument else None, sub))
        waiting += reversed(below)


def value_at(arguments: Any, path: Sequence[str]) -> Any:
    """The argument at a path; None if there is none."""
    for key in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(key)
    return arguments


def header_text(value: Any) -> str | None:
    """An argument as header text; None if it has none (null, arrays, objects)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:
        # More digits than the interpreter's limit for integers.
        return None


def encode_header(text: str) -> str:
    """Encode text for a header: unchanged if possible, else as `=?base64?...?=`."""
    if not text or (HEADER_TEXT.fullmatch(text) and not _WRAPPED.fullmatch(text)):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def decode_header(header: bytes) -> str | None:
    """Decode a header; None if its base64 is malformed or not canonical."""
    text = header.strip(b" \t").decode("latin-1")
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is None:
        return text
    try:
        raw = base64.b64decode(wrapped[1], validate=True)
        # Accept only the canonical encoding, so that all readers agree on the value.
        return raw.decode() if base64.b64encode(raw).decode() == wrapped[1] else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
