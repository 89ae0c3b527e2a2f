"""The envelope of the stateless version: what every request must say of itself, in its headers and in its body."""

from __future__ import annotations

from collections import Counter
from typing import Any

from toolyard.serving.mcp.header_params import decode_header
from toolyard.serving.mcp.json_rpc import (
    CLIENT_CAPABILITIES,
    HANDSHAKE,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    RANK,
    STATELESS,
    UNSUPPORTED_VERSION,
    RpcFault,
    RpcMessage,
)

_VERSION = b"mcp-protocol-version"
_METHOD = b"mcp-method"
_NAME = b"mcp-name"
_STATELESS = STATELESS.encode()
_HANDSHAKE = frozenset(version.encode() for version in HANDSHAKE)

Headers = list[tuple[bytes, bytes]]


def is_stateless(headers: Headers, message: RpcMessage | None) -> bool:
    """True for a request of the stateless version, or of one that nobody knows; it then says so itself."""
    version = _find_header(headers, _VERSION)
    if version is not None:
        return version not in _HANDSHAKE
    return message is not None and PROTOCOL_VERSION in message.meta


def check_envelope(message: RpcMessage) -> None:
    """Refuse a request that does not say what it speaks and what its sender can do."""
    meta = message.meta
    version = meta.get(PROTOCOL_VERSION)
    if version is None or CLIENT_CAPABILITIES not in meta:
        missing = PROTOCOL_VERSION if version is None else CLIENT_CAPABILITIES
        raise RpcFault(INVALID_PARAMS, f"params._meta must have {missing!r}")
    if type(version) is not str or type(meta[CLIENT_CAPABILITIES]) is not dict:
        raise RpcFault(INVALID_PARAMS, "params._meta: the version is text, and the capabilities are an object")


def check_version(version: str) -> None:
    """Refuse a version that is not spoken here."""
    if version != STATELESS:
        raise RpcFault(
            UNSUPPORTED_VERSION,
            f"the protocol version {version[:64]!r} is not spoken here",
            {"supported": [STATELESS], "requested": version[:64]},
        )


def check_headers(headers: Headers, message: RpcMessage) -> None:
    """Refuse a request whose headers do not say what its body says: whoever routed it read only those."""
    _check_repeats(headers)
    said = dict(headers)
    if said.get(_VERSION, b"").strip() != message.meta[PROTOCOL_VERSION].encode("utf-8", "replace"):
        raise RpcFault(HEADER_MISMATCH, "MCP-Protocol-Version does not say what params._meta says")
    if said.get(_METHOD, b"").strip() != message.method.encode("utf-8", "replace"):
        raise RpcFault(HEADER_MISMATCH, "Mcp-Method does not say what the body's method says")
    if message.method == "tools/call" and type(name := message.params.get("name")) is str:
        given = said.get(_NAME)
        if given is None or (given != name.encode("utf-8", "replace") and decode_header(given) != name):
            raise RpcFault(HEADER_MISMATCH, "Mcp-Name does not say what the body's params.name says")


def check_version_header(headers: Headers) -> None:
    """For a notification, which says its version in the header alone."""
    version = _find_header(headers, _VERSION) or b""
    if version != _STATELESS:
        check_version(version.decode("latin-1"))


def _find_header(headers: Headers, wanted: bytes) -> bytes | None:
    return next((value for name, value in headers if name == wanted), None)


def find_log_level(meta: dict[str, Any]) -> int | None:
    """From which level on a request wants to be told what tools log; None: not at all."""
    level = meta.get(LOG_LEVEL)
    if level is None:
        return None
    if type(level) is not str or level not in RANK:
        raise RpcFault(INVALID_PARAMS, f"params._meta: {LOG_LEVEL!r} is one of {', '.join(RANK)}")
    return RANK[level]


def _check_repeats(headers: Headers) -> None:
    counts = Counter(name for name, _ in headers)
    for name in (_VERSION, _METHOD, _NAME):
        if counts[name] > 1:
            raise RpcFault(HEADER_MISMATCH, f"the header {name.decode()} is there more than once")
