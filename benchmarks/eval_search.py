"""`python -m benchmarks.eval_search [--fit] [--lexical]`: how well search finds tools, on labelled queries.

Every query is asked twice: as it is, and with its right tools taken away, when the right answer is nothing. Printed for
each source of queries: hit@1, recall@5 (right tools among the first five, of at most five), MRR; then what is still
offered at the threshold where at most one query in ten without an answer is offered something.

    shipped      the weights in toolyard/insight/search/rank.py, which were fitted on all of these queries
    halves       weights fitted on one half of the queries and tried on the other, both ways
    as asked     what `registry.search(query, k=5)` returns, with no option: what hardly fits is left out. Then how
                 often it offers something for the words of a tool's name, and for what no tool does
    small        the same as halves, each query asked of a random part of the catalog, 4 to 2,000 tools
    x-source     weights fitted on two of the three sources and tried on the third

The corpus is the one named by `TOOLYARD_CORPUS`, or the one beside the project, or the sample in `tests/data`. Vectors
are kept in the cache folder, so a second run is fast. `--fit` prints new weights. Exits 1 if a goal is missed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.material import chosen_embedder, corpus_folder
from benchmarks.search_fit import Array, fit_chance, fit_ranking
from toolyard import Tool, ToolRegistry
from toolyard.insight.cache import ItemCache
from toolyard.insight.embeddings.embedder import Embedder, Matrix
from toolyard.insight.embeddings.vectors import cached_vectors
from toolyard.insight.search.candidates import Meaning
from toolyard.insight.search.query import read_query, words
from toolyard.insight.search.rank import (
    HYBRID_WEIGHTS,
    LEXICAL_WEIGHTS,
    RankWeights,
    Table,
    collect_evidence,
    compute_probabilities,
    order_rows,
    table_of,
)
from toolyard.insight.search.searcher import Searcher, ToolIndex

ROOT = Path(__file__).resolve().parents[1]
FALSE_OFFERS = 0.10
MARGIN = 0.01
"""For queries that the fit has not seen."""
SMALL = (4, 2000)
"""Tools of a small catalog, at least and at most."""
NAMES = 400
NOTHING = ROOT / "tests" / "data" / "retrieval" / "nothing.txt"
"""Short queries that hardly any catalog has a tool for."""
GOALS = {"hit@1": 0.65, "recall@5": 0.77, "kept": 0.50}


@dataclass
class Asked:
    """One query, and what the index has for it."""

    source: str
    right: int
    """How many tools are right."""
    table: Table
    is_right: NDArray[np.bool_]
    without: Table
    """The candidates when the right tools are taken away."""
    small: Asked | None = None
    """The same query, asked of a small part of the catalog."""


@dataclass
class Scores:
    """What came of some queries."""

    source: list[str] = field(default_factory=list)
    hit: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)
    rank: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    """The highest chance of any of the first five."""
    found: list[int] = field(default_factory=list)
    """Right tools among the first five."""
    best_without: list[float] = field(default_factory=list)


class KeptEmbedder:
    """An embedder whose vectors are kept, so that the queries are embedded once."""

    def __init__(self, inner: Embedder, cache: ItemCache) -> None:
        self.name, self.version, self.dimensions, self.batch = inner.name, inner.version, inner.dimensions, inner.batch
        self._inner, self._cache = inner, cache

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row a text."""
        return cached_vectors(self._inner, texts, self._cache, "queries")


def main(arguments: Sequence[str]) -> int:
    """Print the figures; 1 if a goal is missed."""
    folder = corpus()
    modes = [True] if "--lexical" in arguments else [False, True]
    missed = False
    for lexical in modes:
        asked = collected(folder, lexical)
        if asked is None:
            print("the embedding weights are not installed (`toolyard embeddings install`): words alone are compared")
            continue
        print(f"\n{'lexical' if lexical else 'hybrid'}: {len(asked)} queries, {folder}")
        if "--fit" in arguments:
            print_weights(fitted(asked))
            continue
        missed |= _reported(asked, LEXICAL_WEIGHTS if lexical else HYBRID_WEIGHTS, goals=not lexical)
        missed |= as_asked(folder, lexical)
    return int(missed)


def corpus() -> Path:
    """The folder with `catalog.jsonl` and `queries.jsonl`."""
    return corpus_folder("retrieval")


def read_tools(folder: Path) -> list[Tool]:
    """The catalog; its schemas are read as they are."""
    lines = [json.loads(line) for line in (folder / "catalog.jsonl").read_text("utf-8").splitlines()]
    return [
        Tool(line["name"], line["qualified_name"].partition("::")[0], line["description"], line["parameters"])
        for line in lines
    ]


def collected(folder: Path, lexical: bool) -> list[Asked] | None:
    """The candidates of every query; None if there is no embedder."""
    tools = read_tools(folder)
    cache = ItemCache()
    inner = chosen_embedder()
    if not lexical and inner is None:
        return None
    meaning = None if lexical or inner is None else Meaning(KeptEmbedder(inner, cache), cache)
    index = ToolIndex(meaning)
    view = index.view(ToolRegistry(tools).snapshot)
    known = index.known(view, wait=True)
    places = {tool.qualified_name: place for place, tool in enumerate(tools)}
    asked: list[Asked] = []
    generator = np.random.default_rng(1)
    for text in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        line = json.loads(text)
        right = [places[name] for name in line["relevant"]]
        query = read_query(line["query"])
        vectors = None if known is None or meaning is None else meaning.of_query(query, known)
        where = np.ones(len(tools), np.bool_)
        where[right] = False
        table = table_of(query, view, known, vectors, None)
        without = table_of(query, view, known, vectors, where)
        source = line["source"].partition("_")[0]
        asked.append(Asked(source, len(right), table, np.isin(table.rows, right), without))
        some = generator.random(len(tools)) < np.exp(generator.uniform(*np.log(SMALL))) / len(tools)
        without = table_of(query, view, known, vectors, some & where)
        some[right] = True
        table = table_of(query, view, known, vectors, some)
        asked[-1].small = Asked(source, len(right), table, np.isin(table.rows, right), without)
    return asked


def as_asked(folder: Path, lexical: bool) -> bool:
    """Print what the plain call gives; True if a goal is missed."""
    inner = chosen_embedder()
    kept = None if lexical or inner is None else KeptEmbedder(inner, ItemCache())
    snapshot = ToolRegistry(read_tools(folder)).snapshot
    searcher = Searcher(kept, lexical=lexical)
    hits, recalls, nothing = [], [], 0
    for text in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        line = json.loads(text)
        found = [hit.tool.qualified_name for hit in searcher.search(snapshot, line["query"])]
        right = set(line["relevant"])
        hits.append(bool(found) and found[0] in right)
        recalls.append(len(right & set(found)) / min(5, len(right)))
        nothing += not found
    hit, recall = float(np.mean(hits)), float(np.mean(recalls))
    print(f"{'as asked':10} {'all':10} {len(hits):7} {hit:6.3f} {recall:6.3f}; nothing for {nothing}")
    for title, queries in (
        ("names", _names_as_words(snapshot.tools)),
        ("no task", NOTHING.read_text("utf-8").splitlines()),
    ):
        offered = np.mean([bool(searcher.search(snapshot, query)) for query in queries])
        print(f"{'as asked':10} {title:10} {len(queries):7}; something for {offered:.3f}")
    return not lexical and (hit < GOALS["hit@1"] or recall < GOALS["recall@5"])


def _names_as_words(tools: Sequence[Tool]) -> list[str]:
    """What somebody types who half remembers a tool: the words of its name."""
    some = np.random.default_rng(2).choice(len(tools), min(NAMES, len(tools)), replace=False)
    return [" ".join(words(tools[place].name)) for place in some]


def fitted(asked: Sequence[Asked]) -> RankWeights:
    """Weights for these queries; the threshold too."""
    rank = fit_ranking([each.table.values.astype(np.float64) for each in asked], [each.is_right for each in asked])
    weights = RankWeights(tuple(rank), (), 0.5, 0.1)
    rows: list[Array] = []
    right: list[NDArray[np.bool_]] = []
    for each in [one for whole in asked for one in (whole, whole.small) if one is not None]:
        for table, known in ((each.table, each.is_right), (each.without, np.zeros(len(each.without.rows), np.bool_))):
            if len(table.rows):
                order, scores = order_rows(table, weights)
                rows.append(collect_evidence(table, order, scores, 5))
                right.append(known[order[:5]])
    counts = np.concatenate([np.where(np.arange(len(part)) == 0, 1.0, 0.5) for part in rows])
    offer = fit_chance(np.concatenate(rows), np.concatenate(right), counts)
    weights = RankWeights(tuple(rank), tuple(offer), 0.5, 0.1)
    return RankWeights(weights.rank, weights.offer, threshold_of(scored(asked, weights)), 0.1)


def scored(asked: Sequence[Asked], weights: RankWeights) -> Scores:
    """How the weights do on some queries."""
    result = Scores()
    for each in asked:
        best, order = _best(each.table, weights)
        right = each.is_right[order]
        first = np.flatnonzero(right)
        result.source.append(each.source)
        result.hit.append(float(len(right) > 0 and right[0]))
        result.recall.append(float(right[:5].sum()) / min(5, each.right))
        result.rank.append(1 / (1 + int(first[0])) if len(first) else 0.0)
        result.found.append(int(right[:5].sum()))
        result.best.append(best)
        result.best_without.append(_best(each.without, weights)[0])
    return result


def _best(table: Table, weights: RankWeights) -> tuple[float, NDArray[np.intp]]:
    if not len(table.rows):
        return 0.0, np.empty(0, np.intp)
    order, scores = order_rows(table, weights)
    return float(compute_probabilities(collect_evidence(table, order, scores, 5), weights).max()), order


def threshold_of(scores: Scores) -> float:
    """The lowest at which no more than a tenth of the queries without an answer are offered something."""
    return float(np.quantile(scores.best_without, 1 - FALSE_OFFERS + MARGIN)) + 1e-6


def joined(parts: Sequence[Scores]) -> Scores:
    """Several as one."""
    whole = Scores()
    for part in parts:
        for name, values in vars(part).items():
            getattr(whole, name).extend(values)
    return whole


def tried(asked: Sequence[Asked], groups: Sequence[str], *, small: bool = False) -> Scores:
    """Weights fitted on all groups but one, tried on that one, for each; chances moved so that 0.5 is the threshold."""
    every = []
    for group in dict.fromkeys(groups):
        mine = [each for each, other in zip(asked, groups, strict=True) if other == group]
        weights = fitted([each for each, other in zip(asked, groups, strict=True) if other != group])
        scores = scored([each.small for each in mine if each.small] if small else mine, weights)
        scores.best = [value - weights.threshold + 0.5 for value in scores.best]
        scores.best_without = [value - weights.threshold + 0.5 for value in scores.best_without]
        every.append(scores)
    return joined(every)


def _reported(asked: Sequence[Asked], shipped: RankWeights, *, goals: bool) -> bool:
    titles = " ".join(f"{title:>6}" for title in ("hit@1", "rec@5", "MRR", "|false", "kept@1", "kept@5"))
    print(f"{'':10} {'source':10} {'queries':>7} {titles}")
    print_rows("shipped", scored(asked, shipped), shipped.threshold)
    generator = np.random.default_rng(0)
    halves = ["a" if one else "b" for one in generator.random(len(asked)) < 0.5]
    overall = print_rows("halves", tried(asked, halves), 0.5)
    print_rows("small", tried(asked, halves, small=True), 0.5)
    print_rows("x-source", tried(asked, [each.source for each in asked]), 0.5)
    if not goals:
        return False
    missed = [name for name, least in GOALS.items() if overall[name] < least]
    print(
        f"goals ({', '.join(f'{name} >= {least}' for name, least in GOALS.items())}): {', '.join(missed) or 'all met'}"
    )
    return bool(missed)


def print_rows(name: str, scores: Scores, threshold: float) -> dict[str, float]:
    """A line for each source and one for all; the figures of the last."""
    figures: dict[str, float] = {}
    source = np.array(scores.source)
    for wanted in ["all", *dict.fromkeys(scores.source)]:
        mine = np.ones(len(source), np.bool_) if wanted == "all" else source == wanted
        found = _figures(scores, mine, threshold)
        figures = figures or found
        cells = " ".join(f"{found[key]:6.3f}" for key in ("hit@1", "recall@5", "MRR"))
        offers = " ".join(f"{found[key]:6.3f}" for key in ("false", "kept", "kept@5"))
        print(f"{name:10} {wanted:10} {mine.sum():7} {cells} {offers}")
    return figures


def _figures(scores: Scores, mine: NDArray[np.bool_], threshold: float) -> dict[str, float]:
    pick: Callable[[list[float]], Array] = lambda values: np.asarray(values, np.float64)[mine]  # noqa: E731
    offered = pick(scores.best) >= threshold
    hit, found = pick(scores.hit), np.asarray(scores.found, np.float64)[mine]
    return {
        "hit@1": hit.mean(),
        "recall@5": pick(scores.recall).mean(),
        "MRR": pick(scores.rank).mean(),
        "false": (pick(scores.best_without) >= threshold).mean(),
        "kept": offered[hit > 0].mean() if hit.any() else 0.0,
        "kept@5": (found * offered).sum() / max(found.sum(), 1.0),
    }


def print_weights(weights: RankWeights) -> None:
    """As they are written in the source."""
    for name in ("rank", "offer"):
        print(f"    {name}=({', '.join(f'{value:.4g}' for value in getattr(weights, name))}),")
    print(f"    threshold={weights.threshold:.3f},\n    others={weights.others},")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
