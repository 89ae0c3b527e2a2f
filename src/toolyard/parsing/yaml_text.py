"""Parse YAML strictly to plain data. PyYAML is only imported for it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from toolyard.parsing.encoding import decode_utf8, encode_utf8, normalise_lines
from toolyard.parsing.gc_pause import LARGE, paused_gc


def parse_yaml(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None; an empty one is None.

    Scalars follow the core schema of YAML 1.2: `on` and `2024-01-02` are text, `010` is ten. Keys are text as
    written, so `200:` becomes "200". Aliases are copied and `<<` is merged, within a budget that no legitimate
    document reaches. A missing line feed at the end is added.

    Raises `MalformedSource`, whose `where` is `{what}:{line}:{column}`, for anything that is not YAML, for what JSON
    cannot express (`.nan`, keys that are collections), and for non-standard tags, repeated keys, a second document and
    nesting deeper than `max_depth`.
    """
    from toolyard.parsing.yaml_builder import build_document

    source = normalise_lines(data if isinstance(data, bytes) else encode_utf8(data, what))
    text = decode_utf8(source, what)
    with paused_gc() if len(source) >= LARGE else nullcontext():
        return build_document(text, what, max_depth)
