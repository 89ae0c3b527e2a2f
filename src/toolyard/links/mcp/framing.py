"""Read and write JSON-RPC messages with msgspec, and the headers that repeat parts of a message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from toolyard.dialects.mcp_protocol import encode_header, encode_notification, header_text, value_at
from toolyard.model.errors import InvalidArguments
from toolyard.model.json_schema import nests_deeper
from toolyard.parsing.json_text import has_costly_integers, json_decoder
from toolyard.parsing.lines import EDGE
from toolyard.schema.common_options import HTTP_TOKEN

Id = int | float | str | None
Headers = tuple[tuple[str, str], ...]

INITIALIZED = encode_notification("notifications/initialized")
"""The notification that ends a handshake."""
_DIGITS = 18
_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*[,}]')
_TAIL = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class UnreadableError(Exception):
    """The data is not a JSON-RPC message, or it is nested too deep."""


class JsonRpcMessage(msgspec.Struct):
    """A message of any kind; missing fields are UNSET."""

    id: int | float | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: Any = msgspec.UNSET
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET

    @property
    def is_response(self) -> bool:
        """Whether this is a response to a request."""
        return self.method is msgspec.UNSET and (self.result is not msgspec.UNSET or self.error is not msgspec.UNSET)

    @property
    def fields(self) -> dict[str, Any]:
        """The params if they are an object, else empty."""
        return self.params if isinstance(self.params, dict) else {}


_decode: Callable[[bytes | bytearray], JsonRpcMessage] = json_decoder(JsonRpcMessage)
_decode_many: Callable[[bytes | bytearray], list[JsonRpcMessage]] = json_decoder(list[JsonRpcMessage])
_encode = msgspec.json.Encoder().encode


def read_messages(data: bytes | bytearray, max_depth: int) -> list[JsonRpcMessage]:
    """The message in a line, event or body, or the messages of a batch; `UnreadableError` if it is invalid."""
    if has_costly_integers(data):
        raise UnreadableError
    try:
        found = _decode_messages(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableError from None
    for message in found:
        # Request ids are numbers; some servers return the id of a response as text.
        if type(message.id) is str and message.id.isdecimal() and len(message.id) <= _DIGITS and message.is_response:
            message.id = int(message.id)
    # A level takes at least two bytes for its brackets, so short texts need no check.
    if len(data) > 2 * max_depth:
        for message in found:
            if any(nests_deeper(part, max_depth) for part in (message.result, message.params, message.error)):
                raise UnreadableError
    return found


def _decode_messages(data: bytes | bytearray) -> list[JsonRpcMessage]:
    try:
        return [_decode(data)]
    except msgspec.ValidationError:
        if data[:1] != b"[" and data.lstrip()[:1] != b"[":
            raise
        return _decode_many(data)


def guess_id(head: bytes, tail: bytes) -> int | None:
    """Guess the request id of an unreadable response from its first or last bytes; None if unknown."""
    found = _HEAD.match(head[:EDGE]) or _TAIL.search(tail[-EDGE:])
    return None if found is None else int(found[1])


def looks_like_one(head: bytes, tail: bytes) -> bool:
    """Whether unreadable data was meant as a message, not as a line of text for people."""
    return head[:1] == b"{" and (b'"jsonrpc"' in head[:EDGE] or b'"jsonrpc"' in tail[-EDGE:])


class SplitMessage:
    """Collects a message that was written over several lines, as by a server that prints JSON with indentation."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = bytearray()

    def add(self, line: bytes) -> bytes | None:
        """Add a line that is no message by itself; returns the whole text if the line may be its end."""
        if line[:1] == b"{":
            self._text.clear()
        elif not self._text:
            return None
        self._text += line + b"\n"
        if line[:1] != b"}" and len(self._text) <= self._limit:
            return None
        text = bytes(self._text)
        self._text.clear()
        return text if line[:1] == b"}" else None


def encode_request(number: int, method: str, params: dict[str, Any] | None) -> bytes:
    """Encode a request; `InvalidArguments` if its params cannot be written as JSON."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    if params is not None:
        message["params"] = params
    try:
        return _encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidArguments(f"the arguments cannot be sent as JSON: {type(error).__name__}") from None


def encode_cancellation(number: int) -> bytes:
    """Encode the notification that a request is cancelled."""
    params = {"requestId": number, "reason": "the caller no longer waits for the result"}
    return encode_notification("notifications/cancelled", params)


def encode_response(number: Id, result: Any) -> bytes:
    """Encode the response to a request of the server; `TypeError` if the result is not JSON."""
    return _encode({"jsonrpc": "2.0", "id": number, "result": result})


def encode_error(number: Id, code: int, message: str) -> bytes:
    """Encode an error response."""
    return _encode({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


def modern_headers(version: str, method: str, name: str | None = None) -> Headers:
    """Headers that repeat the version, method and name of every request in the new protocol."""
    headers = (("mcp-protocol-version", version), ("mcp-method", method))
    return headers if name is None else (*headers, ("mcp-name", encode_header(name)))


def mirrored_headers(mirrored: Iterable[tuple[str, str]], arguments: dict[str, Any]) -> Headers:
    """Headers for the arguments that a tool wants repeated, given as pairs of a dotted path and a header name."""
    found = []
    for path, name in mirrored:
        text = header_text(arguments[path] if path in arguments else value_at(arguments, path.split(".")))
        if text is not None and HTTP_TOKEN.fullmatch(name):
            found.append((f"mcp-param-{name}", encode_header(text)))
    return tuple(found)
