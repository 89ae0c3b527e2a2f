"""Values as text in a request: OpenAPI's styles, exploded or not.

What a style cannot tell apart once it is written is refused, so that no server reads other values than were given.
Null is left out, as in RFC 6570; what is nested deeper than a style can say is written as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from toolyard.engines.rest.media import kind_of
from toolyard.model.bindings import RestParameter
from toolyard.model.errors import InvalidArguments

Pairs = list[tuple[str, str]]
"""Names and values, both as they are sent."""
Encode = Callable[[str], str]

_RESERVED = ":/?@!$'()*,[]="
"""What `allowReserved` leaves as it is: all that no reader of queries takes for something else."""
_DELIMITERS = {"spaceDelimited": (" ", "%20"), "pipeDelimited": ("|", "%7C")}
_DEEPEST = 32


def text_of(value: Any) -> str:
    """One value as text; a nested one as JSON."""
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
    """The value written as a media type: JSON, or the text it is."""
    return msgspec.json.encode(value).decode() if kind_of(media_type) == "json" else text_of(value)


def encode_all(text: str) -> str:
    """Percent-encoded, nothing but letters, digits and `-._~` left as it is."""
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise InvalidArguments("half of a surrogate pair cannot be sent") from None


def _encode_list_item(text: str) -> str:
    return quote(text, safe=_RESERVED.replace(",", ""))


def _encode_reserved(text: str) -> str:
    return quote(text, safe=_RESERVED)


def path_text(parameter: RestParameter, value: Any) -> str:
    """What stands for a path parameter, percent-encoded; empty if there is nothing to stand there."""
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
    pairs = [(encode_all(item[0]), item[1]) if isinstance(item, tuple) else (name, item) for item in items]
    return "".join(f";{key}={encode_all(text)}" for key, text in pairs)


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
    """The pairs of a query or form, by style."""
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
        return [
            (encode_all(item[0]), encode(item[1])) if isinstance(item, tuple) else (key, encode(item)) for item in items
        ]
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
    """The cookies of a parameter; one that is exploded is several."""
    if parameter.media_type is not None:
        text = content_text(value, parameter.media_type)
        return [(parameter.name, _quote_cookie(_check_visible(text, parameter)))]

    def encode(text: str) -> str:
        return _quote_cookie(_check_visible(text, parameter))

    items = _object_items(value)
    if items is None:
        return [] if value is None else [(parameter.name, encode(text_of(value)))]
    if not items:
        return []
    if not parameter.explode:
        return [(parameter.name, _join_items(items, encode, ",", ","))]
    return [
        (encode(item[0]), encode(item[1])) if isinstance(item, tuple) else (parameter.name, encode(item))
        for item in items
    ]


def _quote_cookie(text: str) -> str:
    """What cookies may hold is left as it is; the rest is percent-encoded, and the sign for that too."""
    return quote(text, safe="!#$&'()*+/:<=>?@[]^`{|}")


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


def _check_without(items: Pairs | list[str], delimiter: str, argument: str) -> None:
    for item in items:
        if any(delimiter in text for text in (item if isinstance(item, tuple) else (item,))):
            raise InvalidArguments(
                f"a value of {argument!r} holds {delimiter!r}, by which the service tells its values apart",
                hint="the service has no way of writing such a value; use another one",
            )


def _deep_pairs(key: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if depth < _DEEPEST and isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in inside:
            yield from _deep_pairs(f"{key}%5B{encode_all(str(name))}%5D", item, depth + 1)
    else:
        yield key, text_of(value)
