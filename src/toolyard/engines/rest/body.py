"""Request bodies: JSON, forms, multipart, text and bytes."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import msgspec

from toolyard.engines.rest.media import charset_of, kind_of, plain, sent_as
from toolyard.engines.rest.serialise import Pairs, encode_all, styled_pairs, text_of
from toolyard.model.bindings import RestBody, RestPart
from toolyard.model.errors import InvalidArguments

Written = tuple[str, bytes]
"""The content type and what is sent."""

_JSON_PART = RestPart(content_type="application/json")
_DISPOSITION = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def write_body(body: RestBody, arguments: Mapping[str, Any]) -> Written | None:
    """The body these arguments make; None if there is none to send."""
    if body.argument is not None:
        if body.argument not in arguments:
            return None
        return _write_media(body, arguments[body.argument], body.argument)
    value = {name: arguments[argument] for argument, name in body.properties.items() if argument in arguments}
    if not value and not body.required:
        return None
    return _write_media(body, value, "body")


def _write_media(body: RestBody, value: Any, argument: str) -> Written:
    media_type = sent_as(body.media_type)
    kind = kind_of(media_type)
    if body.binary:
        return media_type, from_base64(value, argument)
    if kind == "form":
        return media_type, _write_form(value, body.parts, argument).encode()
    if kind == "multipart":
        return _write_multipart(media_type, value, body.parts, argument)
    if kind == "json" or not isinstance(value, str):
        return media_type, _write_json(value)
    if kind == "text" and charset_of(media_type) is None and plain(media_type).startswith("text/"):
        media_type = f"{media_type}; charset=utf-8"
    return media_type, _write_bytes(value, charset_of(media_type) or "utf-8", argument)


def from_base64(value: Any, argument: str) -> bytes:
    """The bytes that text stands for."""
    try:
        if not isinstance(value, str):
            raise ValueError("not text")
        text = "".join(value.split()).rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidArguments(f"{argument!r} must be base64 text of the bytes to send") from None


def _write_json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise InvalidArguments("half of a surrogate pair cannot be sent") from None


def _write_bytes(text: str, charset: str, argument: str) -> bytes:
    try:
        return text.encode(charset)
    except UnicodeEncodeError:
        raise InvalidArguments(f"{argument!r} cannot be written in {charset}, which the service wants") from None


def _body_object(value: Any, argument: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArguments(f"{argument!r} is sent as a form and must be an object")
    return value


def _write_form(value: Any, parts: Mapping[str, RestPart], argument: str) -> str:
    pairs: Pairs = []
    for name, item in _body_object(value, argument).items():
        if item is None:
            continue
        part = parts.get(name)
        if part is not None and part.style is not None:
            pairs += styled_pairs(name, part.style, part.explode, item, argument=name)
        elif isinstance(item, dict) or (part is not None and part.content_type is not None):
            pairs.append((encode_all(name), encode_all(_part_text(item, part or _JSON_PART))))
        else:
            pairs += styled_pairs(name, "form", True if part is None else part.explode, item, argument=name)
    return "&".join([f"{name}={text}" for name, text in pairs])


def _part_text(value: Any, part: RestPart) -> str:
    content = part.content_type or "text/plain"
    return _write_json(value).decode() if kind_of(content) == "json" else text_of(value)


def _write_multipart(media_type: str, value: Any, parts: Mapping[str, RestPart], argument: str) -> Written:
    written: list[tuple[str, bytes]] = []
    for name, item in _body_object(value, argument).items():
        part = parts.get(name)
        if part is not None and part.style is not None:
            pairs = styled_pairs(name, part.style, part.explode, item, argument=name)
            written += [(_part_head(unquote(key), None, binary=False), unquote_to_bytes(text)) for key, text in pairs]
            continue
        several = isinstance(item, list) and not (part is not None and kind_of(part.content_type or "*/x") == "json")
        for one in item if several else [item]:
            if one is not None:
                written.append(_write_part(name, one, part))
    boundary = secrets.token_hex(16)
    while any(boundary.encode() in data for _, data in written):
        boundary = secrets.token_hex(16)
    lines: list[bytes] = []
    for head, data in written:
        lines += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), data, b"\r\n"]
    lines.append(f"--{boundary}--\r\n".encode())
    return f"{media_type.partition(';')[0].strip()}; boundary={boundary}", b"".join(lines)


def _write_part(name: str, value: Any, part: RestPart | None) -> tuple[str, bytes]:
    content_type = None if part is None else part.content_type
    if part is not None and part.binary:
        return _part_head(name, content_type or "application/octet-stream", binary=True), from_base64(value, name)
    if isinstance(value, dict | list) or kind_of(content_type or "text/plain") == "json":
        return _part_head(name, content_type or "application/json", binary=False), _write_json(value)
    charset = charset_of(content_type or "") or "utf-8"
    return _part_head(name, content_type, binary=False), _write_bytes(text_of(value), charset, name)


def _part_head(name: str, content_type: str | None, *, binary: bool) -> str:
    shown = name.translate(_DISPOSITION)
    head = f'Content-Disposition: form-data; name="{shown}"'
    if binary:
        head += f'; filename="{shown}"'
    if content_type is not None:
        head += f"\r\nContent-Type: {_one_line(sent_as(content_type))}"
    return head


def _one_line(text: str) -> str:
    return "".join(char for char in text if char >= " ")
