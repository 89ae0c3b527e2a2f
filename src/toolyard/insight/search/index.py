"""`ToolIndex`: everything a search reads, for the snapshots of one registry; what is known of a tool is used again."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import msgspec

from toolyard.insight.cache import say_once
from toolyard.insight.embeddings.vectors import Background
from toolyard.insight.search.candidates import Known, Meaning, Postings, Row, Vocabulary, build_postings
from toolyard.insight.search.query import required
from toolyard.model.errors import ConfigError, EnrichmentError, ToolyardError
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot


class IndexView(msgspec.Struct, frozen=True, weakref=True, eq=False):
    """One snapshot in the index; a row of everything is a place in the snapshot."""

    tools: Sequence[Tool]
    postings: Postings
    numbers: Mapping[str, int]
    """Of terms; words of other snapshots are among them."""
    lacks: Sequence[tuple[frozenset[str], ...]]
    """By place: the words of each required parameter."""
    lower: Mapping[str, tuple[int, ...]]
    """Places by name in lower case: bare and qualified, of aliases too."""


class _Entry(msgspec.Struct, frozen=True):
    """What is worked out about one tool."""

    tool: Tool
    row: Row
    lacks: tuple[frozenset[str], ...]


class ToolIndex:
    """Words at once; vectors when asked for, in the caller's thread or behind its back."""

    def __init__(self, meaning: Meaning | None) -> None:
        self.meaning = meaning
        self.broken = ""
        """Why the model could not be used."""
        self._lock = threading.Lock()
        self._growing = threading.Lock()
        self._vocabulary = Vocabulary()
        self._entries: dict[int, _Entry] = {}
        """By the identity of a tool; those of the snapshot that was last new."""
        self._views: WeakKeyDictionary[Snapshot, IndexView] = WeakKeyDictionary()
        self._known: WeakKeyDictionary[IndexView, Known] = WeakKeyDictionary()
        self._worker: threading.Thread | None = None

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
        if self.meaning is None:
            return None
        known = self._known.get(view)
        if known is not None or wait:
            return known or self._make_vectors(view)
        with self._lock:
            if self._worker is None or not self._worker.is_alive():
                self._worker = Background(target=self._make_vectors, args=(view,), name="toolyard-embed", daemon=False)
                self._worker.start()
        return None

    def give_up(self, error: ToolyardError) -> None:
        """Go by words: a model that cannot be used must not be the end of search. A server may be back later."""
        self.broken = str(error)
        if isinstance(error, ConfigError):
            self.meaning = None
        say_once("search goes by words alone: %s", error)

    def _make_vectors(self, view: IndexView) -> Known | None:
        with self._growing:
            known = self._known.get(view)
            if known is not None or self.meaning is None:
                return known
            # Behind the lock: words may be added to the vocabulary meanwhile.
            with self._lock:
                numbers, surfaces = dict(self._vocabulary.numbers), dict(self._vocabulary.surfaces)
            try:
                made = self._known[view] = self.meaning.embed_catalog(view.tools, numbers, surfaces)
            except (ConfigError, EnrichmentError) as error:
                self.give_up(error)
                return None
            return made

    def _make_view(self, snapshot: Snapshot) -> IndexView:
        before, self._entries = self._entries, {}
        for tool in snapshot.tools:
            entry = before.get(id(tool))
            if entry is None:
                lacks = tuple(frozenset(words) for words in required(tool))
                entry = _Entry(tool, self._vocabulary.row(tool), lacks)
            self._entries[id(tool)] = entry
        entries = [self._entries[id(tool)] for tool in snapshot.tools]
        return IndexView(
            tools=tuple(snapshot.tools),
            postings=build_postings([entry.row for entry in entries]),
            numbers=self._vocabulary.numbers,
            lacks=[entry.lacks for entry in entries],
            lower=_index_lower_names(snapshot),
        )


def _index_lower_names(snapshot: Snapshot) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for place, tool in enumerate(snapshot.tools):
        for name in (tool.name, *tool.aliases):
            for spelt in (name, f"{tool.namespace}::{name}"):
                found.setdefault(spelt.lower(), []).append(place)
    return {name: tuple(places) for name, places in found.items()}
