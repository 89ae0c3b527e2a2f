"""YAML 1.2 as plain JSON data, within limits: libyaml scans, every rule of ours is checked on its events."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from toolyard.parsing.files import paused_gc
from toolyard.parsing.json_text import BOM, LARGE, encode_utf8, undecodable


def parse_yaml(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None; an empty one is None.

    Scalars mean what the core schema of YAML 1.2 says: `on` and `2024-01-02` are text, `010` is ten. A key is text
    as it is written, so `200:` becomes "200". Aliases are copied and `<<` is merged, within a budget that no
    honest document reaches. A missing line feed at the end of the text is supplied.

    Refused with `MalformedSource`, whose `where` is `{what}:{line}:{column}`: what is not YAML, what JSON cannot
    say (`.nan`, keys that are collections), tags beyond the standard ones, repeated keys, a second document, and
    nesting beyond `max_depth`.
    """
    from toolyard.parsing.yaml.builder import build_document

    source = normalise_lines(data if isinstance(data, bytes) else encode_utf8(data, what))
    try:
        text = source.decode()
    except UnicodeDecodeError as error:
        raise undecodable(source, error, what) from error
    with paused_gc() if len(source) >= LARGE else nullcontext():
        return build_document(text, what, max_depth)


def normalise_lines(source: bytes) -> bytes:
    """Without byte order mark, and with a line feed at the end of every line, as the scanners expect it."""
    source = source.removeprefix(BOM)
    if b"\r" in source:
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return source if source.endswith(b"\n") else source + b"\n"
