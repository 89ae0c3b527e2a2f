"""What a conversion could not keep, gathered while it walks a schema."""

from __future__ import annotations

from toolyard.model import Rewrite
from toolyard.model.json_words import pointer_of
from toolyard.schema.subschemas import Path


class ChangeLog:
    """The changes made to one schema; equal ones are counted together, under the first place."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Path, int]] = {}

    def add(self, path: Path, change: str) -> None:
        """Note that the schema at `path` lost or changed its meaning."""
        first, count = self._seen.get(change, (path, 0))
        self._seen[change] = (first, count + 1)

    def update(self, other: ChangeLog) -> None:
        """Take over the changes of another log about the same schema."""
        for change, (path, count) in other._seen.items():
            first, before = self._seen.get(change, (path, 0))
            self._seen[change] = (first, before + count)

    def rewrites(self, tool: str) -> list[Rewrite]:
        """The changes as lines of a report about `tool`."""
        return [Rewrite(tool, pointer_of(path), change, count) for change, (path, count) in self._seen.items()]
