"""`DataflowEnrichment`: finds which tool's result can feed which other tool.

Matches between kinds of values become edges between tools. Sources are processed in blocks. Of every block, only the
edges that are among the best of a source, or may yet be among the best of a parameter, inside or outside the namespace,
are kept, so that memory grows linearly with the tools. Dropped edges are counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Meta

from toolyard.insight import arrays
from toolyard.insight.arrays import Array
from toolyard.insight.base import Force, ToolEnrichment
from toolyard.insight.cache import CacheOption, ItemCache, hash_catalog, read_arrays, store_arrays, warn_once
from toolyard.insight.dataflow import match
from toolyard.insight.dataflow.artifact import IN, OUT, Dataflow, EdgeArrays, order_by_target, pack_paths
from toolyard.insight.dataflow.match import EmbedTexts, Matches, MatchWeights, Tables
from toolyard.insight.dataflow.profile import ToolProfile, read_profile
from toolyard.insight.embeddings.embedder import Model, default_embedder, resolve_embedder
from toolyard.insight.embeddings.vectors import cached_vectors, configured_embedder
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc
from toolyard.plugins import View
from toolyard.schema.options import read_arguments

MAX_FEEDS = 24
"""Maximum number of feeds of an edge; for each parameter only its best feed counts."""
_BLOCK_ROWS = 400_000
_POOL_ROWS = 1_000_000
_DIGITS = 5


class Feeds(NamedTuple):
    """Candidate feeds, one row each."""

    sources: Array
    targets: Array
    logits: Array
    outputs: Array
    """Row numbers in the output tables."""
    inputs: Array
    matches: Array


class EdgeLimits(NamedTuple):
    """The limits for keeping an edge."""

    min_score: float
    neighbors: int
    """Edges kept per tool and parameter, inside and outside the namespace."""

    @property
    def logit(self) -> float:
        """The logit of the minimum score."""
        score = min(max(self.min_score, 1e-6), 1 - 1e-6)
        return math.log(score / (1 - score))


def compute_edges(
    tools: Sequence[Tool],
    profiles: Iterable[ToolProfile],
    vectors: EmbedTexts,
    limits: EdgeLimits,
    *,
    tokens: bool = False,
) -> EdgeArrays:
    """Compute the edges between tools, of which `profiles` has the profiles; `tokens` if the vectors are of tokens."""
    with paused_gc():
        known = list(profiles)
        tables = match.build_tables(known)
    spaces = arrays.number_distinct(tool.namespace for tool in tools)[1]
    weights = match.TOKENS if tokens else match.MODEL
    matches = match.match_kinds(tables, spaces, vectors, weights, limits.logit)
    finder = _EdgeFinder(tables, matches, spaces, weights, limits)
    required = np.array([one.required for one in known], np.int32)
    unread = np.array([one.unread for one in known], np.int64)
    return finder.build_arrays(finder.find(), required, unread)


_KINDS = (np.int32, np.int32, np.float32, np.int32, np.int32, np.int32)


class _EdgeFinder:
    """Finds the edges to keep, with their feeds, block by block."""

    def __init__(
        self, tables: Tables, matches: Matches, spaces: Array, weights: MatchWeights, limits: EdgeLimits
    ) -> None:
        self._tables = tables
        self._matches = matches
        self._spaces = spaces
        self._weights = weights
        self._limits = limits
        self.cut = np.zeros(len(spaces), np.int64)
        """For each tool, the number of dropped edges to it."""

    def find(self) -> Feeds:
        """The feeds of the edges to keep."""
        pool, blocks = Feeds(*(np.zeros(0, kind) for kind in _KINDS)), 0
        for start, end in arrays.split_blocks(self._count_rows(), _BLOCK_ROWS):
            feeds = self._keep_best(self._find_feeds(start, end))
            pool = Feeds(*map(np.concatenate, zip(pool, feeds, strict=True)))
            blocks += 1
            if len(pool.sources) > _POOL_ROWS:
                pool = self._keep_best(pool)
        return self._keep_best(pool) if blocks > 1 else pool

    def _count_rows(self) -> Array:
        """For each source, how many candidate feeds it has."""
        outputs, matches = self._tables.outputs, self._matches
        occurrences = np.diff(self._tables.inputs.kind_offsets)
        reach = np.concatenate(([0], np.cumsum(occurrences[matches.inputs])))
        per_kind = reach[matches.offsets[1:]] - reach[matches.offsets[:-1]]
        return np.diff(np.concatenate(([0], np.cumsum(per_kind[outputs.members])))[outputs.tool_offsets])

    def _find_feeds(self, start: int, end: int) -> Feeds:
        (outputs, inputs), matches, weights = self._tables, self._matches, self._weights
        first, last = int(outputs.tool_offsets[start]), int(outputs.tool_offsets[end])
        kinds = outputs.members[first:last]
        starts = matches.offsets[kinds]
        rows, found = arrays.expand_ranges(starts, matches.offsets[kinds + 1] - starts)
        wanted = matches.inputs[found]
        begins = inputs.kind_offsets[wanted]
        pairs, places = arrays.expand_ranges(begins, inputs.kind_offsets[wanted + 1] - begins)
        takers = inputs.by_kind[places]
        given, met = rows[pairs] + first, found[pairs]
        sources, targets = outputs.tools[given], inputs.tools[takers]
        apart = self._spaces[sources] != self._spaces[targets]
        logits = matches.logits[met]
        logits += (
            apart * (weights.apart + weights.scoped * matches.scoped[met]) + weights.nested * outputs.nested[given]
        )
        allowed = (sources != targets) & (apart | ~matches.foreign[met])
        good = np.flatnonzero((logits >= self._limits.logit) & allowed)
        # Rounded to the precision of the products, so that ties are broken in the same way on every machine.
        columns = (sources, targets, np.round(logits, _DIGITS), given, takers, met)
        return Feeds(*(column[good].astype(kind) for column, kind in zip(columns, _KINDS, strict=True)))

    def _keep_best(self, feeds: Feeds) -> Feeds:
        """Keep the best feed of each parameter, for edges that are among the best of their source or of a parameter.

        The dropped edges are counted in `cut`.
        """
        order = np.lexsort((feeds.outputs, -feeds.logits, feeds.inputs, feeds.sources))
        feeds = _take_rows(feeds, order)
        # An input belongs to one target, so source and input identify a parameter of an edge.
        feeds = _take_rows(feeds, arrays.find_run_starts(_pack_pair(feeds.sources, feeds.inputs)))
        feeds = _take_rows(feeds, np.lexsort((feeds.inputs, -feeds.logits, feeds.targets, feeds.sources)))
        edges = _pack_pair(feeds.sources, feeds.targets)
        feeds = _take_rows(feeds, arrays.rank_in_runs(edges) < MAX_FEEDS)
        begins = arrays.find_run_starts(_pack_pair(feeds.sources, feeds.targets))
        marks = self._mark_best(feeds, begins)
        self.cut += np.bincount(feeds.targets[begins][marks == 0], minlength=len(self.cut))
        lengths = np.diff(np.append(begins, len(feeds.sources)))
        return _take_rows(feeds, np.repeat(marks > 0, lengths))

    def _mark_best(self, feeds: Feeds, begins: Array) -> Array:
        """For each edge, with feeds starting at `begins`: is it among the best of its source, and of a parameter."""
        marks = np.zeros(len(begins), np.uint8)
        sources, targets = feeds.sources[begins], feeds.targets[begins]
        marks[self._find_best(sources, sources, targets, feeds.logits[begins])] |= OUT
        best = self._find_best(feeds.inputs, feeds.targets, feeds.sources, feeds.logits)
        marks[np.searchsorted(begins, best, side="right") - 1] |= IN
        return marks

    def _find_best(self, owners: Array, homes: Array, others: Array, logits: Array) -> Array:
        """The rows among the best of their owner, inside and outside its namespace."""
        groups = owners.astype(np.int64) << 1 | (self._spaces[others] != self._spaces[homes])
        order = np.lexsort((others, -logits, groups))
        return order[arrays.rank_in_runs(groups[order]) < self._limits.neighbors]

    def build_arrays(self, pool: Feeds, required: Array, unread: Array) -> EdgeArrays:
        """Sort the edges and pack their feeds. Of each tool, so many values are required, and so many were not read."""
        tables, matches, count = self._tables, self._matches, len(self._spaces)
        begins = arrays.find_run_starts(_pack_pair(pool.sources, pool.targets))
        sources, targets = pool.sources[begins], pool.targets[begins]
        lengths = np.diff(np.append(begins, len(pool.sources)))
        marks = self._mark_best(pool, begins)
        probabilities = np.round(1.0 / (1.0 + np.exp(-pool.logits)), 4).astype(np.float32)
        scores = probabilities[begins]
        owned = np.repeat(np.arange(len(begins)), lengths)
        fed = np.bincount(owned, weights=tables.inputs.needed[pool.inputs], minlength=len(begins))
        order = np.lexsort((targets, -scores, sources))
        rows, positions = arrays.expand_ranges(begins[order], lengths[order])
        pool, probabilities = _take_rows(pool, positions), probabilities[positions]
        sources, targets, scores = sources[order], targets[order], scores[order]
        in_offsets, in_edges = order_by_target(count, sources, targets, scores)
        paths, numbers = _number_paths(tables, pool)
        path_offsets, path_bytes = pack_paths(paths)
        required = required[targets]
        return EdgeArrays(
            offsets=arrays.compute_offsets(sources, count),
            targets=targets,
            scores=scores,
            marks=marks[order],
            covers=(fed[order] >= required) & (required > 0),
            in_offsets=in_offsets,
            in_edges=in_edges,
            feed_offsets=np.concatenate(([0], np.cumsum(lengths[order]))),
            feed_outputs=numbers[: len(rows)],
            feed_parameters=numbers[len(rows) :],
            feed_scores=probabilities,
            feed_hows=matches.hows[pool.matches],
            feed_signals=np.stack([part[pool.matches] for part in (matches.name, matches.type, matches.text)], axis=1),
            path_offsets=path_offsets,
            path_bytes=path_bytes,
            cut=self.cut,
            unread=unread,
        )


def _number_paths(tables: Tables, pool: Feeds) -> tuple[list[str], Array]:
    """Number the paths of feeds: return the distinct paths, and the numbers for all outputs, then all inputs."""
    values = np.concatenate((pool.outputs, pool.inputs + len(tables.outputs.paths)))
    known = [*tables.outputs.paths, *tables.inputs.paths]
    used, places = np.unique(values, return_inverse=True)
    paths, numbers = arrays.number_distinct(known[value] for value in used.tolist())
    return paths, numbers[places]


def _take_rows(feeds: Feeds, rows: Array) -> Feeds:
    return Feeds(*(column[rows] for column in feeds))


def _pack_pair(first: Array, second: Array) -> Array:
    return first.astype(np.int64) << 32 | second.astype(np.int64)


VERSION = 16
"""Part of the cache key; increase it when the rules change."""

NEIGHBORS = 10
"""Default of `max_neighbors`: sources kept per parameter, and targets per source, inside and outside the namespace."""


class DataflowEnrichment(ToolEnrichment):
    """Finds which results can be used as which parameters; artifact `dataflow`.

    `model` is an embedding model as in `embeddings`; by default that of `embeddings`, else the default model. If its
    weights are not installed, texts are compared by their words. An edge is kept if its probability is at least
    `min_score` and it is among the `max_neighbors` best of its source, or of a parameter that it feeds, inside or
    outside the namespace. `remarks()` of the artifact lists what was left out. `force` ignores the cache.
    """

    reads: ClassVar[tuple[str, ...]] = ("tool.description", "tool.output_parameters", "embeddings?")
    writes: ClassVar[tuple[str, ...]] = ("dataflow",)

    def __init__(
        self,
        *,
        model: Model = None,
        max_neighbors: Annotated[
            int, Meta(ge=1, description="Edges to keep for each parameter and each source.")
        ] = NEIGHBORS,
        min_score: Annotated[float, Meta(ge=0, le=1, description="Minimum score of an edge.")] = match.MIN_SCORE,
        force: Force = False,
        cache: CacheOption = None,
    ) -> None:
        read = read_arguments(DataflowEnrichment, max_neighbors=max_neighbors, min_score=min_score, force=force)
        self.force: bool = read["force"]
        self.embedder = default_embedder() if model is None else resolve_embedder(model)
        self._chosen = model is not None
        self.max_neighbors: int = read["max_neighbors"]
        self.min_score = float(read["min_score"])
        self._items = ItemCache(cache)

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The unchanged tools, and the artifact."""
        tools = snapshot.tools
        if not self._chosen:
            self.embedder = configured_embedder(snapshot) or self.embedder
        model = ("tokens", "") if self.embedder is None else (self.embedder.name, self.embedder.version)
        key = hash_catalog(tools, "dataflow", VERSION, *model, self.max_neighbors, self.min_score)
        found = None if self.force else read_arrays(self._items, "dataflow", key)
        if found is None:
            if tools and not any(tool.output_parameters for tool in tools):
                warn_once(
                    f"dataflow: none of the {len(tools)} tools says what it returns, so nothing feeds anything; add "
                    "the enrichment output_parameters: `- type: output_parameters` under tools.enrichments"
                )
            limits = EdgeLimits(self.min_score, self.max_neighbors)
            profiles, tokens = map(read_profile, tools), self.embedder is None
            found = compute_edges(tools, profiles, self._embed_texts, limits, tokens=tokens)._asdict()
            store_arrays(self._items, "dataflow", key, found)
        return tools, {"dataflow": Dataflow(tools, EdgeArrays(**found), text=model[0], min_score=self.min_score)}

    def _embed_texts(self, texts: Sequence[str]) -> Array:
        if self.embedder is None:
            return match.token_vectors(texts)
        return cached_vectors(self.embedder, texts, self._items, "dataflow", force=self.force)
