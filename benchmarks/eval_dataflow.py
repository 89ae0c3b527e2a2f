"""`python -m benchmarks.eval_dataflow [--errors] [--fit]`: how well dataflow agrees with pairs labelled by hand.

Each line of `tests/data/dataflow_pairs.jsonl` is two real tools and whether a value of the answer of the first is what
a parameter of the second asks for. What is found is an edge with the shipped options. The weights were fitted on the
half marked `tune`; of the half marked `check` only the figures were seen, never what was wrong. `--errors` lists what
is wrong in the first half, `--fit` fits the weights again and prints them. Exits 1 if
precision < .9 or recall < .8 over all pairs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolyard.insight.cache import ItemCache
from toolyard.insight.dataflow.artifact import Array, Dataflow
from toolyard.insight.dataflow.edges import EdgeLimits, compute_edges, limits_of
from toolyard.insight.dataflow.match import MIN_SCORE, MODEL, TOKENS, MatchWeights, match_kinds, token_vectors
from toolyard.insight.dataflow.profile import tables_of, told_of
from toolyard.insight.embeddings.choice import default_embedder
from toolyard.insight.embeddings.vectors import cached_vectors
from toolyard.model.tool import Tool

PAIRS = Path(__file__).resolve().parents[1] / "tests" / "data" / "dataflow_pairs.jsonl"
PRECISION, RECALL = 0.9, 0.8


class Pair(NamedTuple):
    """One labelled pair."""

    source: Tool
    target: Tool
    label: bool
    reason: str
    half: str
    outputs: str


class Vectors:
    """Vectors of texts, each asked for once."""

    def __init__(self, *, tokens: bool) -> None:
        self.embedder = None if tokens else default_embedder()
        self.known: dict[str, Array] = {}

    @property
    def tokens(self) -> bool:
        """Whether texts are compared by their words."""
        return self.embedder is None

    def learn(self, texts: Sequence[str]) -> None:
        """Get many at once."""
        new = sorted(set(texts) - self.known.keys())
        rows = token_vectors(new) if self.embedder is None else cached_vectors(self.embedder, new, ItemCache(None))
        self.known.update(zip(new, rows, strict=True))

    def __call__(self, texts: Sequence[str]) -> Array:
        """One row a text."""
        self.learn(texts)
        return np.stack([self.known[text] for text in texts]) if texts else np.zeros((0, 1), np.float32)


def read_pairs(path: Path = PAIRS) -> list[Pair]:
    """Every labelled pair."""
    pairs = []
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        source, target = ({k: v for k, v in row[side].items() if k != "file"} for side in ("source", "target"))
        pairs.append(Pair(Tool(**source), Tool(**target), row["label"], row["reason"], row["half"], row["outputs"]))
    return pairs


def found(pair: Pair, vectors: Vectors, limits: EdgeLimits) -> Dataflow:
    """The edges among the two tools of a pair."""
    tools = (pair.source, pair.target)
    told = [told_of(tool) for tool in tools]
    return Dataflow(tools, compute_edges(tools, told, vectors, limits, tokens=vectors.tokens))


def learn_all(pairs: Sequence[Pair], vectors: Vectors) -> None:
    """Embed every text that the pairs need."""
    told = [told_of(tool) for pair in pairs for tool in (pair.source, pair.target)]
    vectors.learn(
        [text for one in told for text in (*(kind.text for kind in (*one.outputs.kinds, *one.inputs.kinds)), one.text)]
    )


def figures(labels: Array, answers: Array) -> tuple[float, float]:
    """Precision and recall."""
    right = int((labels & answers).sum())
    return right / max(1, int(answers.sum())), right / max(1, int(labels.sum()))


def evaluate(pairs: Sequence[Pair], vectors: Vectors, min_score: float = MIN_SCORE) -> Array:
    """For each pair, whether an edge is found."""
    learn_all(pairs, vectors)
    limits = limits_of(min_score, 10)
    return np.array([found(pair, vectors, limits).edge(0, 1) is not None for pair in pairs])


def report(title: str, pairs: Sequence[Pair], answers: Array) -> bool:
    """Print the table of one way to compare texts; False if a goal was missed."""
    labels = np.array([pair.label for pair in pairs])
    halves = np.array([pair.half for pair in pairs])
    given = np.array([pair.outputs for pair in pairs])
    print(f"\n## {title}\n\n| pairs | number | can feed | precision | recall |\n|---|---:|---:|---:|---:|")
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


def errors(pairs: Sequence[Pair], vectors: Vectors, answers: Array) -> None:
    """Print what is wrong in the half that weights are fitted on."""
    for pair, answer in zip(pairs, answers, strict=True):
        if pair.half != "tune" or answer == pair.label:
            continue
        edge = found(pair, vectors, limits_of(0.02, 10)).edge(0, 1)
        feed = edge.feeds[0] if edge else None
        told = f"{feed.score:.2f} {feed.output} -> {feed.parameter} {dict(feed.signals)}" if feed else "nothing"
        kind = "false" if answer else "missed"
        print(f"{kind}: {pair.source.name} -> {pair.target.name}: {told} ({pair.reason})", file=sys.stderr)


def features(pair: Pair, vectors: Vectors) -> Array:
    """One row for each way the pair could feed, in the order of `Weights`."""
    told = [told_of(pair.source), told_of(pair.target)]
    tables = tables_of(told)
    zero = MatchWeights(*(0.0 for _ in MatchWeights._fields))
    matches = match_kinds(tables, np.zeros(2, np.int32), vectors, zero, -1.0)
    rows = np.repeat(np.arange(len(tables.outputs.kinds)), np.diff(matches.offsets))
    columns = matches.inputs
    mine = np.isin(rows, tables.outputs.members[tables.outputs.tools == 0])
    theirs = np.isin(columns, tables.inputs.members[tables.inputs.tools == 1])
    alike = np.clip(float(np.prod(vectors([one.text for one in told]), axis=0).sum()), 0.0, 1.0)
    apart = pair.source.namespace != pair.target.namespace
    table = [
        np.ones(len(rows)),
        matches.name,
        matches.text,
        3.0 * (matches.type - 1.0),
        tables.outputs.state[rows] | tables.inputs.state[columns],
        tables.inputs.required[columns],
        np.full(len(rows), alike),
        np.full(len(rows), float(apart)),
        apart * matches.scoped,
    ]
    return np.stack(table, axis=1)[mine & theirs]


PRIOR = MatchWeights(-6.0, 6.0, 4.0, 2.0, -0.5, 0.5, 0.5, -1.2, -1.2)
"""Where the fit begins, and what it is drawn to: few pairs between namespaces are in the set."""


def fit(pairs: Sequence[Pair], vectors: Vectors, half: str, pull: float = 1.0) -> MatchWeights:
    """Logistic weights: the best way of each pair decides, so which one that is and the weights take turns."""
    tables = [features(pair, vectors) for pair in pairs if pair.half == half]
    labels = np.array([pair.label for pair in pairs if pair.half == half], float)
    useful = [place for place, table in enumerate(tables) if len(table)]
    prior = weights = np.array(PRIOR)
    towards = np.diag([1e-3, *([pull] * (len(prior) - 1))])
    for _ in range(600):
        rows = np.stack([tables[place][np.argmax(tables[place] @ weights)] for place in useful])
        guesses = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (guesses - labels[useful]) + towards @ (weights - prior)
        bend = (rows * (guesses * (1 - guesses))[:, None]).T @ rows + towards
        weights = weights - 0.5 * np.linalg.solve(bend, slope)
    return MatchWeights(*(round(float(weight), 2) for weight in weights))


def main(arguments: list[str]) -> int:
    """Print the figures; 1 if a goal was missed."""
    pairs = read_pairs()
    good = True
    for tokens, weights in ((False, MODEL), (True, TOKENS)):
        vectors = Vectors(tokens=tokens)
        if not tokens and vectors.tokens:
            print("the embedding weights are not installed (`toolyard embeddings install`): by words only")
            continue
        learn_all(pairs, vectors)
        if "--fit" in arguments:
            print(
                "words" if tokens else "model", "shipped", tuple(weights), "fitted", tuple(fit(pairs, vectors, "tune"))
            )
        answers = evaluate(pairs, vectors)
        name = "texts compared by words" if vectors.tokens else f"texts compared by {vectors.embedder.name}"  # type: ignore[union-attr]
        good = report(f"{name}, min_score {MIN_SCORE}", pairs, answers) and good
        if "--errors" in arguments:
            errors(pairs, vectors, answers)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
