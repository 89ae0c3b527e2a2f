"""JSON-RPC messages, read and written with msgspec, its codes, and the headers that repeat what a message says.

Those are for whoever is on the way and need not read it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import msgspec

from toolyard.model.errors import InvalidArguments
from toolyard.parsing import paused_gc
from toolyard.parsing.json_text import nests_deeper

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
REFUSED = -1
"""The user, or who acts for them, said no."""
UNSUPPORTED_VERSION = -32022

Id = int | float | str | None
Headers = tuple[tuple[str, str], ...]

_LONG = 64 * 1024
EDGE = 256
"""Bytes kept of both ends of a line that is too long: one of them says which request it answers."""
_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*[,}]')
_TAIL = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SENTINEL = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class UnreadableError(Exception):
    """Not a JSON-RPC message, or one nested too deep."""


class JsonRpcMessage(msgspec.Struct):
    """One message of any kind; what it does not have is UNSET."""

    id: int | float | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: Any = msgspec.UNSET
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return self.method is msgspec.UNSET and (self.result is not msgspec.UNSET or self.error is not msgspec.UNSET)

    @property
    def fields(self) -> dict[str, Any]:
        """The params, if they are an object."""
        return self.params if isinstance(self.params, dict) else {}


_decode = msgspec.json.Decoder(JsonRpcMessage).decode
_decode_many = msgspec.json.Decoder(list[JsonRpcMessage]).decode
_encode = msgspec.json.Encoder().encode


def read(data: bytes | bytearray, max_depth: int) -> list[JsonRpcMessage]:
    """The message in one line, event or body; more than one if it is a batch. `UnreadableError` if it is none."""
    try:
        # The objects of a long list are there to stay; the collector would look at them again and again for nothing.
        with paused_gc() if len(data) > _LONG else nullcontext():
            found = _decode_messages(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableError from None
    # A level costs two bytes, its brackets, so a short text needs no measuring.
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
    """Which request a message that cannot be read answers, by its first or last bytes; None if they do not say."""
    found = _HEAD.match(head[:EDGE]) or _TAIL.search(tail[-EDGE:])
    return None if found is None else int(found[1])


def looks_like_one(head: bytes, tail: bytes) -> bool:
    """Whether what cannot be read was meant as a message, and not as a line for people to read."""
    return head[:1] == b"{" and (b'"jsonrpc"' in head[:EDGE] or b'"jsonrpc"' in tail[-EDGE:])


def request(number: int, method: str, params: dict[str, Any] | None) -> bytes:
    """A request; `InvalidArguments` if its params cannot be written as JSON."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    if params is not None:
        message["params"] = params
    try:
        return _encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidArguments(f"the arguments cannot be sent as JSON: {type(error).__name__}") from None


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """A message that nobody answers."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return _encode(message)


def response(number: Id, result: Any) -> bytes:
    """The answer to a request of the server; `TypeError` if the result is no JSON."""
    return _encode({"jsonrpc": "2.0", "id": number, "result": result})


def refusal(number: Id, code: int, message: str) -> bytes:
    """The answer that there is none."""
    return _encode({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


class TooLong:
    """What is known of a line that was skipped."""

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail


class LineReader:
    """Lines end with a line feed; what stands before one, carriage returns too, is the line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipped: TooLong | None = None

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """The lines that these bytes complete, in order; empty ones are left out."""
        pieces = data.split(b"\n")
        last = pieces.pop()
        found: list[bytes | TooLong] = []
        if pieces and (self._rest or self._skipped is not None):
            self._keep_piece(pieces[0])
            found.append(self._take_line())
            del pieces[0]
        found += [line if len(line) <= self._limit else TooLong(line[:EDGE], line[-EDGE:]) for line in pieces if line]
        if last:
            self._keep_piece(last)
        return found if b"" not in found else [line for line in found if line]

    def _keep_piece(self, piece: bytes) -> None:
        if self._skipped is not None:
            self._skipped.tail = (self._skipped.tail + piece[-EDGE:])[-EDGE:]
            return
        self._rest += piece
        if len(self._rest) > self._limit:
            self._skipped = TooLong(bytes(self._rest[:EDGE]), bytes(self._rest[-EDGE:]))
            self._rest = bytearray()

    def _take_line(self) -> bytes | TooLong:
        if self._skipped is not None:
            skipped, self._skipped = self._skipped, None
            return skipped
        line, self._rest = bytes(self._rest), bytearray()
        return line


def header_value(text: str) -> str:
    """The text if a header can hold it as it is, else in base64 and marked so."""
    if not text or (_PLAIN.fullmatch(text) and not _SENTINEL.fullmatch(text)):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def modern_headers(version: str, method: str, name: str | None = None) -> Headers:
    """What every request of the new protocol says outside of its body too."""
    headers = (("mcp-protocol-version", version), ("mcp-method", method))
    return headers if name is None else (*headers, ("mcp-name", header_value(name)))


def mirrored_headers(mirrored: Iterable[tuple[str, str]], arguments: dict[str, Any]) -> Headers:
    """The arguments that a tool wants repeated: each by its path with dots, and the name of its header."""
    found = []
    for path, name in mirrored:
        text = _write_scalar(_value_at(path, arguments))
        if text is not None and _TOKEN.fullmatch(name):
            found.append((f"mcp-param-{name}", header_value(text)))
    return tuple(found)


def _value_at(path: str, arguments: Any) -> Any:
    if isinstance(arguments, dict) and path in arguments:
        return arguments[path]
    value = arguments
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _write_scalar(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:  # more digits than Python writes
            return None
    return None
