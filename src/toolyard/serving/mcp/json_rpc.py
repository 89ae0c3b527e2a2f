"""JSON-RPC as MCP uses it: versions, error codes, and messages in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolyard.constants import VERSION

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that begin with `initialize`, oldest first."""
NEWEST_HANDSHAKE = HANDSHAKE[-1]
STATELESS = "2026-07-28"
"""The version without a handshake: every request carries all there is to know."""
WITH_PRIMING = "2025-11-25"
"""From this version on, clients know that a stream may begin with an empty event."""

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

_OWN = "io.modelcontextprotocol/"
PROTOCOL_VERSION = _OWN + "protocolVersion"
CLIENT_CAPABILITIES = _OWN + "clientCapabilities"
LOG_LEVEL = _OWN + "logLevel"
SERVER_INFO = _OWN + "serverInfo"
SUBSCRIPTION_ID = _OWN + "subscriptionId"

Id = str | int
Json = dict[str, Any]
NOTHING: Json = {}

encode = msgspec.json.Encoder().encode

SERVER = {"name": "toolyard", "version": VERSION}
SERVER_RAW = msgspec.Raw(encode(SERVER))
CAPABILITIES: Json = {"tools": {"listChanged": True}, "logging": {}}
LIST_CHANGED = "notifications/tools/list_changed"

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
RANK = {level: rank for rank, level in enumerate(LEVELS)}


class RpcFault(Exception):
    """Ends a request with a JSON-RPC error. `status` is that of HTTP, where the error says more than its code."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class RpcMessage(msgspec.Struct, eq=False):
    """One request or notification."""

    method: str
    params: Json
    meta: Json
    id: Id | None
    """None for a notification."""


def read_message(document: Json) -> RpcMessage | None:
    """A request or notification; None for an answer to a request, of which none is ever sent from here."""
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
    params = document.get("params", NOTHING)
    if type(params) is not dict:
        raise RpcFault(INVALID_PARAMS, "params must be an object", status=400)
    meta = params.get("_meta", NOTHING)
    if type(meta) is not dict:
        raise RpcFault(INVALID_PARAMS, "params._meta must be an object", status=400)
    return RpcMessage(method, params, meta, number)


def find_id(document: Any) -> Id | None:
    """The id of a message that may be anything, for the error that answers it."""
    number = document.get("id") if type(document) is dict else None
    return number if type(number) is str or type(number) is int else None


def encode_result(number: Id | None, result: bytes) -> bytes:
    """The answer to a request."""
    # A number needs no encoder, and most ids are numbers.
    shown = b"%d" % number if type(number) is int else encode(number)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (shown, result)


def encode_error(number: Id | None, fault: RpcFault) -> bytes:
    """The answer to a request that failed as such."""
    error: Json = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return encode({"jsonrpc": "2.0", "id": number, "error": error})


def encode_notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Something said unasked."""
    told: Json = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        told["params"] = params
    return encode(told)
