"""Closed schemas in a composition: `additionalProperties: false` where it forbids what a schema beside it describes.

Every schema of an `allOf` judges the whole object by itself, so a closed one refuses the properties of all others, and
nothing fits. Authors mean the properties of all of them together, which OpenAPI 3.0 has no keyword for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolyard.sources.rest.document import Files, ResolvedRef

Node = dict[str, Any]

COMPOSING = frozenset(("allOf", "anyOf", "oneOf"))
_ALL = frozenset(("allOf",))
_OPENED = " without additionalProperties"
"""Ends a reference to a schema that is wanted without what closes it."""


class Compositions:
    """Finds closed schemas that cannot be meant; what they refer to is followed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._targets: dict[tuple[str, str], ResolvedRef] = {}

    def is_contradictory(self, raw: Node, file: str) -> bool:
        """Whether a closed schema of the composition forbids properties of another."""
        closed = self._closed_nodes(raw, file)
        names = (
            {name for node in self._walk(raw, file, COMPOSING) for name in _property_names(node)} if closed else set()
        )
        return any(names - _property_names(node) for node in closed)

    def open_schema(self, raw: Node, file: str) -> Node:
        """The same schema with nothing closed in it; parts that refer to something closed ask for that opened."""
        opened = {key: value for key, value in raw.items() if key != "additionalProperties" or value is not False}
        if type(raw.get("allOf")) is list:
            opened["allOf"] = [self._open_part(part, file) for part in raw["allOf"]]
        return opened

    def opened_target(self, ref: str, file: str) -> ResolvedRef | None:
        """What a reference of `open_schema` asks for; None for any other."""
        if not ref.endswith(_OPENED):
            return None
        if (file, ref) not in self._targets:
            here = self._files.resolve(ResolvedRef({"$ref": ref.removesuffix(_OPENED)}, file))
            self._targets[file, ref] = ResolvedRef(self.open_schema(here.node, here.file), here.file)
        return self._targets[file, ref]

    def _open_part(self, part: Any, file: str) -> Any:
        if not self._closed_nodes(part, file):
            return part
        return {**part, "$ref": part["$ref"] + _OPENED} if "$ref" in part else self.open_schema(part, file)

    def _closed_nodes(self, raw: Any, file: str) -> list[Node]:
        """Those that judge the same object; branches are left aside, since they need not hold."""
        nodes = self._walk(raw, file, _ALL)
        return [node for node in nodes if node.get("additionalProperties") is False and "patternProperties" not in node]

    def _walk(self, raw: Any, file: str, keys: frozenset[str]) -> Iterator[Node]:
        """The schemas that judge the same object, each once."""
        seen: set[int] = set()
        stack = [ResolvedRef(raw, file)]
        while stack:
            here = stack.pop()
            if type(here.node) is not dict or id(here.node) in seen:
                continue
            seen.add(id(here.node))
            try:
                here = self._files.resolve(here)
            except LookupError:
                continue  # whoever converts it says so
            if type(here.node) is dict:
                yield here.node
                parts = [part for key in sorted(keys) if type(here.node.get(key)) is list for part in here.node[key]]
                stack += [ResolvedRef(part, here.file) for part in parts]


def _property_names(node: Node) -> set[str]:
    properties = node.get("properties")
    return set(properties) if type(properties) is dict else set()
