"""`python -m benchmarks.eval_search [--fit] [--lexical] [--curve]`: how well search finds tools, on labelled requests.

There are two kinds of data. *Everyday*: user requests for tools of real servers, `tests/data/everyday`, in folders that
share no server; weights are fitted on the `FITTED` ones, `KEPT` is only measured. *Benchmark*: labelled queries of
public data sets, in the corpus that `TOOLYARD_CORPUS` names, or beside the project, or the sample in the tests.

    everyday     by catalog size, and for direct requests (a tool's own words, in catalogs of all sizes): right tool
                 first, in the top three and top five; share of foreign requests that get hits, and of right first hits
                 that are kept; number of hits called sure and likely, and their precision; share of right first hits
                 called sure, and of near misses. The same for other languages, over the same tools
    turns        the same for fitted servers by cross-validation, and the spread between folds
    benchmark    hit@1 and recall@5 (right tools among the first five, of at most five) with the shipped weights; on one
                 half, with a ranking fitted on the other half and all fitted everyday requests; and with one source
                 held out
    curve        the trade-off: held-out everyday requests and the benchmark's other half, by the weight of everyday
                 requests in the loss

Vectors are cached on disk, so a second run is fast. `--fit` writes new weights. Exits 1 if a goal is missed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.material import chosen_embedder, corpus_folder
from benchmarks.search_fit import Asked, Origin, deal_out, fit_ranking, fit_weights
from toolyard import Tool, ToolRegistry
from toolyard.insight.arrays import Matrix
from toolyard.insight.cache import ItemCache
from toolyard.insight.embeddings.embedder import Embedder
from toolyard.insight.embeddings.vectors import cached_vectors
from toolyard.insight.search import rank
from toolyard.insight.search.candidates import Mask, SearchEmbedder
from toolyard.insight.search.query import list_views, read_query, split_words, stem_words
from toolyard.insight.search.rank import RankWeights, build_table, judge_request, load_weights
from toolyard.insight.search.searcher import ToolIndex

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
EVERYDAY = DATA / "everyday"
FITTED, KEPT = ("fitted/one", "fitted/two"), "kept"
"""Folders that weights are fitted on, and the one that is only measured."""
TURNS = 4
NOTHING = DATA / "retrieval" / "nothing.txt"
"""Short requests for which hardly any catalog has a tool."""
SMALL = (5, 200)
"""Minimum and maximum number of tools in a part of a catalog."""
PARTS = 24
DIRECT, MOST_OWN_WORDS = (240, 30), 14
"""Direct requests of a whole catalog and of a part; their greatest length in words."""
PADDED = (2_000, 5_000)
"""Sizes of everyday catalogs padded with benchmark tools; foreign requests are unknown there."""
BALANCES = (0.1, 0.3, 0.5, 0.7, 0.9)
LANGUAGES = ("de", "es", "fr", "pt")
GOALS = {
    "first": 0.45,
    "three": 0.65,
    "five": 0.73,
    "kept": 0.85,
    "sure right": 0.85,
    "likely right": 0.50,
    "sure of first": 0.20,
    "hit@1": 0.65,
    "recall@5": 0.74,
    "x hit@1": 0.62,
    "x recall@5": 0.66,
}
LIMITS = {"foreign": 0.10, "near sure": 0.10}


class KeptEmbedder:
    """An embedder with a cache, so that each query is embedded once."""

    def __init__(self, inner: Embedder, cache: ItemCache) -> None:
        self.name, self.version, self.dimensions, self.batch = inner.name, inner.version, inner.dimensions, inner.batch
        self._inner, self._cache = inner, cache

    def encode(self, texts: Sequence[str]) -> Matrix:
        """One row per text."""
        return cached_vectors(self._inner, texts, self._cache, "queries")


class Catalog:
    """Some tools with their index."""

    def __init__(self, tools: Sequence[Tool], meaning: SearchEmbedder | None, label: str) -> None:
        self._meaning, self._label = meaning, label
        self._origin: Origin = "benchmark" if label == "benchmark" else "everyday"
        index = ToolIndex(meaning)
        self.view = index.view(ToolRegistry(tools).snapshot)
        self._known = index.get_vectors(self.view, wait=True)
        self.places = {tool.qualified_name: place for place, tool in enumerate(self.view.tools)}

    def ask_directly(self, generator: np.random.Generator, most: int) -> Iterator[Asked]:
        """Requests in the words of a tool: its name, the name as a phrase, the first sentence of its description."""
        found: dict[tuple[str, ...], tuple[str, list[str]]] = {}
        for tool in self.view.tools:
            words = split_words(tool.name)
            name, phrase = " ".join(words), " ".join([*words[:1], "a", *words[1:]])
            for text in dict.fromkeys((name, phrase, list_views(tool)[2])):
                if 2 <= len(text.split()) <= MOST_OWN_WORDS:
                    found.setdefault(tuple(stem_words(text)), (text, []))[1].append(tool.qualified_name)
        lines = list(found.values())
        for place in generator.choice(len(lines), min(most, len(lines)), replace=False):
            text, names = lines[place]
            yield self.ask({"request": text, "acceptable": names}, "right", label="direct", origin="direct")

    def ask(
        self, line: dict, kind: str, where: Mask | None = None, label: str = "", origin: Origin | None = None
    ) -> Asked:
        """The candidates for a request; without the right tools if the kind is `gone`."""
        names = line.get("acceptable", line.get("relevant", ()))
        right = [self.places[name] for name in names if name in self.places and kind != "gone"]
        query = read_query(line.get("request") or line["query"])
        known = self._known
        vectors = None if known is None or self._meaning is None else self._meaning.embed_query(query, known)
        table = build_table(query, self.view, known, vectors, where)
        group = line["source"].partition("_")[0] if "source" in line else "".join(names[:1]).partition("::")[0]
        found = np.isin(table.rows, right)
        language = line.get("language", "en")
        origin = origin or self._origin
        return Asked(query.text, kind, group, label or self._label, language, len(right), table, found, origin)


def main(arguments: Sequence[str]) -> int:
    """Print the figures; 1 if a goal is missed."""
    missed: list[str] = []
    for mode in ("lexical",) if "--lexical" in arguments else ("hybrid", "lexical"):
        inner = chosen_embedder() if mode == "hybrid" else None
        if mode == "hybrid" and inner is None:
            print("the embedding weights are not installed (`toolyard embeddings install`): words alone are compared")
            continue
        meaning = None if inner is None else SearchEmbedder(KeptEmbedder(inner, ItemCache()), ItemCache())
        benchmark = list(ask_benchmark(corpus(), meaning))
        fitted = [each for folder in FITTED for each in ask_everyday(EVERYDAY / folder, meaning)]
        if "--fit" in arguments:
            write_weights(mode, fit_weights([*benchmark, *fitted]))
            continue
        weights = load_weights()[mode]
        print_everyday(f"{mode}, everyday, fitted", fitted, weights)
        print_turns(mode, benchmark, fitted)
        figures = print_everyday(f"{mode}, everyday, kept", list(ask_everyday(EVERYDAY / KEPT, meaning)), weights)
        figures |= print_benchmark(mode, benchmark, fitted, weights)
        if "--curve" in arguments or mode == "hybrid":
            print_curve(benchmark, fitted, weights)
        if mode == "hybrid":
            # A figure that could not be measured (NaN) counts as missed.
            missed = [name for name, least in GOALS.items() if not figures[name] >= least]
            missed += [name for name, most in LIMITS.items() if not figures[name] <= most]
            print(f"goals missed: {', '.join(f'{name} {figures[name]:.3f}' for name in missed) or 'none'}")
    return int(bool(missed))


def corpus() -> Path:
    """The folder with `catalog.jsonl` and `queries.jsonl`."""
    return corpus_folder("retrieval")


def read_lines(path: Path) -> list[dict]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def read_tools(folder: Path) -> list[Tool]:
    """Read the catalog, without normalising its schemas."""
    return [
        Tool(line["name"], line["qualified_name"].partition("::")[0], line["description"], line["parameters"])
        for line in read_lines(folder / "catalog.jsonl")
    ]


def ask_benchmark(folder: Path, meaning: SearchEmbedder | None) -> Iterator[Asked]:
    """Every query over all tools; some also over a part of them, and with the right tools removed."""
    catalog = Catalog(read_tools(folder), meaning, "benchmark")
    count = len(catalog.places)
    generator = np.random.default_rng(1)
    for text in NOTHING.read_text("utf-8").splitlines():
        yield catalog.ask({"query": text, "source": "nothing"}, "foreign")
    for number, line in enumerate(read_lines(folder / "queries.jsonl")):
        yield catalog.ask(line, "right")
        if number % 3 == 0:
            right = [catalog.places[name] for name in line["relevant"]]
            some = generator.random(count) < np.exp(generator.uniform(*np.log((4, 2000)))) / count
            some[right] = False
            yield catalog.ask(line, "gone", some, "part")
            every = np.ones(count, np.bool_)
            every[right] = False
            yield catalog.ask(line, "gone", every)
            some[right] = True
            yield catalog.ask(line, "right", some, "part")


def ask_everyday(folder: Path, meaning: SearchEmbedder | None) -> Iterator[Asked]:
    """Every request over all tools of the half; those with an answer also over parts of it and over padded catalogs."""
    tools, lines = read_tools(folder), read_lines(folder / "requests.jsonl")
    whole = Catalog(tools, meaning, "whole")
    yield from (whole.ask(line, line["kind"]) for line in lines)
    english = [line for line in lines if line["language"] == "en"]
    generator, own = np.random.default_rng(3), np.random.default_rng(5)
    yield from whole.ask_directly(own, DIRECT[0])
    servers = sorted({tool.namespace for tool in tools})
    for _ in range(PARTS):
        chosen = set(generator.choice(servers, min(int(generator.integers(1, 7)), len(servers)), replace=False))
        pool = [tool for tool in tools if tool.namespace in chosen]
        size = min(int(np.exp(generator.uniform(*np.log(SMALL)))), len(pool))
        some = [pool[place] for place in generator.choice(len(pool), size, replace=False)]
        part = Catalog(some, meaning, f"to {40 if size <= 40 else SMALL[1]} tools")
        for line in english:
            there = line["kind"] == "right" and any(name in part.places for name in line["acceptable"])
            if there or (line["kind"] == "foreign" and generator.random() < 0.4):
                yield part.ask(line, line["kind"])
        yield from part.ask_directly(own, DIRECT[1])
    others = read_tools(corpus())
    for size in PADDED:
        added = generator.choice(len(others), min(size - len(tools), len(others)), replace=False)
        padded = Catalog([*tools, *(others[place] for place in added)], meaning, f"{size} tools")
        yield from (padded.ask(line, line["kind"]) for line in english if line["kind"] != "foreign")


Judged = tuple[Asked, rank.Judgement, list[bool]]


def judge(asked: Sequence[Asked], weights: RankWeights) -> list[Judged]:
    """The hits for each request, and which of the first five are right."""
    found = []
    for each in asked:
        made = judge_request(each.table, weights, 5)
        right = dict(zip(each.table.rows.tolist(), each.is_right.tolist(), strict=True))
        found.append((each, made, [right[hit.row] for hit in made.hits]))
    return found


def measure(asked: Sequence[Asked], weights: RankWeights) -> dict[str, float]:
    """The figures of some requests."""
    return count_judged(judge(asked, weights))


def count_judged(found: Sequence[Judged]) -> dict[str, float]:
    """The figures of judged requests."""
    first = [right[:1] == [True] for each, _, right in found if each.kind == "right"]
    shown = [
        (hit, good) for _, made, right in found if not made.foreign for hit, good in zip(made.hits, right, strict=True)
    ]
    by_word = {word: [good for hit, good in shown if hit.fit == word] for word in ("sure", "likely")}
    mine = [(each, made, right) for each, made, right in found if each.kind == "right"]
    firsts = [made for _, made, right in mine if right[:1] == [True]]
    figures = {
        "requests": len(mine),
        "first": _mean(first),
        "three": _mean([any(right[:3]) for _, _, right in mine]),
        "five": _mean([any(right) for _, _, right in mine]),
        "recall@5": _mean([sum(right) / min(5, each.right) for each, _, right in mine]),
        "foreign": _mean([not made.foreign for each, made, _ in found if each.kind == "foreign"]),
        "kept": _mean([not made.foreign for made in firsts]),
        "sure": len(by_word["sure"]),
        "sure right": _mean(by_word["sure"]),
        "likely": len(by_word["likely"]),
        "likely right": _mean(by_word["likely"]),
        "sure of first": _mean([made.hits[0].fit == "sure" and not made.foreign for made in firsts]),
        "near sure": _mean(
            [any(hit.fit == "sure" for hit in made.hits) for each, made, _ in found if each.kind == "near"]
        ),
    }
    return figures | {"hit@1": figures["first"]}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def print_everyday(title: str, asked: Sequence[Asked], weights: RankWeights) -> dict[str, float]:
    """Print a line per catalog size, then per language; returns the overall figures."""
    english = [each for each in asked if each.language == "en"]
    whole = measure([each for each in english if each.catalog == "whole"], weights)
    print(f"\n{title}\n{'':14}" + "".join(f"{name:>14}" for name in _shown(whole)))
    for catalog in dict.fromkeys(each.catalog for each in english):
        _print_row(catalog, measure([each for each in english if each.catalog == catalog], weights))
    for language in LANGUAGES:
        _print_row(language, measure([each for each in asked if each.language == language], weights))
    return whole


def print_turns(mode: str, benchmark: Sequence[Asked], fitted: Sequence[Asked]) -> None:
    """Print cross-validated figures by catalog size, and the spread between folds."""
    turn = deal_out(fitted, TURNS)
    found: dict[str, list[list[Judged]]] = {}
    for now in range(TURNS):
        weights = fit_weights([*benchmark, *(each for each, at in zip(fitted, turn, strict=True) if at != now)])
        mine = [each for each, at in zip(fitted, turn, strict=True) if at == now and each.language == "en"]
        for catalog in dict.fromkeys(each.catalog for each in mine):
            found.setdefault(catalog, []).append(judge([each for each in mine if each.catalog == catalog], weights))
    whole = count_judged(list(chain.from_iterable(found["whole"])))
    print(f"\n{mode}, everyday, {TURNS} turns\n{'':14}" + "".join(f"{name:>14}" for name in _shown(whole)))
    for catalog, turns in found.items():
        _print_row(catalog, count_judged(list(chain.from_iterable(turns))))
        every = [count_judged(one) for one in turns]
        there = {name: [one[name] for one in every if one[name] == one[name]] for name in whole}
        _print_row("  spread", {name: float(np.std(values or [np.nan])) for name, values in there.items()})


def _shown(figures: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if name not in ("recall@5", "hit@1")}


def _print_row(title: str, figures: dict[str, float]) -> None:
    cells = _shown(figures).values()
    print(f"{title:14}" + "".join(f"{value:14}" if isinstance(value, int) else f"{value:14.3f}" for value in cells))


def print_benchmark(
    mode: str, asked: Sequence[Asked], fitted: Sequence[Asked], weights: RankWeights
) -> dict[str, float]:
    """Print results by halves and sources; returns the held-out figures."""
    print(f"\n{mode}, benchmark\n{'':22}{'queries':>8}{'hit@1':>8}{'recall@5':>10}")
    halves = [bool(half) for half in deal_out(asked, 2)]
    plain = [each for each in asked if each.kind == "right" and each.catalog == "benchmark"]
    _print_found("shipped", measure(plain, weights))
    kept = _print_found("half kept aside", _try_groups(asked, fitted, weights, halves))
    sources, tried = [each.group for each in asked], dict.fromkeys(each.group for each in plain)
    others = [_try_groups(asked, fitted, weights, sources, only=source) for source in tried]
    for source, figures in zip(tried, others, strict=True):
        _print_found(f"without {source}", figures)
    share = np.array([figures["requests"] for figures in others])
    mean = {name: float(np.average([one[name] for one in others], weights=share)) for name in ("hit@1", "recall@5")}
    _print_found("sources kept aside", {"requests": int(share.sum()), **mean})
    return {
        "hit@1": kept["hit@1"],
        "recall@5": kept["recall@5"],
        "x hit@1": mean["hit@1"],
        "x recall@5": mean["recall@5"],
    }


def _print_found(title: str, figures: dict[str, float]) -> dict[str, float]:
    print(f"{title:22}{figures['requests']:8}{figures['hit@1']:8.3f}{figures['recall@5']:10.3f}")
    return figures


def _try_groups(
    asked: Sequence[Asked], fitted: Sequence[Asked], weights: RankWeights, groups: Sequence[object], only: object = True
) -> dict[str, float]:
    """For each group, fit a ranking without it and measure its queries over the whole benchmark."""
    found = fit_ranking([*fitted, *(each for each, group in zip(asked, groups, strict=True) if group != only)])
    mine = [each for each, group in zip(asked, groups, strict=True) if group == only]
    plain = [each for each in mine if each.kind == "right" and each.catalog == "benchmark"]
    return measure(plain, msgspec.structs.replace(weights, rank=found))


def print_curve(benchmark: Sequence[Asked], fitted: Sequence[Asked], weights: RankWeights) -> None:
    """Print the trade-off between everyday requests and the benchmark."""
    print(f"\ncurve\n{'everyday part':>14}{'first':>8}{'three':>8}{'five':>8}{'hit@1':>8}{'recall@5':>10}")
    turn, first = deal_out(fitted, TURNS), deal_out(benchmark, 2)
    half, other = ([each for each, at in zip(benchmark, first, strict=True) if at == mine] for mine in (0, 1))
    other = [each for each in other if each.kind == "right" and each.catalog == "benchmark"]
    for balance in BALANCES:
        every: list[dict[str, float]] = []
        for now in range(TURNS):
            seen = [each for each, at in zip(fitted, turn, strict=True) if at != now]
            found = msgspec.structs.replace(weights, rank=fit_ranking([*half, *seen], balance))
            mine = [each for each, at in zip(fitted, turn, strict=True) if at == now and each.kind == "right"]
            every.append(measure([each for each in mine if each.catalog == "whole" and each.language == "en"], found))
            every[-1] |= {name: value for name, value in measure(other, found).items() if name in ("hit@1", "recall@5")}
        share = [one["requests"] for one in every]
        cells = [np.average([one[name] for one in every], weights=share) for name in ("first", "three", "five")]
        cells += [np.mean([one[name] for one in every]) for name in ("hit@1", "recall@5")]
        print(f"{balance:14}" + "".join(f"{cell:8.3f}" for cell in cells))


def write_weights(mode: str, weights: RankWeights) -> None:
    """Write the rounded weights into the source file."""
    path = Path(rank.__file__).with_name("weights.json")
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    known[mode] = msgspec.to_builtins(weights)
    short = json.loads(json.dumps(known), parse_float=lambda text: float(f"{float(text):.4g}"))
    path.write_text(json.dumps(short, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
