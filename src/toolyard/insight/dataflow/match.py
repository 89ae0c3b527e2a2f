"""The inputs and outputs of all tools as arrays, and how well they match: by name, type and text, weighted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolyard.insight import arrays
from toolyard.insight.arrays import Array
from toolyard.insight.base import FeedMode
from toolyard.insight.dataflow.artifact import FEED_MODES
from toolyard.insight.dataflow.meaning import FOREIGN
from toolyard.insight.dataflow.names import SORTS, text_words
from toolyard.insight.dataflow.paths import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING
from toolyard.insight.dataflow.profile import Kind, ToolProfile, Values, unpack_shape
from toolyard.words.identifiers import word_set

DIMENSIONS = 384
_COMMON = word_set("""
    the a an of to for and or in on is are be this that with by from as at it its which you your will can if
    e g i optional required string value""")


@lru_cache(maxsize=65536)
def _hash_word(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little") % DIMENSIONS


def token_vectors(texts: Sequence[str]) -> npt.NDArray[Any]:
    """Bag-of-words vectors: one row of length one per text, with words of the name counted twice."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        name, _, rest = text.partition(":")
        counts: dict[str, float] = {}
        for part, weight in ((name, 2.0), (rest, 1.0)):
            for word in text_words(part[:200]):
                if word not in _COMMON:
                    counts[word] = counts.get(word, 0.0) + weight
        for word, count in counts.items():
            rows[row, _hash_word(word)] += math.sqrt(count)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


class ValueTable(NamedTuple):
    """All outputs, or all inputs: each distinct kind of value once, and where it occurs."""

    kinds: list[Kind]
    shapes: list[tuple[int, bool]]
    """The distinct types of kinds, each with whether it is required."""
    shaped: Array
    """For each kind, the index of its shape."""
    state: Array
    required: Array
    scoped: Array
    """For each kind, how far it is meaningful only within its source: 1 for an id, 0 for a city."""
    foreign: Array
    """Whether it is fed only from other namespaces."""
    sorted: Array
    """Whether it is of a sort that means the same for every owner."""
    facets: Array
    """One row per facet of each kind, ordered by kind: the facet's number. Outputs have only facets of inputs."""
    facet_kinds: Array
    facet_weights: Array
    paths: list[str]
    """One row per value of each tool, ordered by tool."""
    tools: Array
    members: Array
    """For each value, its kind."""
    needed: Array
    """Whether a call requires it."""
    nested: Array
    by_kind: Array
    """The value rows, ordered by kind."""
    kind_offsets: Array
    tool_offsets: Array


class Tables(NamedTuple):
    """The tables of outputs and inputs."""

    outputs: ValueTable
    inputs: ValueTable


def build_tables(profiles: Sequence[ToolProfile]) -> Tables:
    """Build the tables of all tools, in their order."""
    numbers: dict[str, int] = {}
    # Inputs first: facets that no input has cannot match.
    inputs = _build_side([one.inputs for one in profiles], numbers, fresh=True)
    return Tables(_build_side([one.outputs for one in profiles], numbers, fresh=False), inputs)


def _build_side(values: Sequence[Values], numbers: dict[str, int], *, fresh: bool) -> ValueTable:
    """Build one side; `fresh` numbers new facets, otherwise they are left out."""
    kinds, members = arrays.number_distinct(chain.from_iterable(one.kinds for one in values))
    shapes, shaped = arrays.number_distinct((kind.shape, kind.required) for kind in kinds)
    facets = [kind.facets for kind in kinds]
    rows: list[tuple[int, int, float]] = []
    for at, found in enumerate(facets):
        for key, weight in zip(found.keys, found.weights, strict=True):
            number = numbers.setdefault(key, len(numbers)) if fresh else numbers.get(key)
            if number is not None:
                rows.append((number, at, weight))
    tools = np.repeat(np.arange(len(values), dtype=np.int32), [len(one.paths) for one in values])
    return ValueTable(
        kinds=kinds,
        shapes=shapes,
        shaped=shaped,
        state=np.array([kind.state for kind in kinds], np.bool_),
        required=np.array([kind.required for kind in kinds], np.bool_),
        scoped=np.array([found.scoped for found in facets], np.float32),
        foreign=np.array([kind.role & FOREIGN for kind in kinds], np.bool_),
        sorted=np.array([kind.attribute in SORTS for kind in kinds], np.bool_),
        facets=np.array([number for number, _, _ in rows], np.int64),
        facet_kinds=np.array([at for _, at, _ in rows], np.int32),
        facet_weights=np.array([weight for _, _, weight in rows], np.float32),
        paths=list(chain.from_iterable(one.paths for one in values)),
        tools=tools,
        members=members,
        needed=np.fromiter(chain.from_iterable(one.needed for one in values), np.bool_, len(members)),
        nested=np.fromiter(chain.from_iterable(one.nested for one in values), np.float32, len(members)),
        by_kind=np.argsort(members, kind="stable").astype(np.int32),
        kind_offsets=arrays.compute_offsets(members, len(kinds)),
        tool_offsets=arrays.compute_offsets(tools, len(values)),
    )


EmbedTexts = Callable[[Sequence[str]], Array]
"""Returns one row of length one per text."""

_CHUNK = 128
"""Pairs compared at a time, so that they fit into the processor's cache."""


def _compare_texts(tables: Tables, vectors: EmbedTexts, outputs: Array, inputs: Array) -> Array:
    """The text similarity of each pair of kinds.

    Vectors are requested once, and for these texts alone, since computing a vector costs more than everything else that
    is done for a value.
    """
    if not len(outputs):
        return np.zeros(0, np.float32)
    numbers: dict[str, int] = {}
    sides = []
    for side, kinds in ((tables.outputs, outputs), (tables.inputs, inputs)):
        some, places = np.unique(kinds, return_inverse=True)
        texts = [numbers.setdefault(side.kinds[kind].text, len(numbers)) for kind in some.tolist()]
        sides.append(np.array(texts, np.int32)[places])
    return _compare_rows(vectors(list(numbers)), *sides)


def _compare_rows(rows: Array, left: Array, right: Array) -> Array:
    """The cosine of each pair of rows, clipped to 0..1."""
    found = np.empty(len(left), np.float32)
    for start in range(0, len(left), _CHUNK):
        part = slice(start, start + _CHUNK)
        found[part] = np.einsum("ij,ij->i", rows[left[part]], rows[right[part]])
    return np.clip(found, 0.0, 1.0, out=found)


class MatchWeights(NamedTuple):
    """Weights of a logistic model, whose sum is the logit of the probability that a feed makes sense."""

    base: float
    name: float
    text: float
    type: float
    """Times 3 * (type fit - 1)."""
    state: float
    """Added if one of the values describes a thing, such as a status, instead of identifying it."""
    required: float
    """Added if the parameter is required."""
    apart: float
    """Added between namespaces."""
    scoped: float
    """Added to `apart`, scaled by how far the value is meaningful only within its source."""
    sorted: float
    """Added if the parameter is of a sort that means the same for every owner."""
    nested: float
    """Times the number of other entities that contain the value."""


MODEL = MatchWeights(-5.19, 6.91, 1.58, 1.03, -1.86, 1.11, -0.29, -5.0, 0.39, -0.55)
TOKENS = MatchWeights(-4.79, 6.92, 0.97, 1.06, -1.8, 1.1, -0.29, -5.0, 0.37, -0.53)
MIN_SCORE = 0.55
"""`make eval-dataflow` reports what it achieves."""


_SCALARS = {
    (STRING, STRING): 1.0,
    (INTEGER, INTEGER): 1.0,
    (NUMBER, NUMBER): 1.0,
    (BOOLEAN, BOOLEAN): 1.0,
    (INTEGER, NUMBER): 1.0,
    (NUMBER, INTEGER): 0.8,
    (INTEGER, STRING): 0.9,
    (NUMBER, STRING): 0.8,
    (STRING, INTEGER): 0.75,
    (STRING, NUMBER): 0.6,
    (OBJECT, OBJECT): 0.8,
}
_BITS = (STRING, INTEGER, NUMBER, BOOLEAN, OBJECT)


@lru_cache(maxsize=65536)
def fit_types(
    kinds: int, items: int, lists: int, wanted: int, wanted_items: int, wanted_lists: int, required: bool
) -> tuple[float, FeedMode]:
    """How well the types fit (0 to 1), and how the value is passed on."""
    inside = wanted_lists > 0
    options: list[tuple[float, FeedMode]] = [(0.0, "direct")]
    plain, asked = kinds & ~ARRAY, wanted & ~ARRAY
    many = lists > 0
    if plain and asked:
        how: FeedMode = "direct" if not many or inside else ("each" if required else "first")
        options.append((_best_scalar(plain, asked) * (1.0 if how == "direct" else 0.96), how))
    if kinds & ARRAY and items and asked:
        options.append((_best_scalar(items, asked) * 0.95, "each" if required else "first"))
    if wanted & ARRAY and wanted_items:
        if kinds & ARRAY and items:
            options.append((_best_scalar(items, wanted_items), "direct"))
        if plain:
            options.append((_best_scalar(plain, wanted_items) * 0.95, "direct" if many else "wrap"))
    return max(options, key=lambda option: option[0])


def _best_scalar(given: int, asked: int) -> float:
    sure = 1.0 if given.bit_count() == asked.bit_count() == 1 else 0.95
    return sure * max(
        (_SCALARS.get((one, other), 0.0) for one in _BITS if given & one for other in _BITS if asked & other),
        default=0.0,
    )


MIN_NAME = 0.3
"""Minimum name signal; below it, no text similarity suffices."""
MIN_TYPE = 0.2
"""Type fit that a pair must exceed."""
_BLOCK = 1_000_000
"""Pairs processed at a time, so that memory does not grow with the square of the tools."""
_TOLERANCE = 1e-3
"""Tolerance for rounding errors."""


class Matches(NamedTuple):
    """Matching pairs of kinds, ordered by output kind: those of kind `o` are at `offsets[o]:offsets[o + 1]`."""

    offsets: Array
    inputs: Array
    logits: Array
    """Without the terms that depend on the tools."""
    hows: Array
    name: Array
    type: Array
    text: Array
    scoped: Array
    foreign: Array


def match_kinds(tables: Tables, spaces: Array, vectors: EmbedTexts, weights: MatchWeights, least: float) -> Matches:
    """Find every pair of kinds that could reach the logit `least` between any two tools.

    `spaces` has the namespace number of each tool. `vectors` is called only for texts that could make the difference.
    """
    types, hows = _build_type_table(tables)
    bound = _bound_by_tools(tables, spaces, weights)
    parts: list[tuple[Array, ...]] = []
    for meeting in _find_pairs(tables):
        fits = types[tables.outputs.shaped[meeting[0]], tables.inputs.shaped[meeting[1]]]
        kept = [part[fits > MIN_TYPE] for part in (*meeting, fits)]
        more = bound(*kept[:2])
        # Skip text comparison for pairs that could not reach the limit with any text.
        promising = _compute_logits(tables, weights, kept, 1.0) + more >= least - _TOLERANCE
        parts.append(tuple(part[promising] for part in (*kept, more)))
    *pairs, more = (
        map(np.concatenate, zip(*parts, strict=True)) if parts else (np.zeros(0, kind) for kind in _PAIR_TYPES)
    )
    texts = _compare_texts(tables, vectors, *pairs[:2])
    logits = _compute_logits(tables, weights, pairs, texts)
    good = np.flatnonzero(logits + more >= least - _TOLERANCE)
    order = good[np.argsort(pairs[0][good], kind="stable")]
    rows, columns, names, fits, texts, logits = (part[order] for part in (*pairs, texts, logits))
    return Matches(
        offsets=arrays.compute_offsets(rows, len(tables.outputs.kinds)),
        inputs=columns,
        logits=logits,
        hows=hows[tables.outputs.shaped[rows], tables.inputs.shaped[columns]],
        name=names,
        type=fits,
        text=texts,
        scoped=tables.inputs.scoped[columns],
        foreign=tables.outputs.foreign[rows] | tables.inputs.foreign[columns],
    )


_PAIR_TYPES = (np.int32, np.int32, np.float32, np.float32, np.float32)
"""Output kinds, input kinds, name signal, type fit, and the most that tools could add."""


def _bound_by_tools(tables: Tables, spaces: Array, weights: MatchWeights) -> Callable[[Array, Array], Array]:
    """A function for the most that any two tools could add to the logits of pairs of kinds.

    It is minus infinity if no two tools can be connected by a pair, such as a tool with itself.
    """
    own_tools = [_find_common(side, side.tools) for side in tables]
    own_spaces = [_find_common(side, spaces[side.tools]) for side in tables]

    def bound(rows: Array, columns: Array) -> Array:
        given, taken = own_spaces[0][rows], own_spaces[1][columns]
        apart = (given >= 0) & (taken >= 0) & (given != taken)
        found: Array = apart * (weights.apart + weights.scoped * tables.inputs.scoped[columns])
        foreign = tables.outputs.foreign[rows] | tables.inputs.foreign[columns]
        found[foreign & (given >= 0) & (given == taken)] = -np.inf
        given = own_tools[0][rows]
        found[(given >= 0) & (given == own_tools[1][columns])] = -np.inf
        return found

    return bound


def _find_common(side: ValueTable, of: Array) -> Array:
    """For each kind, the value of `of` that all its rows share; -1 if they differ."""
    if not len(side.kinds):
        return np.zeros(0, np.int32)
    of, starts = of[side.by_kind], side.kind_offsets[:-1]
    least: Array = np.minimum.reduceat(of, starts)
    return np.where(least == np.maximum.reduceat(of, starts), least, -1)


def _compute_logits(tables: Tables, weights: MatchWeights, pairs: Sequence[Array], texts: Array | float) -> Array:
    rows, columns, names, fits = pairs
    logits: Array = (
        weights.base
        + weights.name * names
        + weights.text * texts
        + weights.type * 3.0 * (fits - 1.0)
        + weights.state * (tables.outputs.state[rows] | tables.inputs.state[columns])
        + weights.required * tables.inputs.required[columns]
        + weights.sorted * tables.inputs.sorted[columns]
    ).astype(np.float32)
    return logits


def _find_pairs(tables: Tables) -> Any:
    """Yield blocks of (output kinds, input kinds, name signal) for pairs that share a facet; each pair once."""
    outputs, inputs = tables.outputs, tables.inputs
    order, starts, counts = _join_facets(outputs, inputs)
    width = max(1, len(inputs.kinds))
    # Split between kinds, so that each block has a bounded number of pairs.
    kinds = np.append(arrays.find_run_starts(outputs.facet_kinds), len(outputs.facet_kinds))
    meetings = np.add.reduceat(counts, kinds[:-1]) if len(counts) else counts
    for begin, end in ((kinds[first], kinds[last]) for first, last in arrays.split_blocks(meetings, _BLOCK)):
        owners, positions = arrays.expand_ranges(starts[begin:end], counts[begin:end])
        entries = order[positions]
        signal = outputs.facet_weights[begin:end][owners] * inputs.facet_weights[entries]
        strong = signal >= MIN_NAME
        rows = outputs.facet_kinds[begin:end][owners[strong]].astype(np.int64)
        keys = rows * width + inputs.facet_kinds[entries[strong]]
        signal = signal[strong]
        sort = np.argsort(keys)
        keys, signal = keys[sort], signal[sort]
        runs = arrays.find_run_starts(keys)
        if len(runs):
            keys = keys[runs]
            yield (keys // width).astype(np.int32), (keys % width).astype(np.int32), np.maximum.reduceat(signal, runs)


def _join_facets(outputs: ValueTable, inputs: ValueTable) -> tuple[Array, Array, Array]:
    """Order the inputs' facet rows by facet; for each output row, find the range of those with its facet."""
    order = np.argsort(inputs.facets)
    wanted = inputs.facets[order]
    begins = arrays.find_run_starts(wanted)
    if not len(begins):
        return order, np.zeros(len(outputs.facets), np.int64), np.zeros(len(outputs.facets), np.int64)
    runs = np.minimum(np.searchsorted(wanted[begins], outputs.facets), len(begins) - 1)
    lengths = np.diff(np.append(begins, len(wanted)))
    return order, begins[runs], lengths[runs] * (wanted[begins[runs]] == outputs.facets)


def _build_type_table(tables: Tables) -> tuple[Array, Array]:
    scores = np.zeros((len(tables.outputs.shapes), len(tables.inputs.shapes)), np.float32)
    hows = np.zeros(scores.shape, np.uint8)
    for row, (given, _) in enumerate(tables.outputs.shapes):
        for column, (wanted, required) in enumerate(tables.inputs.shapes):
            scores[row, column], how = fit_types(*unpack_shape(given), *unpack_shape(wanted), required)
            hows[row, column] = FEED_MODES.index(how)
    return scores, hows
