"""Copies of definitions that somebody else holds: a registry stays as it is when a caller changes a dict of his own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from toolyard.model.blocks import definition_of, mark_block
from toolyard.model.errors import InvalidSchemaError
from toolyard.model.tool import Tool
from toolyard.registry.candidate import Candidate
from toolyard.registry.lazy import LazyTool

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Any, ...]).decode
_SMALLEST = 16
"""Tools that are worth a mark."""
_LONGEST = 1 << 18
"""Bytes of a definition that is copied so. A longer one may have been short, and hold one value in many places."""


class Copies:
    """Gives admitted tools schemas of their own, and takes the hash of all that they say on the way.

    To write a definition out and to read it back is the quickest copy there is. What was written is hashed, so that
    whatever is derived from these tools as a whole is found again without writing them a second time.

    Only for what has been admitted: a schema may hold one part in many places, and written out it is as large as if
    each were its own. Admission has refused what has too many subschemas.
    """

    def __init__(self) -> None:
        self._hash = sha256()
        self._whole = True

    def give(self, candidate: Candidate) -> None:
        """Put a copy in the place of the candidate's tool."""
        tool = candidate.tool
        if isinstance(tool, LazyTool):
            # It has read its schemas itself, or will.
            self._whole = False
            return
        given = definition_of(tool)
        try:
            written = _encode(given)
            own = _decode(written) if len(written) <= _LONGEST else ()
        except (TypeError, ValueError, OverflowError, RecursionError):
            own = ()
        if own == given:
            self._hash.update(written)
            candidate.tool = tool.replace(parameters=own[3], output_parameters=own[4])
        else:
            # A tuple, half a surrogate pair, a number beyond 64 bits: written out it is something else, or nothing.
            self._whole = False
            candidate.tool = _copied(tool)

    def mark(self, tools: Sequence[Tool]) -> None:
        """Say that these tools, which are all that copies were given to, follow from what was hashed."""
        if self._whole and len(tools) >= _SMALLEST:
            mark_block(tools, self._hash.digest(), "copied")


def _copied(tool: Tool) -> Tool:
    try:
        own = copy.deepcopy((tool.parameters, tool.output_parameters))
    except RecursionError:
        raise InvalidSchemaError("schema nests too deeply or contains itself") from None
    return tool.replace(parameters=own[0], output_parameters=own[1])
