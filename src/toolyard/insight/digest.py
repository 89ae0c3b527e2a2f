"""A hash of all that a set of tools says, by which whatever is derived from all of them is found again."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from operator import is_

import msgspec

from toolyard.model.blocks import definition_of, parts_of
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc

_encode = msgspec.msgpack.Encoder().encode
_MARK = "digest"
_AT_ONCE = 256
"""Definitions that are written and hashed while they are still in the processor's cache."""


def definitions_digest(tools: Sequence[Tool]) -> str:
    """A hash of names, namespaces, descriptions and schemas, in order, or of the files that they were read from.

    The same tools are hashed once, however often it is asked for.
    """
    if not tools:
        return ""
    # Kept with the first tool, so that it goes when the tools go.
    kept = tools[0].__dict__.get(_MARK)
    if kept is not None and len(kept[0]) == len(tools) and all(map(is_, kept[0], tools)):
        return str(kept[1])
    found = digest_of(tools)
    tools[0].__dict__[_MARK] = (tuple(tools), found)
    return found


def digest_of(tools: Sequence[Tool]) -> str:
    """The same, which nobody remembers."""
    digest = sha256()
    with paused_gc():
        for part in parts_of(tools):
            digest.update(b"block" + part if isinstance(part, bytes) else b"tools" + _hash_of(part))
    return digest.hexdigest()


def _hash_of(tools: Sequence[Tool]) -> bytes:
    # On most processors quicker than any other that is safe from collisions.
    digest = sha256()
    for start in range(0, len(tools), _AT_ONCE):
        digest.update(_told(tools[start : start + _AT_ONCE]))
    return digest.digest()


def _told(tools: Sequence[Tool]) -> bytes:
    definitions = list(map(definition_of, tools))
    try:
        return _encode(definitions)
    except (UnicodeEncodeError, OverflowError):
        # Half a surrogate pair, or a number beyond 64 bits: one form is as good as another.
        return repr(definitions).encode("utf-8", "surrogatepass")
