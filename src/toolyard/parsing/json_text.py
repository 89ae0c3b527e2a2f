"""Strict JSON: what RFC 8259 allows and every reader understands alike, at the speed of msgspec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from toolyard.parsing.depth import nests_deeper
from toolyard.parsing.gc_pause import paused_gc
from toolyard.parsing.places import encode_utf8

LARGE = 64 * 1024
"""Bytes from which a pause of the garbage collector is worth its lock."""

_BOM = b"\xef\xbb\xbf"
_BACKSLASH = 0x5C  # Asking bytes for a number is ten times faster than asking them for bytes.
_ESCAPED_QUOTE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0022")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse_json(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None.

    Integers are exact up to 4,300 digits. Refused with `MalformedSource`, whose `where` is
    `{what}:{line}:{column}`: everything RFC 8259 forbids, and also repeated keys, numbers too large for a
    float, lone surrogates, and nesting beyond `max_depth`. A leading byte order mark is ignored.

    Depth is bounded by the interpreter's recursion limit too, whatever `max_depth` says.
    """
    source = data if isinstance(data, bytes) else encode_utf8(data, what)
    size = len(source)
    cause: Exception | None = None
    try:
        if size < LARGE:
            value = _decode(source)
        else:
            with paused_gc():
                value = _decode(source)
        # A level costs two bytes, its brackets, so a short text needs no measuring.
        if size <= 2 * max_depth or not nests_deeper(value, max_depth):
            encoded = _encode(value)
            # The decoder keeps the last of two equal keys in silence, which loses at least the two quotes around one.
            # Nothing else changes their number: a quote inside a string is one byte, `\"`, before and after, unless
            # the source spells it as a code point.
            if encoded == source or encoded.count(b'"') == source.count(b'"') + (
                _quotes_spelt_out(source) if _BACKSLASH in source else 0
            ):
                return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if source.startswith(_BOM):
            return parse_json(source[len(_BOM) :], what=what, max_depth=max_depth)
        cause = error

    from toolyard.parsing.json_faults import json_fault

    raise json_fault(source, what, max_depth) from cause


def _quotes_spelt_out(source: bytes) -> int:
    return len(_ESCAPED_QUOTE.findall(source)) if b"\\u0022" in source else 0


def iter_json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line of a JSONL text that is not blank, stripped, with its 1-based number.

    Only line feeds separate lines: the other characters `splitlines` breaks at may stand inside a JSON string.
    """
    start = len(_BOM) if data.startswith(_BOM) else 0
    number = 0
    while start < len(data):
        number += 1
        stop = data.find(b"\n", start)
        if stop < 0:
            stop = len(data)
        line = data[start:stop].strip(b" \t\r")
        if line:
            yield number, line
        start = stop + 1
