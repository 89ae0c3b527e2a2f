"""`python -m benchmarks.eval_dataflow [--errors] [--fit] [--sample N --seed S --half NAME]`: dataflow quality.

`tests/data/dataflow_edges/` has two halves, `fitted` and `kept`, and a third part, `fresh`. Each has catalogs, edges
labelled from the catalog alone (`edges.jsonl`: source, output, target, parameter, kind of value), and wrong edges
(`not_edges.jsonl`). Rules and weights were developed on `fitted` and on `judged.jsonl`, emitted edges of `fitted` that
were judged one by one; the other parts are only run when a round of rules is done. The older
`tests/data/dataflow_pairs.jsonl` has pairs of real tools, labelled with whether the first can feed the second. Edges
are found with the shipped options. Exits 1 if a part of `dataflow_edges` has a recall below .75, or the pairs a
precision below .9 or a recall below .8.

`--errors` lists missing and wrong edges of `fitted` and of the pairs marked `tune`, `--fit` refits the weights and
prints them, `--sample` prints random edges of a half as JSON lines, for judging.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolyard import ToolRegistry
from toolyard.insight.arrays import Array
from toolyard.insight.cache import ItemCache
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.dataflow.enrichment import NEIGHBORS, EdgeLimits, compute_edges
from toolyard.insight.dataflow.match import (
    MIN_SCORE,
    MODEL,
    TOKENS,
    MatchWeights,
    build_tables,
    match_kinds,
    token_vectors,
)
from toolyard.insight.dataflow.paths import read_fields
from toolyard.insight.dataflow.profile import read_profile
from toolyard.insight.embeddings.embedder import default_embedder
from toolyard.insight.embeddings.vectors import cached_vectors
from toolyard.model.tool import Tool

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
PAIRS, EDGES = DATA / "dataflow_pairs.jsonl", DATA / "dataflow_edges"
PRECISION, RECALL = 0.9, 0.8
HALF_RECALL = 0.75
PARTS = ("fitted", "kept", "fresh")


class Pair(NamedTuple):
    """One labelled pair."""

    source: Tool
    target: Tool
    label: bool
    reason: str
    half: str
    outputs: str


class Half(NamedTuple):
    """Catalogs with their expected edges."""

    catalogs: dict[str, list[Tool]]
    edges: list[dict[str, str]]
    wrong: list[dict[str, str]]


class TextVectors:
    """Vectors of texts, each computed once."""

    def __init__(self, *, tokens: bool) -> None:
        self.embedder = None if tokens else default_embedder()
        self.known: dict[str, Array] = {}

    @property
    def tokens(self) -> bool:
        """Whether texts are compared by words."""
        return self.embedder is None

    def learn(self, texts: Sequence[str]) -> None:
        """Compute many vectors at once."""
        new = sorted(set(texts) - self.known.keys())
        rows = token_vectors(new) if self.embedder is None else cached_vectors(self.embedder, new, ItemCache(None))
        self.known.update(zip(new, rows, strict=True))

    def __call__(self, texts: Sequence[str]) -> Array:
        """One row per text."""
        self.learn(texts)
        return np.stack([self.known[text] for text in texts]) if texts else np.zeros((0, 1), np.float32)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines; empty if the file does not exist."""
    if not path.exists():
        return []
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.split(b"\n") if line]


def read_pairs(path: Path = PAIRS) -> list[Pair]:
    """Every labelled pair."""
    pairs = []
    for row in read_lines(path):
        source, target = ({k: v for k, v in row[side].items() if k != "file"} for side in ("source", "target"))
        pairs.append(Pair(Tool(**source), Tool(**target), row["label"], row["reason"], row["half"], row["outputs"]))
    return pairs


def read_half(name: str) -> Half:
    """One half of the expected edges."""
    edges, wrong = read_lines(EDGES / name / "edges.jsonl"), read_lines(EDGES / name / "not_edges.jsonl")
    catalogs = {
        catalog: ToolRegistry.from_dicts(read_lines(EDGES / name / "catalogs" / f"{catalog}.jsonl.gz")).all_tools()
        for catalog in sorted({row["catalog"] for row in (*edges, *wrong)})
    }
    return Half(catalogs, edges, wrong)


def find_flow(tools: Sequence[Tool], vectors: TextVectors, limits: EdgeLimits) -> Dataflow:
    """The edges among tools."""
    profiles = [read_profile(tool) for tool in tools]
    return Dataflow(tools, compute_edges(tools, profiles, vectors, limits, tokens=vectors.tokens))


def default_limits() -> EdgeLimits:
    """The shipped limits."""
    return EdgeLimits(MIN_SCORE, NEIGHBORS)


def learn_all(pairs: Sequence[Pair], vectors: TextVectors) -> None:
    """Embed every text that the pairs need."""
    profiles = [read_profile(tool) for pair in pairs for tool in (pair.source, pair.target)]
    vectors.learn([kind.text for one in profiles for kind in (*one.outputs.kinds, *one.inputs.kinds)])


def figures(labels: Array, answers: Array) -> tuple[float, float]:
    """Precision and recall."""
    right = int((labels & answers).sum())
    return right / max(1, int(answers.sum())), right / max(1, int(labels.sum()))


def evaluate(pairs: Sequence[Pair], vectors: TextVectors) -> Array:
    """For each pair, whether an edge is found."""
    learn_all(pairs, vectors)
    flows = (find_flow((pair.source, pair.target), vectors, default_limits()) for pair in pairs)
    return np.array([flow.edge(0, 1) is not None for flow in flows])


def report_pairs(pairs: Sequence[Pair], answers: Array) -> bool:
    """Print the table of pairs; False if a goal was missed."""
    labels = np.array([pair.label for pair in pairs])
    halves = np.array([pair.half for pair in pairs])
    given = np.array([pair.outputs for pair in pairs])
    print("\n| pairs | number | can feed | precision | recall |\n|---|---:|---:|---:|---:|")
    rows = {
        "tune (weights fitted on it)": halves == "tune",
        "check (held out)": halves == "check",
        "output schema given": given == "schema",
        "output schema implied": given == "implied",
        "all": halves != "",
    }
    for name, which in rows.items():
        precision, recall = figures(labels[which], answers[which])
        print(f"| {name} | {which.sum()} | {labels[which].sum()} | {precision:.3f} | {recall:.3f} |")
    return precision >= PRECISION and recall >= RECALL


Ends = tuple[str, str, str, str]
"""Catalog, source, target, parameter."""


def ends_of(row: dict[str, str]) -> Ends:
    """The identity of an edge; a list of plain values is identified like its items."""
    return row["catalog"], row["source"], row["target"], row["parameter"].removesuffix("[]")


def find_feeds(half: Half, vectors: TextVectors) -> dict[Ends, str]:
    """Every feed of every edge in the catalogs, with the output path of the value."""
    found = {}
    for catalog, tools in half.catalogs.items():
        for edge in find_flow(tools, vectors, default_limits()).edges():
            for feed in edge.feeds:
                ends = catalog, edge.source, edge.target, feed.parameter.removesuffix("[]")
                found[ends] = feed.output.removesuffix("[]")
    return found


def count_found(half: Half, found: dict[Ends, str]) -> dict[str, tuple[int, int, int]]:
    """(expected, found, found with the expected path) by kind of value, and by whether it stays within a service."""
    rows = []
    for row in half.edges:
        within = row["source"].partition("::")[0] == row["target"].partition("::")[0]
        output = found.get(ends_of(row))
        hit = 1, int(output is not None), int(output == row["output"].removesuffix("[]"))
        rows += [(row["kind"], hit), ("within a service" if within else "between services", hit), ("all", hit)]
    groups = Counter(group for group, _ in rows)
    return {
        group: tuple(map(sum, zip(*(hit for name, hit in rows if name == group), strict=True)))  # type: ignore[misc]
        for group, _ in sorted(groups.items(), key=lambda item: item[1])
    }


def is_emitted(row: dict[str, str], found: dict[Ends, str]) -> bool:
    """Whether a wrong edge is emitted."""
    return found.get(ends_of(row)) == row["output"].removesuffix("[]")


def report_halves(halves: dict[str, Half], vectors: TextVectors, *, errors: bool) -> bool:
    """Print both halves side by side; False if the goal was missed."""
    fed = {name: find_feeds(half, vectors) for name, half in halves.items()}
    counted = {name: count_found(half, fed[name]) for name, half in halves.items()}
    print("\n| expected edges |" + "".join(f" {name} | found | same path |" for name in halves))
    print("|---" + "|---:|---:|---:" * len(halves) + "|")
    for group in dict.fromkeys(group for found in counted.values() for group in found):
        cells = [counted[name].get(group, (0, 0, 0)) for name in halves]
        shown = [f" {n} | {hit / max(1, n):.3f} | {same / max(1, n):.3f} |" for n, hit, same in cells]
        print(f"| {group} |" + "".join(shown))
    for name, half in halves.items():
        wrong = sum(is_emitted(row, fed[name]) for row in half.wrong)
        tools = sum(map(len, half.catalogs.values()))
        pairs = len({ends[:3] for ends in fed[name]})
        share = f"{wrong / max(1, len(half.wrong)):.3f}"
        print(f"{name}: {wrong} of {len(half.wrong)} wrong ones are there ({share}); {pairs} edges among {tools} tools")
    for row in halves["fitted"].edges if errors else ():
        if ends_of(row) not in fed["fitted"]:
            print("missed:", *row.values(), file=sys.stderr)
    for row in halves["fitted"].wrong if errors else ():
        if is_emitted(row, fed["fitted"]):
            print("wrong:", *row.values(), file=sys.stderr)
    return all(found["all"][1] >= HALF_RECALL * found["all"][0] for found in counted.values() if found)


def print_sample(half: Half, vectors: TextVectors, number: int, seed: int) -> None:
    """Print random edges, each with its best feed and the definitions of both ends."""
    rows = []
    for catalog, tools in half.catalogs.items():
        flow = find_flow(tools, vectors, default_limits())
        rows += [
            (catalog, flow, source, target) for source in range(len(tools)) for target, _ in flow.out_edges(source)
        ]
    for catalog, flow, source, target in random.Random(seed).sample(rows, min(number, len(rows))):
        edge = flow.edge(source, target)
        assert edge is not None
        feed, first, second = edge.feeds[0], flow.tools[source], flow.tools[target]
        said = {
            side: next((field.description for field in read_fields(schema).found if field.path == path), "")
            for side, schema, path in (
                ("output", first.output_parameters, feed.output),
                ("parameter", second.parameters, feed.parameter),
            )
        }
        row: dict[str, object] = {
            "catalog": catalog,
            "source": edge.source,
            "output": feed.output,
            "target": edge.target,
        }
        row |= {"parameter": feed.parameter, "how": feed.how, "score": round(feed.score, 3)}
        row |= {"source_description": first.description, "output_description": said["output"]}
        row |= {"target_description": second.description, "parameter_description": said["parameter"]}
        print(json.dumps(row, ensure_ascii=False))


def print_pair_errors(pairs: Sequence[Pair], vectors: TextVectors, answers: Array) -> None:
    """Print wrong pairs of the half that weights are fitted on."""
    for pair, answer in zip(pairs, answers, strict=True):
        if pair.half != "tune" or answer == pair.label:
            continue
        edge = find_flow((pair.source, pair.target), vectors, EdgeLimits(0.02, 10)).edge(0, 1)
        feed = edge.feeds[0] if edge else None
        shown = f"{feed.score:.2f} {feed.output} -> {feed.parameter} {dict(feed.signals)}" if feed else "nothing"
        kind = "false" if answer else "missed"
        print(f"{kind}: {pair.source.name} -> {pair.target.name}: {shown} ({pair.reason})", file=sys.stderr)


class Features:
    """Features of every possible feed among some tools, in the order of `MatchWeights`."""

    def __init__(self, tools: Sequence[Tool], vectors: TextVectors) -> None:
        self.tools = {tool.qualified_name: place for place, tool in enumerate(tools)}
        self.profiles = [read_profile(tool) for tool in tools]
        self.spaces = [tool.namespace for tool in tools]
        self.tables = build_tables(self.profiles)
        zero = MatchWeights(*(0.0 for _ in MatchWeights._fields))
        self.matches = match_kinds(self.tables, np.zeros(len(tools), np.int32), vectors, zero, -1.0)

    def between(self, source: int, target: int, output: str | None = None, parameter: str | None = None) -> Array:
        """One row per possible feed between two tools, or only the one with these paths."""
        outputs, inputs, matches = self.tables.outputs, self.tables.inputs, self.matches
        apart = self.spaces[source] != self.spaces[target]
        rows = []
        for given in range(*outputs.tool_offsets[source : source + 2].tolist()):
            if output not in (None, outputs.paths[given].removesuffix("[]")):
                continue
            kind = outputs.members[given]
            for taken in range(*inputs.tool_offsets[target : target + 2].tolist()):
                if parameter not in (None, inputs.paths[taken].removesuffix("[]")):
                    continue
                start, end = matches.offsets[kind : kind + 2]
                asked = inputs.members[taken]
                for at in start + np.flatnonzero(matches.inputs[start:end] == asked):
                    state = outputs.state[kind] | inputs.state[asked]
                    fits = [1.0, matches.name[at], matches.text[at], 3.0 * (matches.type[at] - 1.0), state]
                    fits += [inputs.required[asked], apart, apart and matches.scoped[at]]
                    rows.append([*fits, inputs.sorted[asked], outputs.nested[given]])
        return np.array(rows, float).reshape(-1, len(MatchWeights._fields))


def collect_examples(pairs: Sequence[Pair], half: Half, vectors: TextVectors) -> Iterator[tuple[Array, float, float]]:
    """For each example, its possible feeds, whether one of them is right, and its weight."""
    for pair in pairs:
        if pair.half == "tune":
            yield Features((pair.source, pair.target), vectors).between(0, 1), float(pair.label), 0.5
    known = {catalog: Features(tools, vectors) for catalog, tools in half.catalogs.items()}
    judged = read_lines(EDGES / "judged.jsonl")
    for rows, weight in ((half.edges, 0.5), (half.wrong, 0.5), (judged, 3.0)):
        for row in rows:
            features = known[row["catalog"]]
            source, target = features.tools[row["source"]], features.tools[row["target"]]
            paths = (row[end].removesuffix("[]") for end in ("output", "parameter"))
            yield features.between(source, target, *paths), float(row.get("label", rows is half.edges)), weight


PRIOR = MatchWeights(-6.0, 6.0, 4.0, 2.0, -1.0, 0.5, -0.3, -5.0, 0.5, -0.2)
"""Start of the fit, and the prior it is regularised towards."""
FIXED = ("apart", "scoped")
"""Weights that are not fitted: the catalogs were made to have edges between services, so their rate says little."""


def fit(pairs: Sequence[Pair], half: Half, vectors: TextVectors, pull: float = 1.0) -> MatchWeights:
    """Fit logistic weights. Each example counts by its best feed, so choosing that and fitting alternate."""
    examples = [example for example in collect_examples(pairs, half, vectors) if len(example[0])]
    tables, labels, counts = zip(*examples, strict=True)
    wanted, shares = np.array(labels), np.array(counts)
    prior = weights = np.array(PRIOR)
    towards = np.diag([1e-3, *([pull] * (len(prior) - 1))])
    for name in FIXED:
        towards[MatchWeights._fields.index(name)] *= 1000
    for _ in range(300):
        rows = np.stack([table[np.argmax(table @ weights)] for table in tables])
        guesses = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ ((guesses - wanted) * shares) + towards @ (weights - prior)
        bend = (rows * (shares * guesses * (1 - guesses))[:, None]).T @ rows + towards
        weights = weights - 0.5 * np.linalg.solve(bend, slope)
    return MatchWeights(*(round(float(weight), 2) for weight in weights))


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="eval_dataflow")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--half", default="fitted")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Print the figures; 1 if a goal was missed."""
    asked = parse_arguments(arguments)
    if asked.sample:
        print_sample(read_half(asked.half), TextVectors(tokens=False), asked.sample, asked.seed)
        return 0
    pairs, halves = read_pairs(), {name: read_half(name) for name in PARTS if (EDGES / name).exists()}
    good = True
    for tokens, weights in ((False, MODEL), (True, TOKENS)):
        vectors = TextVectors(tokens=tokens)
        if not tokens and vectors.tokens:
            print("the embedding weights are not installed (`toolyard embeddings install`): by words only")
            continue
        if asked.fit:
            print("words" if tokens else "model", "shipped", tuple(weights))
            print("fitted", tuple(fit(pairs, halves["fitted"], vectors)))
        name = "words" if vectors.embedder is None else vectors.embedder.name
        print(f"\n## texts compared by {name}, min_score {MIN_SCORE}")
        answers = evaluate(pairs, vectors)
        good = report_pairs(pairs, answers) and good
        if halves:
            good = report_halves(halves, vectors, errors=asked.errors) and good
        if asked.errors:
            print_pair_errors(pairs, vectors, answers)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
