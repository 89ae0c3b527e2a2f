"""Find the place of a value in JSON or YAML text, for error messages and edits.

`locate` parses the document a second time, so that valid documents pay nothing for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from toolyard.model.errors import MalformedSource
from toolyard.model.json_schema import split_pointer

if TYPE_CHECKING:
    from toolyard.parsing.yaml_events import NextEvent, Substitution

_BLANK = re.compile(r"[\s\ufeff]*")
_decode = json.JSONDecoder().raw_decode


class JsonItem(NamedTuple):
    """A member of an object, or an item of a list with its index as key, and its place in the text."""

    text: str
    key: str
    start: int
    value: int

    @property
    def end(self) -> int:
        """The offset after its value; ValueError if that is not JSON."""
        return _decode(self.text, self.value)[1]


def pass_blanks(text: str, at: int) -> int:
    """The offset of the next character that is not white space or a byte order mark."""
    return _BLANK.match(text, at).end()  # type: ignore[union-attr]


def iter_items(text: str, at: int) -> Iterator[JsonItem]:
    """The members of the object or list that begins at `at`; ValueError or IndexError if it is not JSON."""
    is_object = text[at] == "{"
    index = 0
    at = pass_blanks(text, at + 1)
    while text[at] not in "]}":
        key, start, value = str(index), at, at
        if is_object:
            key, at = _decode(text, at)
            value = pass_blanks(text, pass_blanks(text, at) + 1)
        item = JsonItem(text, key, start, value)
        yield item
        index += 1
        at = pass_blanks(text, item.end)
        at = pass_blanks(text, at + 1) if text[at] == "," else at


def locate(data: bytes | str, pointer: str, *, yaml: bool) -> int | None:
    """The 1-based line where the value at a JSON pointer begins, or None if there is no such value.

    In YAML, a value that only an alias or a merge puts there has no line.
    """
    text = data if isinstance(data, str) else data.decode(errors="replace")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if pointer and not pointer.startswith("/"):
        return None
    return (_yaml_line if yaml else _json_line)(text, split_pointer(pointer))


def _json_line(text: str, parts: list[str]) -> int | None:
    at = pass_blanks(text, 0)
    try:
        for part in parts:
            items = iter_items(text, at) if text[at] in "[{" else ()
            at = next(item.value for item in items if item.key == part)
    except (ValueError, IndexError, RecursionError, StopIteration):
        return None  # the text before it is not JSON, or there is no such value
    return text.count("\n", 0, at) + 1 if at < len(text) else None


@dataclass(slots=True)
class _OpenContainer:
    """A container that is still open: its current key or index, and whether the pointer leads through it."""

    is_mapping: bool
    on_path: bool
    at_key: bool
    place: str = "0"

    def passed_node(self) -> None:
        if not self.is_mapping:
            self.place = str(int(self.place) + 1)
        else:
            self.at_key = not self.at_key


def _yaml_line(text: str, parts: list[str]) -> int | None:
    from toolyard.parsing.yaml_events import read_events

    try:
        return read_events(text, lambda next_event, safe: _find_line(next_event, safe, parts))
    except MalformedSource:
        return None


def _find_line(next_event: NextEvent, safe: Substitution, parts: list[str]) -> int | None:
    from yaml.events import CollectionEndEvent, MappingStartEvent, NodeEvent, ScalarEvent, SequenceStartEvent

    stack: list[_OpenContainer] = []
    while (event := next_event()) is not None:
        top = stack[-1] if stack else None
        if isinstance(event, CollectionEndEvent):
            stack.pop()
            if stack:
                stack[-1].passed_node()
        elif isinstance(event, NodeEvent):
            is_key = top is not None and top.at_key
            here = top is None or (top.on_path and not is_key and top.place == parts[len(stack) - 1])
            if here and len(stack) == len(parts):
                return event.start_mark.line + 1 if event.start_mark else None
            if top is not None and is_key and isinstance(event, ScalarEvent):
                top.place = safe.restore(event.value, event.style)
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                is_mapping = isinstance(event, MappingStartEvent)
                stack.append(_OpenContainer(is_mapping, on_path=here, at_key=is_mapping))
            elif top is not None:
                top.passed_node()
    return None
