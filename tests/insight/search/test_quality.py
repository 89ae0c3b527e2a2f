"""How well search does on a small part of the labelled queries, so that a change that spoils it is seen."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.eval_search import EVERYDAY, FITTED, KEPT, Catalog, KeptEmbedder, measure, read_lines, read_tools
from conftest import SOAK
from toolyard.insight.cache import ItemCache
from toolyard.insight.embeddings.embedder import default_embedder
from toolyard.insight.search.candidates import SearchEmbedder
from toolyard.insight.search.query import load_examples
from toolyard.insight.search.rank import load_weights

FOLDER = Path(__file__).resolve().parents[2] / "data" / "retrieval"
EVERY = 1 if SOAK else 2
"""To embed texts is what takes time: of the tools and queries of the benchmark a part, of what people say every second."""
BENCHMARK = (
    {"lexical": (0.6, 0.68), "hybrid": (0.62, 0.75)} if SOAK else {"lexical": (0.78, 0.78), "hybrid": (0.8, 0.88)}
)
PEOPLE = {"lexical": (0.35, 0.5 if SOAK else 0.3, 0.4 if SOAK else 0.3), "hybrid": (0.7 if SOAK else 0.76, 0.2, 0.7)}
SERVERS = ("slack", "maps", "calendar", "playwright", "weather", "deepl")


@pytest.fixture(params=["lexical", "hybrid"])
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def cache():
    """What both catalogs have in common is embedded once."""
    return ItemCache()


@pytest.fixture
def meaning(mode, cache):
    if mode == "lexical":
        return None
    embedder = default_embedder()
    assert embedder is not None, "the weights are not installed: run `toolyard embeddings install`"
    return SearchEmbedder(KeptEmbedder(embedder, cache), cache)


def test_quality_on_the_benchmark_stays_above_its_limits(mode, meaning):
    lines = list(read_lines(FOLDER / "queries.jsonl"))[::EVERY]
    right = {name for line in lines for name in line["relevant"]}
    tools = [
        tool for place, tool in enumerate(read_tools(FOLDER)) if SOAK or place % 6 == 0 or tool.qualified_name in right
    ]
    catalog = Catalog(tools, meaning, "benchmark")
    figures = measure([catalog.ask(line, "right") for line in lines], load_weights()[mode])
    assert figures["requests"] == 80 // EVERY
    first, recall = BENCHMARK[mode]
    assert figures["first"] >= first
    assert figures["recall@5"] >= recall
    gone = []
    for line in lines[::3]:
        others = np.ones(len(catalog.places), np.bool_)
        others[[catalog.places[name] for name in line["relevant"]]] = False
        gone.append(catalog.ask(line, "gone", others))
    assert measure(gone, load_weights()[mode])["sure"] <= (3 if SOAK else 1)


def test_quality_on_everyday_requests_stays_above_its_limits(mode, meaning):
    tools = [tool for tool in read_tools(EVERYDAY / FITTED[0]) if tool.namespace in SERVERS]
    catalog = Catalog(tools, meaning, "whole")
    lines = [line for line in read_lines(EVERYDAY / FITTED[0] / "requests.jsonl") if line["language"] == "en"]
    there = [line for line in lines if any(name in catalog.places for name in line["acceptable"])]
    foreign = [line for line in lines if line["kind"] == "foreign"]
    asked = [catalog.ask(line, "right") for line in there[::EVERY]]
    asked += [catalog.ask(line, "foreign") for line in foreign[::EVERY]]
    figures = measure(asked, load_weights()[mode])
    assert figures["requests"] > 70 // EVERY
    five, most, kept = PEOPLE[mode]
    assert figures["five"] >= five
    assert figures["foreign"] <= most
    assert figures["kept"] >= kept


def test_bundled_examples_are_not_among_the_evaluated_requests():
    examples = load_examples()
    asked = {line["request"] for folder in (*FITTED, KEPT) for line in read_lines(EVERYDAY / folder / "requests.jsonl")}
    assert len(asked) > 1500
    assert asked.isdisjoint([*examples.served, *examples.foreign])
    assert set(examples.served).isdisjoint(examples.foreign)
