"""`python -m benchmarks.eval_samplers [DRAWS] [FOLDER]`: every sampler over real catalogs.

For each sampler: `DRAWS` draws (10,000) over every catalog and all of them together, with output schemas guessed by
rules, and the dataflow and neighbors derived from them. A draw is whole (exactly k tools of different names), refused
(a `SamplingError`, because the catalog has no such sample), short, or broken (any other exception). The last column
says whether processes with other hash seeds, and threads, drew the same. Below: how often `tc/chain` finds a chain of 4
where an exhaustive search shows that there is one. Exits 1 if a list was short, a draw broken, a repetition different,
or more than one chain in a hundred missed. Without FOLDER: the corpus named by `TOOLYARD_CORPUS`, or the one beside the
project, or the sample in `tests/data`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.material import corpus_folder
from toolyard import FileToolLoader, SamplingError, ToolRegistry, ToolSampler, get_tool_enrichment, get_tool_sampler
from toolyard.insight.base import track_progress
from toolyard.insight.embeddings.embedder import default_embedder
from toolyard.insight.samplers.snapshot_view import compare_words
from toolyard.plugins import SAMPLERS as SAMPLER_CLASSES

DRAWS = 10_000
CHECKED = 20
"""One draw in this many is repeated in other processes and threads."""
HASH_SEEDS = ("1", "777")
SCORES = (0.0, 0.6, 0.8, 0.9, 0.95)
SAMPLERS: dict[str, dict[str, Any]] = {
    "tc/random": {"strategy": "uniform"},
    "tc/chain": {},
    "tc/fan_out": {},
    "tc/fan_in": {},
    "tc/dag": {},
    "tc/neighbor": {"temperature": 0.1},
    "tc/sparse": {"sampler": {"type": "tc/mix", "samplers": ["tc/chain", "tc/random"]}, "hardness": 0.8},
    "tc/conflict": {},
    "tc/irrelevant": {"hardness": 0.8},
    "tc/missing": {},
    "tc/coverage": {"sampler": "tc/random"},
    "tc/mix": {"samplers": [{"sampler": {"type": "tc/chain"}, "weight": 2}, "tc/fan_out", "tc/dag", "tc/random"]},
}
SIZES = (2, 3, 4, 6)


class WordVectors:
    """A bag-of-words embedder, for machines without model weights."""

    writes = ("embeddings",)

    def enrich(self, snapshot: Any) -> tuple[Any, dict[str, Any]]:
        """Return the tools unchanged, with word vectors as artifact."""
        rows = compare_words(snapshot.tools).vectors
        names = zip(snapshot.tools, np.asarray(rows), strict=True)
        found: dict[str, Any] = {}
        for tool, row in names:
            found.setdefault(tool.qualified_name, {})[tool.fingerprint] = row
        return snapshot.tools, {"embeddings": found}


@dataclass
class Score:
    """Outcomes of the draws of one sampler."""

    whole: int = 0
    refused: int = 0
    short: int = 0
    broken: int = 0
    seconds: float = 0.0
    why: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Add the counts of another score."""
        for name in ("whole", "refused", "short", "broken", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.why += other.why
        self.faults += other.faults
        self.digests += other.digests


def yards(folder: Path | None) -> dict[str, ToolRegistry]:
    """Each catalog with its enrichments, and all of them together."""
    files = sorted((folder or _catalogs()).glob("*.jsonl"))
    by_name = {path.stem: [path] for path in files}
    if len(files) > 1:
        by_name["all"] = files
    return {
        name: _yard(paths) for name, paths in track_progress(list(by_name.items()), "studying catalogs", len(by_name))
    }


def _yard(paths: Sequence[Path]) -> ToolRegistry:
    skip: dict[str, Any] = {"on_error": "skip", "on_duplicate": "skip"}
    loaders = [FileToolLoader(str(path), namespace=path.stem, **skip) for path in paths]
    vectors = WordVectors() if default_embedder() is None else get_tool_enrichment("embeddings")
    names = ("dataflow", "neighbors")
    rules = get_tool_enrichment("output_parameters", lm_config={"type": "schema"})
    return ToolRegistry.from_loaders(loaders, [rules, vectors, *map(get_tool_enrichment, names)])


def _catalogs() -> Path:
    return corpus_folder("catalogs")


def score_of(sampler: ToolSampler[Any], draws: int, *, threads: int = 1) -> Score:
    """The outcomes of a sampler for seeds 0 to `draws` - 1."""
    score = Score()
    begun = time.perf_counter()
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            outcomes: Iterator[Any] = iter(list(pool.map(lambda seed: _outcome(sampler, seed), range(draws))))
    else:
        outcomes = (_outcome(sampler, seed) for seed in range(draws))
    for seed, outcome in enumerate(outcomes):
        _judge(score, outcome, SIZES[seed % len(SIZES)])
    score.seconds = time.perf_counter() - begun
    return score


def _outcome(sampler: ToolSampler[Any], seed: int) -> Any:
    try:
        return sampler.sample(SIZES[seed % len(SIZES)], seed=seed)
    except Exception as error:  # noqa: BLE001 (what is thrown is what is measured)
        return error


def _judge(score: Score, outcome: Any, k: int) -> None:
    if isinstance(outcome, SamplingError):
        score.refused += 1
        score.why[str(outcome).rpartition(": ")[2]] += 1
        told: Any = (str(outcome), [tool.qualified_name for tool in outcome.tools])
    elif isinstance(outcome, Exception):
        score.broken += 1
        score.faults.append(f"{type(outcome).__name__}: {outcome}")
        told = str(outcome)
    else:
        names = {tool.qualified_name for tool in outcome}
        whole = len(outcome) == k and (len(names) == k or outcome.topology == "set")
        score.whole += whole
        score.short += not whole
        told = outcome.to_dict()
    score.digests.append(blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).digest())


def run(kind: str, made: dict[str, ToolRegistry], each: int, *, threads: int = 1) -> Score:
    """Run a sampler `each` times over every yard."""
    total = Score()
    for yard in yards_for(kind, made):
        sampler = get_tool_sampler(kind, registry=made[yard], **SAMPLERS[kind])
        total.add(score_of(sampler, each, threads=threads))
    return total


def yards_for(kind: str, made: dict[str, ToolRegistry]) -> list[str]:
    """Names of the yards to try a sampler on: chains need a yard with dataflow edges."""
    if "dataflow" not in SAMPLER_CLASSES.get(kind).required_artifacts:
        return list(made)
    return [name for name, registry in made.items() if registry.artifacts["dataflow"].edge_count]


def digest(score: Score, yards_drawn: int, each: int) -> str:
    """Hash of the first `each` draws over every yard."""
    of = max(1, len(score.digests) // yards_drawn)
    parts = [b"".join(score.digests[start : start + each]) for start in range(0, len(score.digests), of)]
    return blake2b(b"".join(parts), digest_size=8).hexdigest()


def digests(made: dict[str, ToolRegistry], each: int, *, threads: int = 1) -> dict[str, str]:
    """For each sampler, the hash of `each` draws over every yard."""
    return {
        kind: digest(run(kind, made, each, threads=threads), len(yards_for(kind, made)), each)
        for kind in track_progress(SAMPLERS, "repeating draws", len(SAMPLERS))
    }


def elsewhere(arguments: list[str], each: int) -> list[subprocess.Popen[str]]:
    """Start processes that repeat the draws and print their hashes."""
    return [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.eval_samplers", *arguments, f"--only={each}"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in HASH_SEEDS
    ]


def chain_exists(registry: ToolRegistry, k: int, least: float) -> bool:
    """Whether a chain of k tools exists, by exhaustive search, independently of the sampler."""
    flow = registry.artifacts["dataflow"]
    tools = registry.all_tools()
    after = [
        [b for b, score in flow.out_edges(a) if score >= least and tools[b].qualified_name != tools[a].qualified_name]
        for a in range(len(tools))
    ]

    def longer(path: list[int]) -> bool:
        if len(path) == k:
            return True
        used = {tools[place].qualified_name for place in path}
        return any(tools[b].qualified_name not in used and longer([*path, b]) for b in after[path[-1]])

    return any(longer([start]) for start in range(len(tools)))


def chain_rates(made: dict[str, ToolRegistry], draws: int) -> tuple[list[str], float]:
    """Rows of the table, and the lowest success rate among yards that have a chain."""
    rows, lowest = [], 1.0
    for name, registry in made.items():
        for least in SCORES:
            sampler = get_tool_sampler("tc/chain", registry=registry, k=4, min_score=least)
            exists = chain_exists(registry, 4, least)
            found = sum(not isinstance(_outcome_of(sampler, seed), Exception) for seed in range(draws))
            if exists:
                lowest = min(lowest, found / draws)
            rows.append(f"| {name} | {least} | {'yes' if exists else 'no'} | {100 * found / draws:.2f}% |")
    return rows, lowest


def _outcome_of(sampler: ToolSampler[Any], seed: int) -> Any:
    try:
        return sampler.sample(seed=seed)
    except SamplingError as error:
        return error


def coverage(registry: ToolRegistry, kind: str, k: int = 4) -> str:
    """How many of the reachable tools a series of `tc/coverage` covers, and in how many samples."""
    sampler = get_tool_sampler("tc/coverage", registry=registry, k=k, sampler=kind)
    seen: set[tuple[str, str]] = set()
    number, last = 0, 0
    for number, sample in enumerate(sampler.series(2 * len(registry), seed=1), 1):
        before = len(seen)
        seen.update((tool.qualified_name, tool.fingerprint) for tool in sample)
        last = number if len(seen) > before else last
        if len(seen) == len(registry) or number - last > 50:
            break
    # For each uncovered tool, check that no sample can contain it.
    inner = get_tool_sampler(kind, registry=registry)
    left = [at for at, tool in enumerate(registry) if (tool.qualified_name, tool.fingerprint) not in seen]
    missed = sum(not isinstance(_anchored(inner, registry, k, place), Exception) for place in left)
    could = len(seen) + missed
    share = f"{len(seen):,} ({100 * len(seen) / could:.2f}%)"
    return f"| {kind} | {could:,} of {len(registry):,} | {share} | {last:,} | {-(-len(seen) // k):,} |"


def _anchored(sampler: ToolSampler[Any], registry: ToolRegistry, k: int, place: int) -> Any:
    try:
        return sampler.sample_from(registry.snapshot, {"k": k, "seed": 1}, anchor=place)
    except SamplingError as error:
        return error


def main(arguments: list[str]) -> int:
    """Print the tables; 1 if a check failed."""
    plain = [argument for argument in arguments if not argument.startswith("--only=")]
    draws = int(plain[0]) if plain else DRAWS
    made = yards(Path(plain[1]) if len(plain) > 1 else None)
    only = next((int(argument.partition("=")[2]) for argument in arguments if argument.startswith("--only=")), 0)
    if only:
        print(json.dumps(digests(made, only)))
        return 0
    _print_yards(made)
    each = max(1, draws // CHECKED // len(made))
    workers = elsewhere(plain, each)
    others = [digests(made, each, threads=8), *(json.loads(worker.communicate()[0]) for worker in workers)]
    print("| sampler | draws | whole | refused | short | broken | ms a draw | the same elsewhere |")
    print("|---|---:|---:|---:|---:|---:|---:|---|", flush=True)
    good = True
    for kind in track_progress(SAMPLERS, "drawing", len(SAMPLERS)):
        over = len(yards_for(kind, made))
        score = run(kind, made, -(-draws // over))
        same = all(other[kind] == digest(score, over, each) for other in others)
        good = good and same and not score.short and not score.broken
        _print_score(kind, score, same)
    rows, lowest = chain_rates(made, max(1, draws // 100))
    print("\n| catalog | min_score | a chain of 4 exists | found |\n|---|---:|---|---:|", *rows, sep="\n", flush=True)
    print("\n| tc/coverage of | can be in a sample | reached | samples | the least possible |")
    print("|---|---:|---:|---:|---:|")
    for kind in ("tc/random", "tc/chain"):
        print(coverage(made[list(made)[-1]], kind), flush=True)
    return 0 if good and lowest >= 0.99 else 1


def _print_yards(made: dict[str, ToolRegistry]) -> None:
    print(f"catalogs: {', '.join(f'{name} ({len(registry):,})' for name, registry in made.items())}")
    edges = {name: registry.artifacts["dataflow"].edge_count for name, registry in made.items()}
    print(f"edges: {', '.join(f'{name} {count:,}' for name, count in edges.items())}")
    left_out = [name for name, count in edges.items() if not count]
    if left_out:
        print(f"left out where a sampler needs edges: {', '.join(left_out)}")
    print(flush=True)


def _print_score(kind: str, score: Score, same: bool) -> None:
    count = score.whole + score.refused + score.short + score.broken
    cells = [kind, f"{count:,}", f"{score.whole:,}", f"{score.refused:,}", str(score.short), str(score.broken)]
    time_each = f"{1000 * score.seconds / count:.2f}"
    print("| " + " | ".join([*cells, time_each, "yes" if same else "NO"]) + " |", flush=True)
    for fault in score.faults[:5]:
        print(f"  {kind}: {fault}", file=sys.stderr)
    for why, number in score.why.most_common(3):
        print(f"  {kind} refused {number:,}: {why}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
