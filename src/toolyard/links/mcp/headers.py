"""Headers that repeat what a message says, so that those on the way need not read it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SENTINEL = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Headers = tuple[tuple[str, str], ...]


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
        text = _scalar(_at(path, arguments))
        if text is not None and _TOKEN.fullmatch(name):
            found.append((f"mcp-param-{name}", header_value(text)))
    return tuple(found)


def _at(path: str, arguments: Any) -> Any:
    if isinstance(arguments, dict) and path in arguments:
        return arguments[path]
    value = arguments
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _scalar(value: Any) -> str | None:
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
