"""JSON-RPC messages, read and written with msgspec, and the headers that repeat what a message says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from toolyard.dialects.mcp_protocol import encode_header, encode_notification, header_text, value_at
from toolyard.model.errors import InvalidArguments
from toolyard.parsing.documents import nests_deeper
from toolyard.parsing.lines import EDGE

Id = int | float | str | None
Headers = tuple[tuple[str, str], ...]

_DIGITS = 18
_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*[,}]')
_TAIL = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

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
        found = _decode_messages(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableError from None
    for message in found:
        # Our requests are numbered; some servers write the number of an answer as text.
        if type(message.id) is str and message.id.isdecimal() and len(message.id) <= _DIGITS and message.is_response:
            message.id = int(message.id)
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


def cancellation(number: int) -> bytes:
    """Tells a server that it need not answer a request any more."""
    params = {"requestId": number, "reason": "nobody waits for it any more"}
    return encode_notification("notifications/cancelled", params)


def response(number: Id, result: Any) -> bytes:
    """The answer to a request of the server; `TypeError` if the result is no JSON."""
    return _encode({"jsonrpc": "2.0", "id": number, "result": result})


def refusal(number: Id, code: int, message: str) -> bytes:
    """The answer that there is none."""
    return _encode({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


def modern_headers(version: str, method: str, name: str | None = None) -> Headers:
    """What every request of the new protocol says outside of its body too."""
    headers = (("mcp-protocol-version", version), ("mcp-method", method))
    return headers if name is None else (*headers, ("mcp-name", encode_header(name)))


def mirrored_headers(mirrored: Iterable[tuple[str, str]], arguments: dict[str, Any]) -> Headers:
    """The arguments that a tool wants repeated: each by its path with dots, and the name of its header."""
    found = []
    for path, name in mirrored:
        text = header_text(arguments[path] if path in arguments else value_at(arguments, path.split(".")))
        if text is not None and _TOKEN.fullmatch(name):
            found.append((f"mcp-param-{name}", encode_header(text)))
    return tuple(found)
