"""What samplers work out about a snapshot, once, and share: names, namespaces, the graph, likeness."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from toolyard.model.tool import Tool
from toolyard.plugins import View

if TYPE_CHECKING:
    from toolyard.insight.samplers.content import ContentWords
    from toolyard.insight.samplers.graph import Graph
    from toolyard.insight.samplers.similarity import ToolLikeness, WordLikeness

T = TypeVar("T")

_GRAPHS = 8
"""Filtered graphs that are kept for one snapshot: few pairs of `min_score` and namespaces are in use at a time."""


class SnapshotView:
    """Read-only, but for what it works out when first asked. It does not keep the snapshot itself alive."""

    def __init__(self, view: View) -> None:
        self.tools: Sequence[Tool] = view.tools
        self.artifacts: Mapping[str, Any] = view.artifacts
        self.all_places = tuple(range(len(self.tools)))
        spaces: dict[str, list[int]] = {}
        names: dict[tuple[str, str], int] = {}
        self.name_ids: list[int] = []
        """A number for each tool; overloads have the same."""
        for place, tool in enumerate(self.tools):
            spaces.setdefault(tool.namespace, []).append(place)
            self.name_ids.append(names.setdefault((tool.namespace, tool.name), len(names)))
        self._named = names
        self.spaces = {space: tuple(places) for space, places in spaces.items()}
        self._graphs: dict[tuple[float, tuple[str, ...]], Graph] = {}
        self._lock = threading.RLock()

    def graph(self, min_score: float, spaces: tuple[str, ...]) -> Graph:
        """The dataflow between tools of these namespaces, without the edges below `min_score`."""
        from toolyard.insight.samplers.graph import build_graph

        key = (min_score, spaces)
        with self._lock:
            graph = self._graphs.pop(key, None)
            if graph is None:
                allowed = None if len(spaces) == len(self.spaces) else frozenset(spaces)
                graph = build_graph(self.artifacts["dataflow"], self.tools, self.name_ids, min_score, allowed)
            self._graphs[key] = graph
            while len(self._graphs) > _GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            return graph

    def named(self, namespace: str, name: str) -> tuple[int, ...]:
        """The places of the overloads of a name; empty if there is none."""
        return self._overloads.get(self._named.get((namespace, name), -1), ())

    def namesakes(self, name: str) -> tuple[int, ...]:
        """The places of the tools of a bare name, in whatever namespace."""
        return self._bare.get(name, ())

    @cached_property
    def _overloads(self) -> dict[int, tuple[int, ...]]:
        return _group_places(self.name_ids)

    @cached_property
    def _bare(self) -> dict[str, tuple[int, ...]]:
        return _group_places([tool.name for tool in self.tools])

    @property
    def likeness(self) -> ToolLikeness:
        """How alike tools are: by embeddings, where the registry has them, else by their words."""
        with self._lock:
            return self._likeness

    @property
    def words(self) -> WordLikeness:
        """Which words are in which tools."""
        with self._lock:
            return self._words

    @property
    def content(self) -> ContentWords:
        """Which words say what each tool is for."""
        with self._lock:
            return self._content

    @cached_property
    def _content(self) -> ContentWords:
        from toolyard.insight.samplers.content import ContentWords

        return ContentWords(self.tools)

    @cached_property
    def _likeness(self) -> ToolLikeness:
        from toolyard.insight.samplers.similarity import from_embeddings, from_words

        known = self.artifacts.get("embeddings")
        return from_words(self.tools) if known is None else from_embeddings(known, self.tools)

    @cached_property
    def _words(self) -> WordLikeness:
        from toolyard.insight.samplers.similarity import WordLikeness

        return WordLikeness(self.tools)


def _group_places(values: Sequence[T]) -> dict[T, tuple[int, ...]]:
    groups: dict[T, list[int]] = {}
    for place, value in enumerate(values):
        groups.setdefault(value, []).append(place)
    return {value: tuple(places) for value, places in groups.items()}


_worlds: WeakKeyDictionary[Any, SnapshotView] = WeakKeyDictionary()
_lock = threading.Lock()


def world_of(view: View) -> SnapshotView:
    """What is known about a snapshot; the same answer for as long as the snapshot is in use."""
    try:
        with _lock:
            world = _worlds.get(view)
            if world is None:
                world = _worlds[view] = SnapshotView(view)
            return world
    except TypeError:
        # A view of the caller's own that cannot be hashed or weakly held.
        return SnapshotView(view)
