"""`search_tools`: the registry's search as every wire offers it, with rounded scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolyard.dialects.wire_names import read_wire_call
from toolyard.model.call import ToolCall
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot

MOST_HITS = 100
"""The most hits of one search, as in `registry.search`."""
MAX_QUERY = 500
"""The most characters of a query, on every wire; keeps searches fast."""
_AT_ONCE = 200
"""The most tools for which a request waits until their vectors are computed; that takes about a second, once."""


class CatalogHits(NamedTuple):
    """The tools found, best first, with their scores and the search mode."""

    tools: Sequence[Tool]
    marks: Mapping[int, Mapping[str, Any]]
    """`score`, rounded, and `fit` by the `id()` of the tool."""
    mode: str | None

    def of(self, tool: Tool) -> Mapping[str, Any]:
        """Return `score` and `fit` of a tool; empty if there are none."""
        return self.marks.get(id(tool), {})


def search_tools(
    registry: ToolRegistry,
    snapshot: Snapshot,
    text: str,
    k: int,
    **conditions: Any,
) -> CatalogHits:
    """Return at most `k` hits for a query; `conditions` are the other arguments of the searcher.

    While the vectors of a large catalog are being computed in the background, the search is lexical.
    """
    if "___" in text:
        # A wire name from a listing in a provider's format.
        text = read_wire_call(snapshot, ToolCall(text.strip())).name
    wait = len(snapshot.tools) <= _AT_ONCE
    hits = registry.searcher.search(snapshot, text, k, wait=wait, **conditions)
    marks = {id(hit.tool): {"score": round(hit.score, 4), "fit": hit.fit} for hit in hits}
    return CatalogHits([hit.tool for hit in hits], marks, hits.mode)
