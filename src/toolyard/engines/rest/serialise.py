"""Serialises values in requests by OpenAPI's styles, exploded or not.

Values that would be ambiguous in their style are refused, so that no server reads other values than were given.
Null is left out, as in RFC 6570; values nested deeper than a style supports are written as JSON.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

import msgspec

from toolyard.links.http.messages import bare_media_type, charset_of, concrete_media_type, media_kind
from toolyard.model.bindings import OTHER_PARTS, RestBody, RestParameter, RestPart
from toolyard.model.errors import InvalidArguments

Pairs = list[tuple[str, str]]
"""Names and values, both encoded as sent."""
Encode = Callable[[str], str]

_RESERVED = ":/?@!$'()*,[]="
"""Characters that `allowReserved` leaves unencoded: all that have no meaning of their own in a query string."""
_DELIMITERS = {"spaceDelimited": (" ", "%20"), "pipeDelimited": ("|", "%7C")}
_MAX_DEPTH = 32


def text_of(value: Any) -> str:
    """A single value as text; a nested one as JSON."""
    if type(value) is str:
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return repr(value)
    return msgspec.json.encode(value).decode()


def content_text(value: Any, media_type: str) -> str:
    """The value in a media type: as JSON, or as plain text."""
    return _write_json(value).decode() if media_kind(media_type) == "json" else text_of(value)


def encode_all(text: str) -> str:
    """The text percent-encoded, except for letters, digits and `-._~`."""
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise InvalidArguments("half of a surrogate pair cannot be sent") from None


def _encode_list_item(text: str) -> str:
    return quote(text, safe=_RESERVED.replace(",", ""))


def _encode_reserved(text: str) -> str:
    return quote(text, safe=_RESERVED)


def path_text(parameter: RestParameter, value: Any) -> str:
    """The value of a path parameter, percent-encoded; empty if there is none."""
    if parameter.media_type is not None:
        return encode_all(content_text(value, parameter.media_type))
    if type(value) is str and parameter.style == "simple":
        return encode_all(value)
    name = encode_all(parameter.name)
    items = _object_items(value)
    if parameter.style == "matrix":
        return _matrix_text(name, value, items, parameter.explode)
    dotted = parameter.style == "label"
    joint = "." if dotted and parameter.explode else ","
    if items is None:
        text = "" if value is None else encode_all(text_of(value))
    else:
        text = _join_items(items, encode_all, joint, "=" if parameter.explode else joint)
    return f".{text}" if dotted and text else text


def _matrix_text(name: str, value: Any, items: Pairs | list[str] | None, explode: bool) -> str:
    if items is None:
        return "" if value is None else f";{name}={encode_all(text_of(value))}"
    if not items:
        return ""
    if not explode:
        return f";{name}={_join_items(items, encode_all, ',', ',')}"
    return "".join(f";{key}={text}" for key, text in _explode_items(items, name, encode_all, encode_all))


def query_pairs(parameter: RestParameter, value: Any) -> Pairs:
    """The names and values of a query parameter, percent-encoded."""
    encode = _encode_reserved if parameter.allow_reserved else encode_all
    name = encode_all(parameter.name)
    if parameter.media_type is not None:
        return [(name, encode(content_text(value, parameter.media_type)))]
    if type(value) is str and parameter.style != "deepObject":
        return [(name, encode(value))]
    return styled_pairs(parameter.name, parameter.style, parameter.explode, value, encode, parameter.argument)


def styled_pairs(
    name: str, style: str, explode: bool, value: Any, encode: Encode = encode_all, argument: str = ""
) -> Pairs:
    """The pairs of a query or form parameter, by style."""
    if value is None:
        return []
    if style == "deepObject":
        return [(key, encode(text)) for key, text in _deep_pairs(encode_all(name), value, 0)]
    items, key = _object_items(value), encode_all(name)
    if items is None:
        return [(key, encode(text_of(value)))]
    if not items:
        return []
    if explode:
        return _explode_items(items, key, encode_all, encode)
    if encode is _encode_reserved:
        encode = _encode_list_item
    delimiter, written = _DELIMITERS.get(style, (",", ","))
    if delimiter != ",":
        _check_without(items, delimiter, argument or name)
    return [(key, _join_items(items, encode, written, written))]


def header_text(parameter: RestParameter, value: Any) -> str | None:
    """The value of a header; None if there is none to send."""
    if parameter.media_type is not None:
        return _check_visible(content_text(value, parameter.media_type), parameter)
    items = _object_items(value)
    if items is None:
        return None if value is None else _check_visible(text_of(value), parameter)
    if not items:
        return None
    _check_without(items, ",", parameter.argument)
    if parameter.explode:
        _check_without([item[0] for item in items if isinstance(item, tuple)], "=", parameter.argument)
    return _check_visible(_join_items(items, str, ",", "=" if parameter.explode else ","), parameter)


def cookie_pairs(parameter: RestParameter, value: Any) -> Pairs:
    """The cookies of a parameter; an exploded one gives several."""

    def encode(text: str) -> str:
        # Characters allowed in cookies are left unencoded, all others and the percent sign are encoded.
        return quote(_check_visible(text, parameter), safe="!#$&'()*+/:<=>?@[]^`{|}")

    if parameter.media_type is not None:
        return [(parameter.name, encode(content_text(value, parameter.media_type)))]
    items = _object_items(value)
    if items is None:
        return [] if value is None else [(parameter.name, encode(text_of(value)))]
    if not items:
        return []
    if not parameter.explode:
        return [(parameter.name, _join_items(items, encode, ",", ","))]
    return _explode_items(items, parameter.name, encode, encode)


def _check_visible(text: str, parameter: RestParameter) -> str:
    if not text.isprintable() and any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise InvalidArguments(
            f"{parameter.argument!r} goes into a {parameter.location}, which holds no line breaks or other controls"
        )
    return text


def _object_items(value: Any) -> Pairs | list[str] | None:
    """The texts of an array, the pairs of an object; None for a single value."""
    if isinstance(value, list):
        return [text_of(item) for item in value if item is not None]
    if isinstance(value, dict):
        return [(key, text_of(item)) for key, item in value.items() if item is not None]
    return None


def _join_items(items: Pairs | list[str], encode: Encode, between: str, inside: str) -> str:
    return between.join(
        f"{encode(item[0])}{inside}{encode(item[1])}" if isinstance(item, tuple) else encode(item) for item in items
    )


def _explode_items(items: Pairs | list[str], name: str, encode_key: Encode, encode: Encode) -> Pairs:
    """One pair per item: under its own key in an object, all under `name` in an array."""
    return [
        (encode_key(item[0]), encode(item[1])) if isinstance(item, tuple) else (name, encode(item)) for item in items
    ]


def _check_without(items: Pairs | list[str], delimiter: str, argument: str) -> None:
    for item in items:
        if any(delimiter in text for text in (item if isinstance(item, tuple) else (item,))):
            raise InvalidArguments(
                f"a value of {argument!r} holds {delimiter!r}, which the service uses as a separator",
                hint="the parameter's format cannot express such a value; use another one",
            )


def _deep_pairs(key: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if depth < _MAX_DEPTH and isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in inside:
            yield from _deep_pairs(f"{key}%5B{encode_all(str(name))}%5D", item, depth + 1)
    else:
        yield key, text_of(value)


Written = tuple[str, bytes]
"""The content type and the bytes sent."""

_JSON_PART = RestPart(content_type="application/json")
_DISPOSITION = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


def write_body(body: RestBody, arguments: Mapping[str, Any]) -> Written | None:
    """The body for these arguments; None if there is none to send."""
    if body.argument is not None:
        if body.argument not in arguments:
            return None
        return _write_media(body, arguments[body.argument], body.argument)
    value = {name: arguments[argument] for argument, name in body.properties.items() if argument in arguments}
    if not value and not body.required:
        return None
    return _write_media(body, value, "body")


def _write_media(body: RestBody, value: Any, argument: str) -> Written:
    media_type = concrete_media_type(body.media_type)
    kind = media_kind(media_type)
    if body.binary:
        return media_type, from_base64(value, argument)
    if kind == "form":
        return media_type, _write_form(value, body.parts, argument).encode()
    if kind == "multipart":
        return _write_multipart(media_type, value, body.parts, argument)
    if kind == "json" or not isinstance(value, str):
        return media_type, _write_json(value)
    if kind == "text" and charset_of(media_type) is None and bare_media_type(media_type).startswith("text/"):
        media_type = f"{media_type}; charset=utf-8"
    return media_type, _write_bytes(value, charset_of(media_type) or "utf-8", argument)


def from_base64(value: Any, argument: str) -> bytes:
    """The bytes encoded by base64 text, with or without padding."""
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
            pairs.append(
                (encode_all(name), encode_all(content_text(item, (part or _JSON_PART).content_type or "text/plain")))
            )
        else:
            pairs += styled_pairs(name, "form", True if part is None else part.explode, item, argument=name)
    return "&".join([f"{name}={text}" for name, text in pairs])


def _write_multipart(media_type: str, value: Any, parts: Mapping[str, RestPart], argument: str) -> Written:
    written: list[tuple[str, bytes]] = []
    for name, item in _body_object(value, argument).items():
        written += _write_field(name, item, parts.get(name, parts.get(OTHER_PARTS)))
    boundary = secrets.token_hex(16)
    while any(boundary.encode() in data for _, data in written):
        boundary = secrets.token_hex(16)
    lines: list[bytes] = []
    for head, data in written:
        lines += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), data, b"\r\n"]
    lines.append(f"--{boundary}--\r\n".encode())
    return f"{media_type.partition(';')[0].strip()}; boundary={boundary}", b"".join(lines)


def _write_field(name: str, value: Any, part: RestPart | None) -> Iterator[tuple[str, bytes]]:
    """The parts of a property: one, one per item of a list, or those of an object that contains files."""
    if value is None:
        return
    nested = part.parts if part is not None else None
    if part is not None and part.style is not None and not (part.binary or nested):
        for key, text in styled_pairs(name, part.style, part.explode, value, argument=name):
            yield _part_head(unquote(key), None, binary=False), unquote_to_bytes(text)
    elif nested and isinstance(value, dict):
        for key, item in value.items():
            yield from _write_field(f"{name}[{key}]", item, nested.get(key, nested.get(OTHER_PARTS)))
    elif isinstance(value, list) and not (part is not None and media_kind(part.content_type or "*/x") == "json"):
        for number, item in enumerate(value):
            if nested and isinstance(item, dict):
                yield from _write_field(f"{name}[{number}]", item, part)
            elif item is not None:
                yield _write_part(name, item, part)
    else:
        yield _write_part(name, value, part)


def _write_part(name: str, value: Any, part: RestPart | None) -> tuple[str, bytes]:
    content_type = None if part is None else part.content_type
    if part is not None and part.binary and (_is_base64(value) if part.text else not isinstance(value, dict | list)):
        return _part_head(name, content_type or "application/octet-stream", binary=True), from_base64(value, name)
    if isinstance(value, dict | list) or media_kind(content_type or "text/plain") == "json":
        return _part_head(name, content_type or "application/json", binary=False), _write_json(value)
    charset = charset_of(content_type or "") or "utf-8"
    return _part_head(name, content_type, binary=False), _write_bytes(text_of(value), charset, name)


def _is_base64(value: Any) -> bool:
    """True if the text is canonical base64, for parts where base64 is optional."""
    try:
        return isinstance(value, str) and value != "" and base64.b64encode(base64.b64decode(value)).decode() == value
    except ValueError:
        return False


def _part_head(name: str, content_type: str | None, *, binary: bool) -> str:
    shown = name.translate(_DISPOSITION)
    head = f'Content-Disposition: form-data; name="{shown}"'
    if binary:
        head += f'; filename="{shown}"'
    if content_type is not None:
        head += f"\r\nContent-Type: {_one_line(concrete_media_type(content_type))}"
    return head


def _one_line(text: str) -> str:
    return "".join(char for char in text if char >= " ")
