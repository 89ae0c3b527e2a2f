"""`ToolIndex`: everything a search reads, for the snapshots of one registry; a tool is taken in once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolyard.insight.cache.items import say_once
from toolyard.insight.embeddings.vectors import Background
from toolyard.insight.search.candidates import Known, Meaning
from toolyard.insight.search.postings import Postings, Vocabulary
from toolyard.insight.search.query import required
from toolyard.model.errors import ConfigError, EnrichmentError, ToolyardError
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot

_WASTE = 1000
"""Rows of tools that are gone, at least, before the index is made anew."""


class IndexState(msgspec.Struct, frozen=True):
    """The index at one moment. A row is a tool that some snapshot had; rows are never given twice."""

    postings: Postings
    numbers: dict[str, int]
    tools: Sequence[Tool]
    lacks: Sequence[tuple[frozenset[str], ...]]
    """By row: the words of each required parameter."""


class IndexView(msgspec.Struct, frozen=True, weakref=True):
    """One snapshot in the index."""

    state: IndexState
    rows: NDArray[np.intp]
    """By place in the snapshot."""
    places: NDArray[np.intp]
    """By row; -1 if the snapshot does not have it."""
    is_whole: bool
    """True if the snapshot has every row."""
    lower: Mapping[str, tuple[int, ...]]
    """Places by name in lower case: bare and qualified, of aliases too."""


class ToolIndex:
    """Words at once; vectors when asked for, in the caller's thread or behind its back."""

    def __init__(self, meaning: Meaning | None) -> None:
        self.meaning = meaning
        self.broken = ""
        """Why the model could not be used."""
        self._lock = threading.Lock()
        self._growing = threading.Lock()
        self._views: WeakKeyDictionary[Snapshot, IndexView] = WeakKeyDictionary()
        self._known: Known | None = None
        self._worker: threading.Thread | None = None
        self._clear_index()

    def _clear_index(self) -> None:
        self._vocabulary = Vocabulary()
        self._tools: list[Tool] = []
        self._lacks: list[tuple[frozenset[str], ...]] = []
        self._row_of: dict[int, int] = {}
        self._postings = Postings()
        self._known = None

    def view(self, snapshot: Snapshot) -> IndexView:
        """The snapshot in the index; tools that are new are taken in."""
        found = self._views.get(snapshot)
        if found is not None:
            return found
        with self._lock:
            found = self._views.get(snapshot)
            if found is None:
                found = self._views[snapshot] = self._make_view(snapshot)
            return found

    def known(self, view: IndexView, *, wait: bool) -> Known | None:
        """The vectors of all tools of a view; None if there are none yet, or no embedder.

        Without `wait` they are made in a thread of their own, for a later search.
        """
        known = self._known
        if self.meaning is None or (known is not None and self._fits_view(known, view)):
            return known if self.meaning is not None else None
        if wait:
            return self._grow_vectors(view)
        with self._lock:
            if self._worker is None or not self._worker.is_alive():
                self._worker = Background(target=self._grow_vectors, args=(view,), name="toolyard-embed", daemon=False)
                self._worker.start()
        return None

    def give_up(self, error: ToolyardError) -> None:
        """Go by words: a model that cannot be used must not be the end of search. A server may be back later."""
        self.broken = str(error)
        if isinstance(error, ConfigError):
            self.meaning = None
        say_once("search goes by words alone: %s", error)

    def _fits_view(self, known: Known, view: IndexView) -> bool:
        return known.rows >= len(view.state.tools) and view.state.numbers is known.source

    def _grow_vectors(self, view: IndexView) -> Known | None:
        if self.meaning is None:
            return None
        with self._growing:
            known = self._known
            if known is not None and self._fits_view(known, view):
                return known
            base = known if known is not None and known.source is view.state.numbers else None
            # Behind the lock: words may be added to the vocabulary meanwhile.
            with self._lock:
                tools, surfaces = list(view.state.tools), dict(self._vocabulary.surfaces)
                numbers = dict(view.state.numbers)
            try:
                grown = self.meaning.grown(base, tools, numbers, surfaces)
            except (ConfigError, EnrichmentError) as error:
                self.give_up(error)
                return None
            self._known = grown = msgspec.structs.replace(grown, source=view.state.numbers)
            return grown

    def _make_view(self, snapshot: Snapshot) -> IndexView:
        tools = snapshot.tools
        fresh = [tool for tool in tools if id(tool) not in self._row_of]
        gone = len(self._tools) + len(fresh) - len(tools)
        if gone > max(_WASTE, len(tools)):
            self._clear_index()
            fresh = list(tools)
        if fresh:
            self._add_tools(fresh)
        # Frozen length: rows that come later are none of this view's business.
        state = IndexState(self._postings, self._vocabulary.numbers, tuple(self._tools), tuple(self._lacks))
        rows = np.fromiter((self._row_of[id(tool)] for tool in tools), np.intp, len(tools))
        places = np.full(len(state.tools), -1, np.intp)
        places[rows] = np.arange(len(tools))
        return IndexView(state, rows, places, len(rows) == len(state.tools), _index_lower_names(snapshot))

    def _add_tools(self, fresh: Sequence[Tool]) -> None:
        rows = [self._vocabulary.row(tool) for tool in fresh]
        for tool in fresh:
            self._row_of[id(tool)] = len(self._tools)
            self._tools.append(tool)
            self._lacks.append(tuple(frozenset(words) for words in required(tool)))
        self._postings = self._postings.added(rows)


def _index_lower_names(snapshot: Snapshot) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for place, tool in enumerate(snapshot.tools):
        for name in (tool.name, *tool.aliases):
            for spelt in (name, f"{tool.namespace}::{name}"):
                found.setdefault(spelt.lower(), []).append(place)
    return {name: tuple(places) for name, places in found.items()}
