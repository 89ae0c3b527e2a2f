"""What a load has to tell about a document: every loss and every rename, with the place it was found at."""

from __future__ import annotations

from typing import Any

from toolyard.model.json_words import pointer_of
from toolyard.model.report import Rewrite


class Notes:
    """Collects changes while a document is read; equal ones of one tool are counted together.

    Schemas are converted without keeping track of where they lie, because almost none has anything to tell.
    The few that do are looked for afterwards, by identity.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self.near = ""
        """The place now being read, for what was made up on the way and lies nowhere itself."""
        self._found: dict[tuple[str, str], tuple[str, int]] = {}
        self._unplaced: list[tuple[dict[str, Any], str, str]] = []

    def add(self, pointer: str, change: str, tool: str = "", count: int = 1) -> None:
        """One change whose place is known; without a tool it is the document's."""
        key = (tool or self._source, change)
        first, before = self._found.get(key, (pointer, 0))
        self._found[key] = (first, before + count)

    def at(self, node: dict[str, Any], change: str) -> None:
        """One change somewhere in the documents: at this very object."""
        self._unplaced.append((node, change, self.near))

    def rewrites(self, files: dict[str, Any]) -> tuple[Rewrite, ...]:
        """Everything noted, as lines of a report."""
        if self._unplaced:
            places = _places(files, {id(node) for node, _, _ in self._unplaced})
            for node, change, near in self._unplaced:
                self.add(places.get(id(node), near), change)
            self._unplaced = []
        return tuple(Rewrite(tool, place, change, count) for (tool, change), (place, count) in self._found.items())


def _places(files: dict[str, Any], wanted: set[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for name, root in files.items():
        stack: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
        while stack and len(found) < len(wanted):
            path, node = stack.pop()
            if id(node) in wanted:
                found.setdefault(id(node), f"{name}#{pointer_of(path)}")
            if isinstance(node, dict):
                stack.extend(((*path, key), value) for key, value in node.items() if isinstance(value, (dict, list)))
            else:
                stack.extend(
                    ((*path, index), value) for index, value in enumerate(node) if isinstance(value, (dict, list))
                )
    return found
