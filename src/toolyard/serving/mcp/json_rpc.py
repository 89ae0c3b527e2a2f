"""JSON-RPC as MCP uses it: messages, checks of envelopes and of headers that repeat them, and a request's context.

`NoticeRelay` sends the client what a tool reports while it runs.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Protocol

import msgspec

from toolyard.dialects.base import drop_none
from toolyard.dialects.mcp_protocol import (
    CLIENT_CAPABILITIES,
    HANDSHAKE,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEVELS,
    LIST_CHANGED,
    LOG_LEVEL,
    MISSING_CAPABILITY,
    NEWEST_HANDSHAKE,
    PROTOCOL_VERSION,
    REFUSED,
    SERVER_INFO,
    STATELESS,
    TOOLYARD,
    UNSUPPORTED_VERSION,
    HeaderParam,
    decode_header,
    encode_notification,
    find_header_params,
    header_text,
    value_at,
)
from toolyard.model.call import Notice, Progress, ToolCall
from toolyard.model.errors import DefinitionError
from toolyard.model.tool import Schema
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Caller

Id = str | int
Json = dict[str, Any]
Headers = list[tuple[bytes, bytes]]
EMPTY: Json = {}

encode = msgspec.json.Encoder().encode

_MADE_BY: Json = {SERVER_INFO: msgspec.Raw(encode(TOOLYARD))}
CAPABILITIES: Json = {"tools": {"listChanged": True}, "logging": {}}

TOOLS_CHANGED = encode_notification(LIST_CHANGED)
RANK = {level: rank for rank, level in enumerate(LEVELS)}


_RETRYABLE = frozenset({429, 503})
"""HTTP statuses after which the client may retry."""


class RpcFault(Exception):
    """Ends a request with a JSON-RPC error. `status` overrides the HTTP status that follows from the code."""

    headers: tuple[tuple[bytes, bytes], ...] = ()
    """HTTP headers to send with it."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status


def refuse_request(fault: HttpFault) -> RpcFault:
    """Convert an `HttpFault` to a JSON-RPC error; status and headers are kept if the client may retry."""
    if fault.status not in _RETRYABLE:
        return RpcFault(REFUSED, fault.message, fault.to_envelope())
    refused = RpcFault(REFUSED, fault.message, fault.to_envelope(), status=fault.status)
    refused.headers = fault.headers
    return refused


class RpcMessage(msgspec.Struct, eq=False):
    """One request or notification."""

    method: str
    params: Json
    meta: Json
    id: Id | None
    """None for a notification."""


def read_message(document: Json) -> RpcMessage | None:
    """Parse a request or notification; None for a response to a request of the server."""
    method = document.get("method")
    if document.get("jsonrpc") != "2.0":
        raise RpcFault(INVALID_REQUEST, "a message needs jsonrpc: '2.0'", status=400)
    if type(method) is not str:
        if "method" not in document and ("result" in document or "error" in document):
            return None
        raise RpcFault(INVALID_REQUEST, "a message needs a method, which is text", status=400)
    number = document.get("id")
    if "id" in document and type(number) is not str and type(number) is not int:
        raise RpcFault(INVALID_REQUEST, "the id of a request is text or a whole number", status=400)
    params = document.get("params", EMPTY)
    if type(params) is not dict:
        raise RpcFault(INVALID_PARAMS, "params must be an object", status=400)
    meta = params.get("_meta", EMPTY)
    if type(meta) is not dict:
        raise RpcFault(INVALID_PARAMS, "params._meta must be an object", status=400)
    return RpcMessage(method, params, meta, number)


def find_id(document: Any) -> Id | None:
    """The id of a possibly invalid message, for the error response; None if it has none."""
    number = document.get("id") if type(document) is dict else None
    return number if type(number) is str or type(number) is int else None


def encode_result(number: Id | None, result: bytes) -> bytes:
    """Encode a response with an already encoded result."""
    # Fast path for integers, which most ids are.
    encoded = b"%d" % number if type(number) is int else encode(number)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encoded, result)


def finish_result(result: Json, *, stateless: bool) -> bytes:
    """Encode a result. In the stateless version every result names the server and says that it is complete."""
    if stateless:
        result["resultType"] = "complete"
        result["_meta"] = {**result["_meta"], **_MADE_BY} if "_meta" in result else _MADE_BY
    return encode(result)


_BLOCKS_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""The protocol versions that added kinds of content blocks."""


def fit_content(result: Json, version: str) -> Json:
    """The result with blocks that the version lacks as JSON text; its clients would reject the whole result."""
    if version >= max(_BLOCKS_SINCE.values()):
        return result
    lacking = {kind for kind, since in _BLOCKS_SINCE.items() if since > version}
    blocks = [
        # A tool may return any object as a block.
        {"type": "text", "text": encode(block).decode()} if str(block.get("type")) in lacking else block
        for block in result["content"]
    ]
    return {**result, "content": blocks}


def encode_error(number: Id | None, fault: RpcFault) -> bytes:
    """Encode an error response."""
    error: Json = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return encode({"jsonrpc": "2.0", "id": number, "error": error})


def read_header_params(schema: Schema) -> tuple[HeaderParam, ...]:
    """The arguments that headers repeat; empty if an annotation is invalid.

    Clients ignore tools with an invalid annotation, so they cannot be expected to send headers for them.
    """
    try:
        return find_header_params(schema)
    except DefinitionError:
        return ()


_INTEGER = re.compile(r"-?[0-9]+(?:\.0+)?")


def check_header_params(wanted: tuple[HeaderParam, ...], arguments: Mapping[str, Any], headers: Headers) -> None:
    """Refuse a request whose headers do not match its arguments."""
    for each in wanted:
        header = each.name.lower().encode()
        given = [value for name, value in headers if name == header]
        if len(given) > 1:
            raise RpcFault(HEADER_MISMATCH, f"{each.name} occurs more than once")
        expected = header_text(value_at(arguments, each.path))
        argument = ".".join(each.path)
        if expected is None:
            if given:
                raise RpcFault(HEADER_MISMATCH, f"{each.name} is there, but nothing it could repeat at {argument!r}")
            continue
        if not given:
            raise RpcFault(HEADER_MISMATCH, f"{each.name} is missing; it must repeat the argument {argument!r}")
        found = decode_header(given[0])
        if found is None:
            raise RpcFault(HEADER_MISMATCH, f"{each.name} is not valid base64 of UTF-8")
        # Integers are compared as `Decimal`, since `int` limits the number of digits it parses.
        both_integers = each.is_integer and all(map(_INTEGER.fullmatch, (found, expected)))
        if found != expected and not (both_integers and Decimal(found) == Decimal(expected)):
            raise RpcFault(HEADER_MISMATCH, f"{each.name} does not say what the argument {argument!r} says")


VERSION_HEADER = b"mcp-protocol-version"
_METHOD = b"mcp-method"
_NAME = b"mcp-name"
_REPEATING = (VERSION_HEADER, _METHOD, _NAME)
_HANDSHAKE = frozenset(version.encode() for version in HANDSHAKE)


def is_stateless(headers: Mapping[bytes, bytes], message: RpcMessage | None) -> bool:
    """True for a request of the stateless version, or of an unknown one, which `check_version` refuses."""
    version = headers.get(VERSION_HEADER)
    if version is not None:
        return version not in _HANDSHAKE
    return message is not None and PROTOCOL_VERSION in message.meta


def check_envelope(message: RpcMessage) -> None:
    """Refuse a stateless request without protocol version and client capabilities."""
    meta = message.meta
    version = meta.get(PROTOCOL_VERSION)
    if version is None or CLIENT_CAPABILITIES not in meta:
        missing = PROTOCOL_VERSION if version is None else CLIENT_CAPABILITIES
        raise RpcFault(INVALID_PARAMS, f"params._meta must have {missing!r}")
    if type(version) is not str or type(meta[CLIENT_CAPABILITIES]) is not dict:
        raise RpcFault(INVALID_PARAMS, "params._meta: the version is text, and the capabilities are an object")


def check_version(version: str) -> None:
    """Refuse a protocol version that is not supported."""
    if version != STATELESS:
        raise RpcFault(
            UNSUPPORTED_VERSION,
            f"the protocol version {version[:64]!r} is not supported",
            {"supported": [STATELESS], "requested": version[:64]},
        )


def check_headers(headers: Headers, message: RpcMessage) -> None:
    """Refuse a request whose headers do not match its body, since proxies may have routed it by the headers alone."""
    values = dict(headers)
    if len(values) != len(headers):
        names = [name for name, _ in headers]
        for name in filter(lambda name: names.count(name) > 1, _REPEATING):
            raise RpcFault(HEADER_MISMATCH, f"the header {name.decode()} occurs more than once")
    if values.get(VERSION_HEADER, b"").strip() != message.meta[PROTOCOL_VERSION].encode("utf-8", "replace"):
        raise RpcFault(HEADER_MISMATCH, "MCP-Protocol-Version does not say what params._meta says")
    if values.get(_METHOD, b"").strip() != message.method.encode("utf-8", "replace"):
        raise RpcFault(HEADER_MISMATCH, "Mcp-Method does not say what the body's method says")
    if message.method == "tools/call" and type(called := message.params.get("name")) is str:
        given = values.get(_NAME)
        if given is None or (given != called.encode("utf-8", "replace") and decode_header(given) != called):
            raise RpcFault(HEADER_MISMATCH, "Mcp-Name does not say what the body's params.name says")


def read_level(level: object, where: str) -> int:
    """The rank of a log level; `RpcFault` for an unknown one."""
    if type(level) is not str or level not in RANK:
        raise RpcFault(INVALID_PARAMS, f"{where} is one of {', '.join(RANK)}")
    return RANK[level]


def negotiate_version(message: RpcMessage) -> str:
    """The protocol version to use: the client's if supported, else our newest, which the client may refuse."""
    wanted = message.params.get("protocolVersion")
    if type(wanted) is not str:
        raise RpcFault(INVALID_PARAMS, "params.protocolVersion must be text")
    return wanted if wanted in HANDSHAKE else NEWEST_HANDSHAKE


SendMessage = Callable[[bytes], None]
"""Sends a notification to the client; called on the event loop."""
AskClient = Callable[[Json], Awaitable[Json]]
"""Sends the client an elicitation with these parameters; returns its result."""
_LONGEST_REPR = 10_000


class NoticeRelay:
    """Sends a tool's progress and log lines to the client as notifications. May be called from any thread."""

    __slots__ = ("_last", "_level", "_loop", "_send", "_thread", "_token")

    def __init__(self, send: SendMessage, token: str | int | None, level: int | None) -> None:
        self._send = send
        self._token = token
        self._level = level
        self._last = float("-inf")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def __call__(self, call: ToolCall, notice: Notice) -> None:
        """Send a notice, if the client wants it."""
        try:
            message = self._encode(notice)
        except Exception:  # noqa: BLE001 - an invalid notice must not make the call fail
            message = _encode_invalid(notice)
        if message is None:
            return
        if threading.get_ident() == self._thread:
            self._send(message)
            return
        # The loop is closed if the client is gone.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send, message)

    def _encode(self, notice: Notice) -> bytes | None:
        if isinstance(notice, Progress):
            # MCP requires that progress increases with each notification.
            if self._token is None or not notice.progress > self._last:
                return None
            self._last = notice.progress
            params = {"progressToken": self._token, "progress": notice.progress}
            params |= drop_none({"total": notice.total, "message": notice.message})
            return encode_notification("notifications/progress", params)
        if self._level is None or RANK.get(notice.level, 0) < self._level:
            return None
        params = {"level": notice.level, "data": notice.data, **drop_none({"logger": notice.logger})}
        return encode_notification("notifications/message", params)


def _encode_invalid(notice: Notice) -> bytes | None:
    """A log line with the repr of data that is not JSON; None for invalid progress."""
    if isinstance(notice, Progress):
        return None
    try:
        shown = repr(notice.data)
    except Exception:  # noqa: BLE001 - as above
        shown = f"<{type(notice.data).__name__}>"
    data = shown[:_LONGEST_REPR].encode("utf-8", "backslashreplace").decode()
    level = notice.level if isinstance(notice.level, str) and notice.level in RANK else "info"
    return encode_notification("notifications/message", {"level": level, "data": data})


class HandshakeClient(Protocol):
    """A client with a log level and a protocol version that apply to all its requests."""

    level: int
    version: str


class RequestContext(msgspec.Struct, eq=False):
    """A request, its caller, and the ways to reach the client before the response."""

    message: RpcMessage
    caller: Caller
    notify: SendMessage | None
    """Sends a notification before the response; None if that is impossible."""
    client: HandshakeClient | None = None
    """The session; None in the stateless version."""
    headers: Headers | None = None
    """Headers that must match the body (stateless HTTP); else None."""
    ask: AskClient | None = None
    """None if the client does not support elicitation."""
    find_address: Callable[[], str] | None = None
    """Returns the address by which the client reaches the server; None if it has none."""
    measured: Json = {}
    """Attributes of the metric of its duration."""

    @property
    def stateless(self) -> bool:
        """True for a request of the protocol version without a handshake."""
        return self.client is None

    def make_listener(self) -> Callable[[ToolCall, Notice], None] | None:
        """A listener that relays a tool's notices to the client; None if the client wants none."""
        meta = self.message.meta
        level = None if self.client is None else self.client.level
        if self.client is None and meta.get(LOG_LEVEL) is not None:
            level = read_level(meta[LOG_LEVEL], f"params._meta: {LOG_LEVEL!r}")
        token = meta.get("progressToken")
        if type(token) is not str and type(token) is not int:
            token = None
        if self.notify is None or (token is None and level is None):
            return None
        return NoticeRelay(self.notify, token, level)

    def read_object(self, key: str) -> Json:
        """The object under a key of its `_meta`, empty if missing; `RpcFault` if it is not an object."""
        value = self.message.meta.get(key, EMPTY)
        if type(value) is not dict:
            raise RpcFault(INVALID_PARAMS, f"params._meta: {key!r} must be an object")
        return value


def check_capabilities(context: RequestContext, required: Json) -> None:
    """Refuse a client that lacks required capabilities; only the stateless version sends them with each request."""
    offered = context.message.meta.get(CLIENT_CAPABILITIES, EMPTY)
    missing = {key: value for key, value in required.items() if key not in offered}
    if context.stateless and missing:
        raise RpcFault(
            MISSING_CAPABILITY,
            f"the tool needs a client with {', '.join(sorted(missing))}",
            {"requiredCapabilities": missing},
        )
