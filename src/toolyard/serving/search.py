"""`search_tools`: the registry's search as every wire offers it, with scores short enough to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolyard.dialects.wire_names import read_wire_call
from toolyard.model.call import ToolCall
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot

MOST_HITS = 100
"""Of one search; those of `registry.search` are no more."""
MAX_QUERY = 500
"""Characters of a query on every wire, which are answered quickly."""
_AT_ONCE = 200
"""Tools whose vectors are made while a request waits, which takes about a second, once."""


class CatalogHits(NamedTuple):
    """The tools, best first, and how they were looked for."""

    tools: Sequence[Tool]
    marks: Mapping[int, Mapping[str, Any]]
    """By the identity of a tool: `score`, short enough to be read, and `fit`."""
    mode: str | None

    def of(self, tool: Tool) -> Mapping[str, Any]:
        """How well a tool fits; nothing if no words were looked for."""
        return self.marks.get(id(tool), {})


def search_tools(
    registry: ToolRegistry,
    snapshot: Snapshot,
    text: str,
    k: int,
    **conditions: Any,
) -> CatalogHits:
    """The hits of the registry's searcher for a query, at most `k`, under the conditions that it takes.

    Vectors of a large catalog that are not there yet are made meanwhile, and words alone are compared.
    """
    if "___" in text:
        # A name that only lists in a provider's spelling have.
        text = read_wire_call(snapshot, ToolCall(text.strip())).name
    wait = len(snapshot.tools) <= _AT_ONCE
    hits = registry.searcher.search(snapshot, text, k, wait=wait, **conditions)
    marks = {id(hit.tool): {"score": round(hit.score, 4), "fit": hit.fit} for hit in hits}
    return CatalogHits([hit.tool for hit in hits], marks, hits.mode)
