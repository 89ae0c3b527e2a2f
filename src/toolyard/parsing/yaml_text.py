"""YAML 1.2 as plain JSON data, by the faster of two parsers that agree."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from toolyard.parsing.gc_pause import paused_gc
from toolyard.parsing.places import undecodable, utf8

SMALL = 1024
"""Bytes up to which the exact parser is done about when the fast one has its thread."""

LARGE = 64 * 1024
"""Bytes from which a pause of the garbage collector is worth its lock."""

_BOM = b"\xef\xbb\xbf"


def parse_yaml(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None; an empty one is None.

    Scalars mean what the core schema of YAML 1.2 says: `on` and `2024-01-02` are text, `010` is ten. A key is text
    as it is written, so `200:` becomes "200". Aliases are copied and `<<` is merged, within a budget that no
    honest document reaches. A missing line feed at the end of the text is supplied.

    Refused with `MalformedSource`, whose `where` is `{what}:{line}:{column}`: what is not YAML, what JSON cannot
    say (`.nan`, keys that are collections), tags beyond the standard ones, repeated keys, a second document, and
    nesting beyond `max_depth`.
    """
    from toolyard.parsing.yaml_exact import load_exact

    source = normal_lines(data if isinstance(data, bytes) else utf8(data, what))
    try:
        text = source.decode()
    except UnicodeDecodeError as error:
        raise undecodable(source, error, what) from error
    if len(source) <= SMALL:
        return load_exact(text, what, max_depth)

    from toolyard.parsing.yaml_fast import UNDECIDED, load_fast

    with paused_gc() if len(source) >= LARGE else nullcontext():
        value = load_fast(text, source, max_depth)
        return load_exact(text, what, max_depth) if value is UNDECIDED else value


def normal_lines(source: bytes) -> bytes:
    """Without byte order mark, and with a line feed at the end of every line, as both parsers expect it."""
    source = source.removeprefix(_BOM)
    if b"\r" in source:
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return source if source.endswith(b"\n") else source + b"\n"
