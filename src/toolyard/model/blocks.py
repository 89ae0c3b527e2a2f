"""Tools that were read together, and a hash of what they were read from.

What is derived from a whole set of tools is found again by what the tools say. To hash ten thousand definitions takes
longer than to read what was derived, and reads the schemas of a lazy catalog that nobody needs yet. A file that has
just been read is hashed in a moment.

    mark_block(tools, sha256(data).digest(), "file", options)    # by whoever made the tools
    for part in parts_of(tools): ...                             # the hash of a block, or tools outside of any

A tool that was changed is another object, so it is no part of the block, and neither are those beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from operator import attrgetter, is_
from typing import Any

from toolyard.constants import VERSION
from toolyard.model.tool import Tool

definition_of = attrgetter("namespace", "name", "description", "parameters", "output_parameters")
"""What is derived from tools as a whole follows from these."""
_MARKS = ("block", "derived block")
_RULES = 1
"""Grows when a source begins to make other tools of the same bytes."""


class _Block:
    def __init__(self, tools: tuple[Tool, ...], data: bytes | Callable[[], bytes], how: bytes) -> None:
        self.tools = tools
        self._data = data
        self._how = how

    @property
    def digest(self) -> bytes:
        if callable(self._data):
            self._data = self._data()
        return sha256(self._how + self._data).digest()


def mark_block(tools: Sequence[Tool], data: bytes | Callable[[], bytes], *made: Any, derived: bool = False) -> None:
    """Say that these tools follow from `data`, a hash or a function that gives it, and from `made`, plain values.

    Only for tools about which nothing else decides: no other file, no server, no variable. `derived` is for whoever
    made some of them anew: the first may be as it was read, and is then the first of two blocks.
    """
    if tools:
        # With the first tool, so that it goes when the tools go.
        how = repr((VERSION, _RULES, made)).encode("utf-8", "surrogatepass")
        tools[0].__dict__[_MARKS[derived]] = _Block(tuple(tools), data, how)


def drop_broken(tools: Sequence[Tool]) -> None:
    """Forget a derived block that begins with the first of the tools and is not whole: it would keep the others."""
    if tools and not _is_whole(tools[0].__dict__.get(_MARKS[True]), tools, 0):
        tools[0].__dict__.pop(_MARKS[True], None)


def parts_of(tools: Sequence[Tool]) -> Iterator[bytes | Sequence[Tool]]:
    """The tools in their order: for each whole block its hash, and between blocks the tools themselves."""
    at = loose = 0
    while at < len(tools):
        block = _block_at(tools, at)
        if block is None:
            at += 1
            continue
        if loose < at:
            yield tools[loose:at]
        yield block.digest
        at = loose = at + len(block.tools)
    if loose < at:
        yield tools[loose:at]


def _block_at(tools: Sequence[Tool], at: int) -> _Block | None:
    """The block that begins here and is whole."""
    own = tools[at].__dict__
    for mark in _MARKS if own else ():
        block: _Block | None = own.get(mark)
        if block is not None and _is_whole(block, tools, at):
            return block
    return None


def _is_whole(block: _Block | None, tools: Sequence[Tool], at: int) -> bool:
    end = at + len(block.tools) if block is not None else 0
    return block is not None and end <= len(tools) and all(map(is_, block.tools, tools[at:end]))
