"""Vectors of tools: computing them, and loading them at the next start."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.harness import Row, measure, show
from benchmarks.material import corpus_folder
from toolyard import FileToolLoader, Tool, ToolRegistry
from toolyard.insight.arrays import Matrix
from toolyard.insight.cache import FILE
from toolyard.insight.dataflow.enrichment import DataflowEnrichment
from toolyard.insight.dataflow.match import token_vectors
from toolyard.insight.embeddings.embedder import Embedder, default_embedder
from toolyard.insight.embeddings.vectors import EmbeddingsEnrichment, build_tool_text
from toolyard.insight.neighbors import NeighborsEnrichment
from toolyard.insight.outputs.enrichment import OutputParametersEnrichment

ROOT = Path(__file__).resolve().parents[1]
TOOLS = 10_000
TEXTS = 16


def run() -> bool:
    """Measure and print, in a process where matrix products use one thread, as everything else does."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.insight_vectors"]
    sys.stdout.flush()
    return subprocess.run(command, env={**os.environ, **one}, cwd=ROOT).returncode == 0


def main() -> bool:
    """Run all parts."""
    embedder = default_embedder()
    if embedder is None:
        print("\n## R. vectors\n\nNOT MEASURED: the weights are not installed; `toolyard embeddings install`")
        return False
    tools = _tools()
    good = [_embedding(embedder, tools), _warm_start(_answering(tools)), _whole_start(tools)]
    return all(good)


def _embedding(embedder: Embedder, tools: list[Tool]) -> bool:
    texts = [build_tool_text(tool) for tool in tools[:: len(tools) // TEXTS]][:TEXTS]
    products = _products(sum(len(text) for text in texts) // 4 // len(texts))
    limit = "LIMIT its matrix products in float32"
    rows = [
        Row(limit, products, repeat=len(texts), calls=1),
        Row("embed a tool", lambda: embedder.encode(texts), limit=limit, goal=2.0, calls=len(texts)),
        Row("embed a query", lambda: embedder.encode(["what will the weather be in Paris"]), limit=limit),
    ]
    measure(rows, 5)
    return show("R1. vectors: to make them", rows)


def _products(tokens: int) -> Callable[[], object]:
    """The multiplications that a text of average length needs."""
    random = np.random.default_rng(0)
    state, inner = (random.standard_normal((tokens, width), np.float32) for width in (384, 1536))
    square = [random.standard_normal((384, 384), np.float32) for _ in range(4)]
    wide, back = random.standard_normal((384, 1536), np.float32), random.standard_normal((1536, 384), np.float32)
    return lambda: [([state @ one for one in square], state @ wide, inner @ back) for _ in range(6)]


def _warm_start(tools: list[Tool]) -> bool:
    """Enrichment at a warm start: tools of a catalog, and tools made in code.

    Cached arrays are validated by a hash of all definitions. The goal dates from when sources kept a hash of their
    bytes.
    """
    with tempfile.TemporaryDirectory() as folder:
        catalog = Path(folder) / "tools.jsonl"
        catalog.write_bytes(b"\n".join(orjson.dumps(tool.to_dict()) for tool in tools))
        enrich = _enriching(Path(folder))
        read_in = cycle([FileToolLoader(catalog).load() for _ in range(3)])
        made = cycle([list(ToolRegistry(tools).snapshot.tools) for _ in range(3)])
        enrich(next(read_in))
        enrich(next(made))
        file = Path(folder) / FILE
        limit = f"LIMIT read the cache ({file.stat().st_size / 1e6:.0f} MB) from disk"

        def start(tools: list[Tool]) -> object:
            return [array.sum() for array in _arrays(enrich(tools))]

        rows = [
            Row(limit, lambda: np.fromfile(file, np.uint8)),
            Row(
                f"warm start of {len(tools):,} tools of a catalog", lambda: start(next(read_in)), limit=limit, goal=3.0
            ),
            Row("the same, made in code", lambda: start(next(made)), limit=limit, goal=3.0),
        ]
        _measure_cold(rows, [file], 11)
        return show("R2. vectors: the next start", rows)


def _whole_start(tools: list[Tool]) -> bool:
    """A complete start: tools without output schemas are read, checked, registered and enriched."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = Path(folder) / "tools.jsonl"
        catalog.write_bytes(b"\n".join(orjson.dumps(tool.to_dict()) for tool in tools))
        embedder = _Quick()
        arrays = (EmbeddingsEnrichment, DataflowEnrichment, NeighborsEnrichment)

        def three() -> list[Any]:
            return [kind(model=embedder, cache=folder) for kind in arrays]

        def four() -> list[Any]:
            return [OutputParametersEnrichment(cache=folder), *three()]

        def start(kinds: Callable[[], list[Any]]) -> ToolRegistry:
            return ToolRegistry.from_loaders([FileToolLoader(catalog)], kinds())

        limit = f"LIMIT load {len(tools):,} tools of a catalog"
        rows = [
            Row(limit, lambda: start(list)),
            Row("the same, with embeddings, dataflow and neighbors", lambda: start(three), limit=limit, goal=1.1),
            Row("the same, with output_parameters before", lambda: start(four), limit=limit, goal=1.5),
            Row("the same tools, made in code", lambda: ToolRegistry(tools), limit=limit, goal=1.0),
        ]
        measure(rows, 7)
        return show("R3. the whole of a start", rows)


def _measure_cold(rows: list[Row], files: list[Path], rounds: int) -> None:
    """Like `measure`, with the files evicted from the page cache before each run."""
    for _ in range(rounds):
        for row in rows:
            for file in files:
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
                    os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            gc.collect()
            begin = row.clock()
            row.run()
            row.samples.append(row.clock() - begin)


def _enriching(folder: Path) -> Callable[[list[Tool]], dict[str, Any]]:
    """Run all enrichments as a new process would."""
    embedder = _Quick()

    def enrich(tools: list[Tool]) -> dict[str, Any]:
        view = _View(tools)
        for kind in (EmbeddingsEnrichment, DataflowEnrichment, NeighborsEnrichment):
            _, found = kind(model=embedder, cache=folder).enrich(view)
            view.artifacts.update(found)
        return view.artifacts

    return enrich


def _arrays(artifacts: dict[str, Any]) -> Iterator[NDArray[Any]]:
    """Every array of the artifacts, so that all of them are read from disk."""
    yield artifacts["embeddings"].matrix
    yield from artifacts["dataflow"].arrays
    yield from (*artifacts["neighbors"].rows, *artifacts["neighbors"].same)


class _View:
    def __init__(self, tools: list[Tool]) -> None:
        self.tools = tuple(tools)
        self.artifacts: dict[str, Any] = {}


class _Quick:
    """A cheap embedder with similar vectors for similar texts, so that there are as many edges as usual."""

    name, version, dimensions, batch = "quick", "1", 384, 4096

    def encode(self, texts: list[str]) -> Matrix:
        return np.asarray(token_vectors(texts), np.float32)


def _tools() -> list[Tool]:
    """Ten thousand tools: real ones, repeated under other namespaces if there are not enough."""
    found: list[Tool] = []
    for file in sorted(_catalogs().glob("*.jsonl")):
        loader = FileToolLoader(file, namespace=file.stem, on_error="skip", on_duplicate="skip")
        found += ToolRegistry.from_loaders([loader]).all_tools()
    found = [tool for tool in found if tool.description][:TOOLS]
    repeats = -(-TOOLS // len(found))
    again = [tool.replace(namespace=f"{tool.namespace}_{turn}") for turn in range(1, repeats) for tool in found]
    return [*found, *again][:TOOLS]


def _answering(tools: list[Tool]) -> list[Tool]:
    """The tools with guessed output schemas, as the preceding enrichment leaves them."""
    by_rules = OutputParametersEnrichment(lm_config={"type": "schema"}, cache=False)
    return list(by_rules.enrich(_View(tools))[0])


def _catalogs() -> Path:
    """The full corpus if available, else the shipped sample."""
    return corpus_folder("catalogs")


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
