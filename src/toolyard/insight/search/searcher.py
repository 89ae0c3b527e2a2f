"""`Searcher`: searches one registry, and maintains its index. Loaded on the first `registry.search`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np

from toolyard.insight.arrays import group_positions
from toolyard.insight.cache import CacheOption, ItemCache, warn_once
from toolyard.insight.embeddings.embedder import INSTALL, Embedder, default_embedder, missing_parts
from toolyard.insight.embeddings.vectors import Background, configured_embedder
from toolyard.insight.search.candidates import (
    CatalogVectors,
    IndexView,
    Mask,
    SearchEmbedder,
    SearchEntry,
    Vocabulary,
    build_postings,
)
from toolyard.insight.search.query import MOST_QUERY, Query, QueryVectors, read_query
from toolyard.insight.search.rank import MOST_HITS, JudgedRow, Judgement, build_table, judge_request, load_weights
from toolyard.model.errors import ConfigError, EnrichmentError, ToolyardError
from toolyard.model.names import find_similar
from toolyard.model.tool import Hit, SearchResults, Tool
from toolyard.registry.snapshot import Snapshot


class ToolIndex:
    """The index of a registry: words immediately; vectors on demand, in the caller's thread or in the background."""

    def __init__(self, embedder: SearchEmbedder | None) -> None:
        self.embedder = embedder
        self.failure = ""
        """Why the model could not be used; empty if it could."""
        self._lock = threading.Lock()
        self._embedding_lock = threading.Lock()
        self._vocabulary = Vocabulary()
        self._entries: dict[int, SearchEntry] = {}
        """By the tool's `id`, for the most recently indexed snapshot."""
        self._views: WeakKeyDictionary[Snapshot, IndexView] = WeakKeyDictionary()
        self._vectors: WeakKeyDictionary[IndexView, CatalogVectors] = WeakKeyDictionary()
        self._worker: threading.Thread | None = None

    def view(self, snapshot: Snapshot) -> IndexView:
        """Return the snapshot's view; new tools are added to the index."""
        found = self._views.get(snapshot)
        if found is not None:
            return found
        with self._lock:
            found = self._views.get(snapshot)
            if found is None:
                found = self._views[snapshot] = self._make_view(snapshot)
            return found

    def get_vectors(self, view: IndexView, *, wait: bool) -> CatalogVectors | None:
        """Return the vectors of all tools of a view; None if they are not ready or there is no embedder.

        With `wait` they are computed now; otherwise a background thread computes them for later searches.
        """
        if self.embedder is None:
            return None
        known = self._vectors.get(view)
        if known is not None or wait:
            return known or self._make_vectors(view)
        with self._lock:
            if self._worker is None or not self._worker.is_alive():
                self._worker = Background(target=self._make_vectors, args=(view,), name="toolyard-embed", daemon=False)
                self._worker.start()
        return None

    def disable_model(self, error: ToolyardError) -> None:
        """Fall back to words after a failure of the model. A `ConfigError` is permanent; a server may recover."""
        self.failure = str(error)
        if isinstance(error, ConfigError):
            self.embedder = None
        warn_once(f"search goes by words alone: {error}")

    def _make_vectors(self, view: IndexView) -> CatalogVectors | None:
        with self._embedding_lock:
            known = self._vectors.get(view)
            if known is not None or self.embedder is None:
                return known
            # Copied under the lock, since words may be added to the vocabulary meanwhile.
            with self._lock:
                numbers, surfaces = dict(self._vocabulary.numbers), dict(self._vocabulary.surfaces)
            try:
                made = self._vectors[view] = self.embedder.embed_catalog(view.tools, numbers, surfaces)
            except (ConfigError, EnrichmentError) as error:
                self.disable_model(error)
                return None
            return made

    def _make_view(self, snapshot: Snapshot) -> IndexView:
        entries = [self._entries.get(id(tool)) or self._vocabulary.read_tool(tool) for tool in snapshot.tools]
        self._entries = {id(entry.tool): entry for entry in entries}
        return IndexView(
            tools=tuple(snapshot.tools),
            postings=build_postings([entry.row for entry in entries]),
            numbers=self._vocabulary.numbers,
            entries=entries,
            by_lower_name=_index_lower_names(snapshot),
            by_namespace=group_positions(tool.namespace for tool in snapshot.tools),
        )


def _index_lower_names(snapshot: Snapshot) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for place, tool in enumerate(snapshot.tools):
        for name in (tool.name, *tool.aliases):
            for spelt in (name, f"{tool.namespace}::{name}"):
                found.setdefault(spelt.lower(), []).append(place)
    return {name: tuple(places) for name, places in found.items()}


_NAME_LIKE = re.compile(r"[^\s\"'`(),;?!]+")
_MAX_LISTED = 10
"""Maximum number of namespaces listed when one is not found."""
_SEPARATORS = ("__", ".", "/", ":")
_NAME_SCORE, _MENTION_SCORE = 1.0, 0.99
_VECTORS_PENDING = "vectors of the tools are being made; until then words alone are compared"
_SCRIPT_UNKNOWN = "words alone are compared: the model was not made for the script of this query"


class Searcher:
    """Searches the snapshots of a registry; what is computed for a tool is reused for the next snapshot.

    `embedder` defaults to the one of the enrichment `embeddings`, else to the default model if it is installed. Thread
    safe.
    """

    def __init__(self, embedder: Embedder | None = None, *, cache: CacheOption = None, lexical: bool = False) -> None:
        self._items = ItemCache(cache)
        self._is_fixed = lexical or embedder is not None
        self._embedder = None if lexical else embedder or default_embedder()
        self._index = ToolIndex(None if self._embedder is None else SearchEmbedder(self._embedder, self._items))
        self._is_lexical = lexical

    def _choose_index(self, snapshot: Snapshot) -> ToolIndex:
        """Return the index for the snapshot's model. Running searches keep the index they started with."""
        configured = None if self._is_fixed else configured_embedder(snapshot)
        if configured is not None and configured is not self._embedder:
            self._embedder, self._index = configured, ToolIndex(SearchEmbedder(configured, self._items))
        return self._index

    def search(
        self,
        snapshot: Snapshot,
        query: str,
        k: int = 5,
        *,
        namespace: str | Collection[str] | None = None,
        tags: str | Collection[str] | None = None,
        where: Callable[[Tool], bool] | None = None,
        wait: bool = True,
        threshold: float | None = None,
    ) -> SearchResults:
        """Return at most `k` tools with the probability that each is meant; none if the query fits no tool.

        Filters are applied before ranking. `threshold` is the score the best hit must reach, in place of the check
        whether the query fits any tool; 0 always returns the nearest. Without `wait`, a catalog whose vectors are not
        ready is searched by words while a background thread computes them.
        """
        _check_arguments(query, k, threshold)
        index = self._choose_index(snapshot)
        view = index.view(snapshot)
        mask = _mask_rows(view, namespace, tags, where)
        if not query.strip() or (mask is not None and not mask.any()):
            # Nothing to search for, so do not compute vectors either.
            lexical = index.embedder is None
            note = _explain_empty_namespace(view, namespace) or self._explain_mode(index, lexical)
            return SearchResults(mode="lexical" if lexical else "hybrid", note=note)
        known = index.get_vectors(view, wait=wait)
        note = self._explain_mode(index, known is None)
        results = SearchResults(mode="lexical" if known is None else "hybrid", note=note)
        named = _find_named(view, snapshot, query, mask)
        read = read_query(query)
        vectors = None if known is None else self._embed_query(index, read, known, results)
        known = known if vectors is not None else None
        k = min(k, MOST_HITS)
        hits = [Hit(snapshot.tools[place], score, "sure", {"name": 1.0}) for place, score in named.items()]
        if read.content_words or threshold is not None:
            table = build_table(read, view, known, vectors, mask, k)
            found = judge_request(table, load_weights()[results.mode], k)
            # Named tools come first, so no other hit may have a higher score.
            most = hits[-1].score if hits else 1.0
            hits += [
                Hit(view.tools[hit.row], min(hit.score, most), hit.fit, hit.reasons)
                for hit in _choose_hits(found, threshold, bool(named))
                if hit.row not in named
            ]
        results.extend(hits[:k])
        return results

    def _embed_query(
        self, index: ToolIndex, query: Query, known: CatalogVectors, results: SearchResults
    ) -> QueryVectors | None:
        """Compute the vectors of a query; None, with a note in `results`, if that is not possible."""
        embedder = index.embedder
        try:
            if embedder is not None and embedder.supports_script(query):
                return embedder.embed_query(query, known)
            note = self._explain_mode(index, True) if embedder is None else _SCRIPT_UNKNOWN
        except (ConfigError, EnrichmentError) as error:
            index.disable_model(error)
            note = self._explain_mode(index, True)
        results.mode, results.note = "lexical", note
        return None

    def _explain_mode(self, index: ToolIndex, lexical: bool) -> str:
        if not lexical or self._is_lexical:
            return ""
        if index.failure:
            return f"words alone are compared: {index.failure}"
        if index.embedder is not None:
            return _VECTORS_PENDING
        return f"words alone are compared, because {', '.join(missing_parts())} is not installed: run `{INSTALL}`"


def _check_arguments(query: str, k: int, threshold: float | None) -> None:
    if not isinstance(query, str):
        raise TypeError(f"query must be text, not {type(query).__name__}")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k must be a whole number from 1 on, not {k!r}")
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if threshold is not None and not (number and 0 <= threshold <= 1):
        raise ValueError(f"threshold must be a number from 0 to 1, not {threshold!r}")


def _mask_rows(
    view: IndexView,
    namespace: str | Collection[str] | None,
    tags: str | Collection[str] | None,
    where: Callable[[Tool], bool] | None,
) -> Mask | None:
    """Which tools pass the filters; None without filters."""
    if namespace is None and not tags and where is None:
        return None
    places: Iterable[int] = range(len(view.tools))
    if namespace is not None:
        places = chain.from_iterable(view.by_namespace.get(name, ()) for name in _read_names(namespace))
    if wanted := _read_names(tags or ()):
        places = [place for place in places if wanted <= set(view.tools[place].tags)]
    if where is not None:
        places = [place for place in places if where(view.tools[place])]
    mask = np.zeros(len(view.tools), np.bool_)
    mask[list(places)] = True
    return mask


def _explain_empty_namespace(view: IndexView, namespace: str | Collection[str] | None) -> str:
    """The note for a namespace without tools; empty if every namespace has some."""
    there = view.by_namespace.keys()
    unknown = sorted(_read_names(namespace or ()) - there)
    if not unknown:
        return ""
    near = find_similar(unknown[0], there)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(there)[:_MAX_LISTED]) or 'none'}"
    return f"no tool is in the namespace {unknown[0]!r}; {hint}"


def _read_names(value: str | Iterable[str]) -> set[str]:
    found = {value} if isinstance(value, str) else set(value) if isinstance(value, Iterable) else {None}
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"namespaces and tags are text, or several of it, not {value!r}")
    return found


def _find_named(view: IndexView, snapshot: Snapshot, query: str, mask: Mask | None) -> dict[int, float]:
    """Indexes and scores of the tools whose name is the query, or is mentioned in it."""
    found: dict[int, float] = {}
    text = query[:MOST_QUERY].strip()
    whole = _resolve_name(view, text.lower())
    # Exact case first: `Now` and `now` may be different tools.
    for place in sorted(whole, key=lambda place: (not _has_exact_name(snapshot.tools[place], text), place)):
        found[place] = _NAME_SCORE
    for word in _NAME_LIKE.findall(text) if not whole else ():
        spelt = word.rstrip(".:")
        if _is_identifier(spelt):
            for place in _resolve_name(view, spelt.lower()):
                found.setdefault(place, _MENTION_SCORE)
    return {place: score for place, score in found.items() if mask is None or mask[place]}


def _resolve_name(view: IndexView, name: str) -> tuple[int, ...]:
    """Indexes of the tools of a name: bare, or qualified with `::`, `__`, `.`, `/` or `:`."""
    found = view.by_lower_name.get(name, ())
    for sign in _SEPARATORS if not found else ():
        at = name.find(sign)
        while at > 0 and not found:
            found = view.by_lower_name.get(f"{name[:at]}::{name[at + len(sign) :]}", ())
            at = name.find(sign, at + 1)
    return found


def _is_identifier(word: str) -> bool:
    """Whether a word looks like an identifier: `get_weather`, `math.gcd`, `getWeather`, `a::b`."""
    return len(word) > 2 and (any(sign in word for sign in "_.:/") or not (word.islower() or word[1:].islower()))


def _has_exact_name(tool: Tool, text: str) -> bool:
    return text in (tool.name, tool.qualified_name, *tool.aliases)


def _choose_hits(found: Judgement, threshold: float | None, named: bool) -> Sequence[JudgedRow]:
    """Select the hits: all, unless the request fits no tool or the best hit is below the threshold."""
    if named:
        # Besides a named tool, other hits must each be good enough by themselves.
        return [hit for hit in found.hits if (hit.fit != "nearest" if threshold is None else hit.score >= threshold)]
    if threshold is None:
        return () if found.foreign else found.hits
    return found.hits if found.hits and found.hits[0].score >= threshold else ()
