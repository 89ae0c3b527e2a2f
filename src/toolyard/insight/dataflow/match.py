"""Which kind of output can feed which kind of input: name, type and text, each apart, and together a probability.

Kinds meet where they share a facet, so most pairs are never looked at. For those that meet, and fit by type, the
texts are compared. The weights come from pairs of real tools that were labelled by hand (`make eval-dataflow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolyard.insight.dataflow.artifact import HOWS
from toolyard.insight.dataflow.kinds import picked, types_of
from toolyard.insight.dataflow.tables import Side, Tables, expand, first_of
from toolyard.insight.dataflow.texts import Texts, Vectors
from toolyard.insight.dataflow.types import details_fit, fit
from toolyard.insight.dataflow.weights import Weights

Array = npt.NDArray[Any]

_DETAILS = picked("format", "enum")

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


def match(tables: Tables, spaces: Array, vectors: Vectors, weights: Weights, least: float) -> Matches:
    """Every pair of kinds that could reach the logit `least` between some two tools.

    `spaces` has the number of the namespace of each tool. `vectors` is asked only for texts that could make the
    difference.
    """
    types, hows = _type_table(tables)
    most = _Most(tables, spaces, weights)
    texts_of = Texts(tables, vectors)
    parts: list[tuple[Array, ...]] = []
    for rows, columns, names in _meetings(tables):
        kept = _typed(tables, types, rows, columns, names)
        if not len(kept[0]):
            continue
        # Those that no text could make good are not compared by it.
        more = most.of(*kept[:2])
        promising = _logits(tables, weights, kept, 1.0) + more >= least - _SLACK
        rows, columns, names, fits = kept = [part[promising] for part in kept]
        texts = texts_of.alike(rows, columns)
        logits = _logits(tables, weights, kept, texts)
        good = logits + more[promising] >= least - _SLACK
        how = hows[tables.outputs.shapes[rows], tables.inputs.shapes[columns]]
        parts.append(tuple(part[good] for part in (rows, columns, logits, how, names, fits, texts)))
    return _matches(tables, parts)


class _Most:
    """What the tools, whichever they are, could add at most to the logit of a pair of kinds."""

    def __init__(self, tables: Tables, spaces: Array, weights: Weights) -> None:
        self._weights = weights
        self._scoped = tables.inputs.scoped
        sides = tables.outputs, tables.inputs
        self._tools = [_sole(side, side.tools) for side in sides]
        self._spaces = [_sole(side, spaces[side.tools]) for side in sides]

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


def _sole(side: Side, of: Array) -> Array:
    """For each kind what all its values have in common; -1 if it is not one and the same."""
    if not len(side.kinds):
        return np.zeros(0, np.int32)
    of, starts = of[side.by_kind], side.kind_offsets[:-1]
    least: Array = np.minimum.reduceat(of, starts)
    return np.where(least == np.maximum.reduceat(of, starts), least, -1)


def _logits(tables: Tables, weights: Weights, pairs: Sequence[Array], texts: Array | float) -> Array:
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


def _matches(tables: Tables, parts: list[tuple[Array, ...]]) -> Matches:
    empty = (
        [np.zeros(0, np.int32)] * 2 + [np.zeros(0, np.float32), np.zeros(0, np.uint8)] + [np.zeros(0, np.float32)] * 3
    )
    joined = [np.concatenate(columns) for columns in zip(*parts, strict=True)] if parts else empty
    order = np.argsort(joined[0], kind="stable")
    rows, columns, logits, how, names, fits, texts = (part[order] for part in joined)
    offsets = np.zeros(len(tables.outputs.kinds) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(tables.outputs.kinds)), out=offsets[1:])
    return Matches(offsets, columns, logits, how, names, fits, texts, tables.inputs.scoped[columns])


def _meetings(tables: Tables) -> Any:
    """Blocks of (output kinds, input kinds, name signal) that share a facet; each pair once."""
    outputs, inputs = tables.outputs, tables.inputs
    order, starts, counts = _places(outputs, inputs)
    if counts.sum() > _BLOCK:
        # So many that they are cut: then a facet that is there twice is put together first.
        outputs, inputs = _once(outputs), _once(inputs)
        order, starts, counts = _places(outputs, inputs)
    width = max(1, len(inputs.kinds))
    for begin, end in _blocks(outputs, counts):
        owners, positions = expand(starts[begin:end], counts[begin:end])
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


def _places(outputs: Side, inputs: Side) -> tuple[Array, Array, Array]:
    """The rows of facets of inputs by facet, and for each of outputs where the same begin there, and how many."""
    order = np.argsort(inputs.facets)
    wanted = inputs.facets[order]
    begins = first_of(wanted)
    if not len(begins):
        return order, np.zeros(len(outputs.facets), np.int64), np.zeros(len(outputs.facets), np.int64)
    runs = np.minimum(np.searchsorted(wanted[begins], outputs.facets), len(begins) - 1)
    lengths = np.diff(np.append(begins, len(wanted)))
    return order, begins[runs], lengths[runs] * (wanted[begins[runs]] == outputs.facets)


def _once(side: Side) -> Side:
    """Each facet of a kind once, with its greatest weight."""
    order = np.lexsort((-side.facet_weights, side.facets, side.facet_kinds))
    kinds, facets = side.facet_kinds[order], side.facets[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (kinds[1:] != kinds[:-1]) | (facets[1:] != facets[:-1])
    return side._replace(facets=facets[fresh], facet_kinds=kinds[fresh], facet_weights=side.facet_weights[order][fresh])


def _blocks(outputs: Side, counts: Array) -> Any:
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
            scores[row, column], how = fit(*given, *types_of(wanted), required)
            hows[row, column] = HOWS.index(how)
    return scores, hows


def _typed(tables: Tables, types: Array, rows: Array, columns: Array, names: Array) -> list[Array]:
    """Those that fit by type, format and listed values, and how well."""
    fits = types[tables.outputs.shapes[rows], tables.inputs.shapes[columns]]
    outputs, inputs = tables.outputs.kinds, tables.inputs.kinds
    special = np.array([bool(form or enum) for form, enum in map(_DETAILS, inputs)], np.bool_)
    for at in np.flatnonzero(special[columns] & (fits > 0)).tolist():
        fits[at] *= details_fit(*_DETAILS(outputs[rows[at]]), *_DETAILS(inputs[columns[at]]))
    good = fits > 0.2
    return [part[good] for part in (rows, columns, names, fits)]
