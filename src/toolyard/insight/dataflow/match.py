"""How well what one tool gives fits what another takes: by name, type and text, weighed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.artifact import HOWS, Array
from toolyard.insight.dataflow.names import words_in
from toolyard.insight.dataflow.profile import pick_fields, text_of, types_of
from toolyard.insight.dataflow.schema_fold import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING
from toolyard.insight.dataflow.tables import Side, Tables, expand_ranges, first_of
from toolyard.insight.sample import How

DIMENSIONS = 384
_COMMON = frozenset(
    """the a an of to for and or in on is are be this that with by from as at it its which you your will can if
    e g i optional required string value""".split()  # noqa: SIM905
)


@lru_cache(maxsize=65536)
def _hash_word(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little") % DIMENSIONS


def token_vectors(texts: Sequence[str]) -> npt.NDArray[Any]:
    """One row a text, of length one: texts that share words are alike. Words of the name count twice."""
    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        name, _, rest = text.partition(":")
        counts: dict[str, float] = {}
        for part, weight in ((name, 2.0), (rest, 1.0)):
            for word in words_in(part[:200]):
                if word not in _COMMON:
                    counts[word] = counts.get(word, 0.0) + weight
        for word, count in counts.items():
            rows[row, _hash_word(word)] += math.sqrt(count)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


Vectors = Callable[[Sequence[str]], Array]
"""Gives one row of length one for each text."""

_NAMED = pick_fields("spoken", "description")
_CHUNK = 128
"""Pairs of texts at a time, so that they fit into the nearest memory."""

"""Pairs at a time, so that memory does not grow with the square of the texts."""
_DENSE = 0.04
"""Beyond this share of pairs, comparing all texts at once is quicker than comparing those that met."""


class Texts:
    """The texts of kinds that met. Most never do, and a vector costs more than all else that is done for a value."""

    def __init__(self, tables: Tables, vectors: Vectors) -> None:
        self._sides = tables.outputs, tables.inputs
        self._vectors = vectors
        self._numbers = [np.full(len(side.kinds), -1, np.int32) for side in self._sides]
        """For each kind the number of its text, once that is known."""
        self._known: dict[str, int] = {}
        self._rows: Array | None = None
        """The vector of each that is known, and room for more."""

    def alike(self, outputs: Array, inputs: Array) -> Array:
        """How alike the texts of each pair of kinds are, 0 to 1."""
        rows = self._embed_texts(outputs, inputs)
        if rows is None:
            return np.zeros(0, np.float32)
        return compare_rows(rows, self._numbers[0][outputs], self._numbers[1][inputs])

    def _embed_texts(self, *met: Array) -> Array | None:
        """The vectors of all texts so far; None if there are none."""
        known = self._known
        before = len(known)
        for side, numbers, kinds in zip(self._sides, self._numbers, met, strict=True):
            fresh = np.zeros(len(numbers), np.bool_)
            fresh[kinds] = True
            some = np.flatnonzero(fresh & (numbers < 0))
            numbers[some] = [known.setdefault(text, len(known)) for text in _list_texts(side, some)]
        if len(known) > before:
            more, rows = self._vectors(list(islice(known, before, None))), self._rows
            if rows is None:
                self._rows = more
            else:
                if len(rows) < len(known):
                    rows = np.resize(rows, (2 * len(known), rows.shape[1]))
                rows[before : len(known)] = more
                self._rows = rows
        return self._rows


def _list_texts(side: Side, kinds: Array) -> list[str]:
    return [text_of(*_NAMED(side.kinds[kind])) for kind in kinds.tolist()]


def compare_rows(rows: Array, left: Array, right: Array) -> Array:
    """How alike each pair of rows is, 0 to 1."""
    sizes = [int(np.count_nonzero(np.bincount(some))) for some in (left, right)]
    if len(left) > _DENSE * sizes[0] * sizes[1]:
        found = _compare_all(rows, left, right)
    else:
        found = np.empty(len(left), np.float32)
        for start in range(0, len(left), _CHUNK):
            part = slice(start, start + _CHUNK)
            found[part] = np.einsum("ij,ij->i", rows[left[part]], rows[right[part]])
    return np.clip(found, 0.0, 1.0, out=found)


def _compare_all(rows: Array, left: Array, right: Array) -> Array:
    """How alike pairs of rows are, by comparing all of them with all."""
    some, left = np.unique(left, return_inverse=True)
    others, right = np.unique(right, return_inverse=True)
    found = np.empty(len(left), np.float32)
    step = max(1, _BLOCK // max(1, len(others)))
    wanted = rows[others].T
    order = np.argsort(left, kind="stable")
    cuts = np.searchsorted(left[order], np.arange(0, len(some) + step, step))
    for number, start in enumerate(range(0, len(some), step)):
        here = order[cuts[number] : cuts[number + 1]]
        block = rows[some[start : start + step]] @ wanted
        found[here] = block[left[here] - start, right[here]]
    return found


class MatchWeights(NamedTuple):
    """Of a logistic model: what is added up is the logit of the probability that a feed makes sense."""

    base: float
    name: float
    text: float
    type: float
    """Times three times what the type lacks."""
    state: float
    """Added where one of the values is told of something, such as a status."""
    required: float
    """Added where the parameter is required."""
    tools: float
    """Times the likeness of the two tools."""
    apart: float
    """Added between namespaces."""
    scoped: float
    """Added to that for values such as ids, which mean something only where they come from."""


MODEL = MatchWeights(-6.13, 6.11, 4.46, 2.71, -1.42, 1.17, 0.75, -1.2, -1.2)
TOKENS = MatchWeights(-6.18, 5.95, 4.62, 2.44, -0.83, 1.1, 1.04, -1.2, -1.2)
MIN_SCORE = 0.88
"""The highest at which no edge of the half is wrong and nine of ten are still found.

`make eval-dataflow` tells of both.
"""


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
Listed = frozenset[str] | None
"""The values that are allowed, if they are listed."""

_NEAR = {("date", "date-time"): 0.9, ("date-time", "date"): 0.9, ("date-time", "time"): 0.7}


@lru_cache(maxsize=65536)
def fit_types(
    kinds: int, items: int, lists: int, wanted: int, wanted_items: int, wanted_lists: int, required: bool
) -> tuple[float, How]:
    """How well a value fits (0 to 1), and how it is handed on."""
    inside = wanted_lists > 0
    options: list[tuple[float, How]] = [(0.0, "direct")]
    plain, asked = kinds & ~ARRAY, wanted & ~ARRAY
    many = lists > 0
    if plain and asked:
        how: How = "direct" if not many or inside else ("each" if required else "first")
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


def details_fit(form: str, enum: Listed, wanted_form: str, wanted_enum: Listed) -> float:
    """Whether formats and listed values agree: 1 if nothing speaks against it, 0 if they cannot."""
    score = 1.0
    if form and wanted_form and form != wanted_form:
        score *= _NEAR.get((form, wanted_form), 0.15)
    if wanted_enum is not None:
        score *= 0.85 if enum is None else len(enum & wanted_enum) / len(enum)
    return score


_DETAILS = pick_fields("format", "enum")

MIN_NAME = 0.3
"""Below, no text makes up for it."""
_BLOCK = 4_000_000
"""Pairs at a time, so that memory does not grow with the square of the tools."""
_SLACK = 1e-3
"""More than rounding comes to."""


class Matches(NamedTuple):
    """Pairs of kinds, by output kind: those of kind `o` are at `offsets[o]:offsets[o + 1]`."""

    offsets: Array
    inputs: Array
    logits: Array
    """Without what depends on the tools."""
    hows: Array
    name: Array
    type: Array
    text: Array
    scoped: Array


def match_kinds(tables: Tables, spaces: Array, vectors: Vectors, weights: MatchWeights, least: float) -> Matches:
    """Every pair of kinds that could reach the logit `least` between some two tools.

    `spaces` has the number of the namespace of each tool. `vectors` is asked only for texts that could make the
    difference.
    """
    types, hows = _type_table(tables)
    most = _Most(tables, spaces, weights)
    texts_of = Texts(tables, vectors)
    parts: list[tuple[Array, ...]] = []
    for rows, columns, names in _find_meetings(tables):
        kept = _filter_by_type(tables, types, rows, columns, names)
        if not len(kept[0]):
            continue
        # Those that no text could make good are not compared by it.
        more = most.of(*kept[:2])
        promising = _compute_logits(tables, weights, kept, 1.0) + more >= least - _SLACK
        rows, columns, names, fits = kept = [part[promising] for part in kept]
        texts = texts_of.alike(rows, columns)
        logits = _compute_logits(tables, weights, kept, texts)
        good = logits + more[promising] >= least - _SLACK
        how = hows[tables.outputs.shapes[rows], tables.inputs.shapes[columns]]
        parts.append(tuple(part[good] for part in (rows, columns, logits, how, names, fits, texts)))
    return _collect_matches(tables, parts)


class _Most:
    """What the tools, whichever they are, could add at most to the logit of a pair of kinds."""

    def __init__(self, tables: Tables, spaces: Array, weights: MatchWeights) -> None:
        self._weights = weights
        self._scoped = tables.inputs.scoped
        sides = tables.outputs, tables.inputs
        self._tools = [_find_common(side, side.tools) for side in sides]
        self._spaces = [_find_common(side, spaces[side.tools]) for side in sides]

    def of(self, rows: Array, columns: Array) -> Array:
        """For each pair; nothing makes good what only one tool has and takes, for it does not feed itself."""
        weights, (outputs, inputs) = self._weights, self._spaces
        given, taken = outputs[rows], inputs[columns]
        apart = (given >= 0) & (taken >= 0) & (given != taken)
        found: Array = weights.tools + apart * (weights.apart + weights.scoped * self._scoped[columns])
        outputs, inputs = self._tools
        given = outputs[rows]
        found[(given >= 0) & (given == inputs[columns])] = -np.inf
        return found


def _find_common(side: Side, of: Array) -> Array:
    """For each kind what all its values have in common; -1 if it is not one and the same."""
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
    ).astype(np.float32)
    return logits


def _collect_matches(tables: Tables, parts: list[tuple[Array, ...]]) -> Matches:
    empty = (
        [np.zeros(0, np.int32)] * 2 + [np.zeros(0, np.float32), np.zeros(0, np.uint8)] + [np.zeros(0, np.float32)] * 3
    )
    joined = [np.concatenate(columns) for columns in zip(*parts, strict=True)] if parts else empty
    order = np.argsort(joined[0], kind="stable")
    rows, columns, logits, how, names, fits, texts = (part[order] for part in joined)
    offsets = np.zeros(len(tables.outputs.kinds) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(tables.outputs.kinds)), out=offsets[1:])
    return Matches(offsets, columns, logits, how, names, fits, texts, tables.inputs.scoped[columns])


def _find_meetings(tables: Tables) -> Any:
    """Blocks of (output kinds, input kinds, name signal) that share a facet; each pair once."""
    outputs, inputs = tables.outputs, tables.inputs
    order, starts, counts = _join_facets(outputs, inputs)
    if counts.sum() > _BLOCK:
        # So many that they are cut: then a facet that is there twice is put together first.
        outputs, inputs = _deduplicate_facets(outputs), _deduplicate_facets(inputs)
        order, starts, counts = _join_facets(outputs, inputs)
    width = max(1, len(inputs.kinds))
    for begin, end in _cut_blocks(outputs, counts):
        owners, positions = expand_ranges(starts[begin:end], counts[begin:end])
        entries = order[positions]
        signal = outputs.facet_weights[begin:end][owners] * inputs.facet_weights[entries]
        strong = signal >= MIN_NAME
        rows = outputs.facet_kinds[begin:end][owners[strong]].astype(np.int64)
        keys = rows * width + inputs.facet_kinds[entries[strong]]
        signal = signal[strong]
        sort = np.argsort(keys)
        keys, signal = keys[sort], signal[sort]
        runs = first_of(keys)
        if len(runs):
            keys = keys[runs]
            yield (keys // width).astype(np.int32), (keys % width).astype(np.int32), np.maximum.reduceat(signal, runs)


def _join_facets(outputs: Side, inputs: Side) -> tuple[Array, Array, Array]:
    """The rows of facets of inputs by facet, and for each of outputs where the same begin there, and how many."""
    order = np.argsort(inputs.facets)
    wanted = inputs.facets[order]
    begins = first_of(wanted)
    if not len(begins):
        return order, np.zeros(len(outputs.facets), np.int64), np.zeros(len(outputs.facets), np.int64)
    runs = np.minimum(np.searchsorted(wanted[begins], outputs.facets), len(begins) - 1)
    lengths = np.diff(np.append(begins, len(wanted)))
    return order, begins[runs], lengths[runs] * (wanted[begins[runs]] == outputs.facets)


def _deduplicate_facets(side: Side) -> Side:
    """Each facet of a kind once, with its greatest weight."""
    order = np.lexsort((-side.facet_weights, side.facets, side.facet_kinds))
    kinds, facets = side.facet_kinds[order], side.facets[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (kinds[1:] != kinds[:-1]) | (facets[1:] != facets[:-1])
    return side._replace(facets=facets[fresh], facet_kinds=kinds[fresh], facet_weights=side.facet_weights[order][fresh])


def _cut_blocks(outputs: Side, counts: Array) -> Any:
    """Cuts of the facets of outputs, between two kinds, so that each block has a bounded number of meetings."""
    total = np.concatenate(([0], np.cumsum(counts)))
    kinds = np.append(first_of(outputs.facet_kinds), len(outputs.facet_kinds))
    begin = 0
    while begin < len(kinds) - 1:
        limit = total[kinds[begin]] + _BLOCK
        end = int(np.searchsorted(total[kinds], limit, side="right")) - 1
        end = max(end, begin + 1)
        yield int(kinds[begin]), int(kinds[end])
        begin = end


def _type_table(tables: Tables) -> tuple[Array, Array]:
    scores = np.zeros((len(tables.output_shapes), len(tables.input_shapes)), np.float32)
    hows = np.zeros(scores.shape, np.uint8)
    for row, given in enumerate(map(types_of, tables.output_shapes)):
        for column, (wanted, required) in enumerate(tables.input_shapes):
            scores[row, column], how = fit_types(*given, *types_of(wanted), required)
            hows[row, column] = HOWS.index(how)
    return scores, hows


def _filter_by_type(tables: Tables, types: Array, rows: Array, columns: Array, names: Array) -> list[Array]:
    """Those that fit by type, format and listed values, and how well."""
    fits = types[tables.outputs.shapes[rows], tables.inputs.shapes[columns]]
    outputs, inputs = tables.outputs.kinds, tables.inputs.kinds
    special = np.array([bool(form or enum) for form, enum in map(_DETAILS, inputs)], np.bool_)
    for at in np.flatnonzero(special[columns] & (fits > 0)).tolist():
        fits[at] *= details_fit(*_DETAILS(outputs[rows[at]]), *_DETAILS(inputs[columns[at]]))
    good = fits > 0.2
    return [part[good] for part in (rows, columns, names, fits)]
