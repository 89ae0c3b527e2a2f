"""Search: the top five of many tools, compared with one product of the tools' vectors and the query's.

`search` is everything after the query's vectors are computed: candidates by words and by vectors, their features,
ranking and probabilities. `matmul` is one float32 product of all tools' vectors with the vectors of the query's
segments. Rows with `embedding` also compute the query's vectors, which the limit does not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from benchmarks.eval_search import corpus, read_tools
from benchmarks.harness import Row, measure, show
from toolyard import Tool, ToolRegistry
from toolyard.insight.arrays import Matrix, normalise_rows
from toolyard.insight.cache import ItemCache
from toolyard.insight.embeddings.embedder import Embedder, default_embedder
from toolyard.insight.embeddings.vectors import cached_vectors
from toolyard.insight.search import rank
from toolyard.insight.search.candidates import CatalogVectors, IndexView, SearchEmbedder
from toolyard.insight.search.query import Query, QueryVectors, read_query
from toolyard.insight.search.rank import build_table, judge_request, load_weights
from toolyard.insight.search.searcher import ToolIndex

ROOT = Path(__file__).resolve().parents[1]
QUERIES = 40
FIRST = 5
RECALL = 0.95
NOUNS = ("archive", "backup", "cloud", "daily", "export", "fleet", "global", "hosted", "internal", "joint", "keyed")


class Varied:
    """The embedder, except for texts of generated tools, which get vectors near that of their original."""

    def __init__(self, inner: Embedder, cache: ItemCache) -> None:
        self.name, self.version, self.dimensions, self.batch = "varied", inner.version, inner.dimensions, 1024
        self._inner, self._cache = inner, cache

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row per text."""
        rows = cached_vectors(self._inner, [_plain(text) for text in texts], self._cache, "tools")
        for place, text in enumerate(texts):
            if "variant" in text:
                seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
                noise = np.random.default_rng(seed).standard_normal(self.dimensions, np.float32)
                rows[place] += noise * np.float32(0.02)
        return normalise_rows(rows)


def _plain(text: str) -> str:
    """The text of the original of a generated tool, without the name's suffix and the added text."""
    called = re.fullmatch(r"variant ?\d+ (.*) \S+", text)
    if called is not None:
        return called[1]
    before, _, added = text.partition(" variant ")
    if not added.endswith(")"):
        return before
    name, _, description = before.partition(". ")
    return f"{name.rpartition(' ')[0]}. {description} {added[added.index('(') :]}"


def run() -> bool:
    """Measure and print, in a process where matrix products use one thread, as everything else does."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    sys.stdout.flush()
    command = [sys.executable, "-m", "benchmarks.search"]
    return subprocess.run(command, env={**os.environ, **one}, cwd=ROOT).returncode == 0


def main() -> bool:
    """Measure with 10,000 and with 100,000 tools."""
    embedder = default_embedder()
    if embedder is None:
        print("\n## S. search\n\nNOT MEASURED: the weights are not installed; `toolyard embeddings install`")
        return False
    return all([_size(embedder, 10_000), _size(embedder, 100_000)])


def _size(embedder: Embedder, count: int) -> bool:
    meaning = SearchEmbedder(Varied(embedder, ItemCache()), ItemCache(False))
    index = ToolIndex(meaning)
    view = index.view(ToolRegistry(_tools(count)).snapshot)
    known = index.get_vectors(view, wait=True)
    assert known is not None
    queries = [read_query(text) for text in _queries()]
    vectors = [meaning.embed_query(query, known) for query in queries]
    matrix = known.tools
    turn = iter(range(10**9))

    def product() -> object:
        return matrix @ vectors[next(turn) % QUERIES].segments.T

    def search() -> object:
        place = next(turn) % QUERIES
        return _found(queries[place], view, known, vectors[place])

    def whole() -> object:
        query = read_query(queries[next(turn) % QUERIES].text + " ")
        return _found(query, view, known, SearchEmbedder(embedder).embed_query(query, known))

    name = f"{count:,} tools"
    rows = [
        Row(f"matmul, {name}", product, repeat=QUERIES),
        Row(f"search, {name}", search, repeat=QUERIES, limit=f"matmul, {name}"),
        Row(f"search with embedding, {name}", whole, repeat=4, limit=f"matmul, {name}"),
    ]
    measure(rows, 25)
    good = show(f"S. search: the first {FIRST} of {name}", rows)
    recall = _recall(queries, view, known, vectors)
    print(f"recall of the exact ranking's first {FIRST}: {recall:.3f} (goal {RECALL})")
    return good and recall >= RECALL


def _found(query: Query, view: IndexView, known: CatalogVectors, vectors: QueryVectors) -> list[int]:
    table = build_table(query, view, known, vectors, None)
    return [hit.row for hit in judge_request(table, load_weights()["hybrid"], FIRST).hits]


def _recall(queries: list[Query], view: IndexView, known: CatalogVectors, vectors: list[QueryVectors]) -> float:
    """Recall relative to the same search over the postings of every word."""
    found = [_found(query, view, known, vector) for query, vector in zip(queries, vectors, strict=True)]
    usual, rank._MOST_POSTINGS = rank._MOST_POSTINGS, 10**9
    try:
        wanted = [_found(query, view, known, vector) for query, vector in zip(queries, vectors, strict=True)]
    finally:
        rank._MOST_POSTINGS = usual
    shares = [len(set(want) & set(have)) / max(len(want), 1) for want, have in zip(wanted, found, strict=True)]
    return float(np.mean(shares))


def _tools(count: int) -> list[Tool]:
    """Real tools, and generated ones similar to them."""
    real = read_tools(corpus())[:6000]
    made = list(real[:count])
    number = 0
    while len(made) < count:
        base, turn = real[number % len(real)], number // len(real)
        noun, other = NOUNS[turn % len(NOUNS)], NOUNS[turn // len(NOUNS) % len(NOUNS)]
        description = f"{base.description} variant {noun} {other}"
        made.append(base.replace(namespace=f"variant{turn}", name=f"{base.name}_{noun}", description=description))
        number += 1
    return made


def _queries() -> list[str]:
    lines = (corpus() / "queries.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["query"] for line in lines[:: max(len(lines) // QUERIES, 1)]][:QUERIES]


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
