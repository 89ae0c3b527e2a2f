"""The bytes of a document as data, more forgiving than a catalog: nobody here wrote it, nor can mend it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json, parse_yaml
from toolyard.parsing.depth import nests_deeper
from toolyard.parsing.yaml.document import normalise_lines

_MAX_DEPTH = 200
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")
_BOM = b"\xef\xbb\xbf"


def read_text(data: bytes, what: str) -> tuple[Any, list[str]]:
    """The document, and what had to be overlooked to read it; `MalformedSource` if it cannot be read at all.

    JSON is recognised by its first character, whatever the name of the file says.
    """
    document = _regular_json(data)
    if document is not None:
        return document, []
    is_json = data.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[")
    try:
        return (parse_json if is_json else parse_yaml)(data, what=what), []
    except MalformedSource as error:
        document = (_forgiving_json if is_json else _forgiving_yaml)(data, what, error)
    return document


def _regular_json(data: bytes) -> Any:
    """What `parse_json` would give, without a look at the depth, which all that reads a document here bounds itself.

    None if that takes a closer look: for what is no JSON, and where keys may be repeated.
    """
    if data[:1] != b"{" or b"\\u0022" in data:
        return None
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # The decoder drops the first of two equal keys, and its quotes with it.
    return document if msgspec.json.encode(document).count(b'"') == data.count(b'"') else None


def _forgiving_json(data: bytes, what: str, error: MalformedSource) -> tuple[Any, list[str]]:
    try:
        document = msgspec.json.decode(data.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Braces and comments, or keys without quotes: that is YAML.
        try:
            return parse_yaml(data, what=what), [f"read as YAML, because as JSON: {error}"]
        except MalformedSource:
            raise error from None
    if nests_deeper(document, _MAX_DEPTH):
        raise error
    return document, [f"read in spite of this, with the last of equal keys: {error}"]


def _forgiving_yaml(data: bytes, what: str, error: MalformedSource) -> tuple[Any, list[str]]:
    from toolyard.parsing.yaml.builder import build_document

    try:
        text = normalise_lines(data).decode()
    except UnicodeDecodeError:
        raise error from None
    cleaned = _CONTROLS.sub(" ", text)
    repeated: list[str] = []
    document = build_document(cleaned, what, _MAX_DEPTH, repeated)
    overlooked = [f"the last of two values for one key kept: {place}" for place in repeated[:20]]
    if cleaned != text:
        overlooked.append("control characters replaced by spaces")
    return document, overlooked
