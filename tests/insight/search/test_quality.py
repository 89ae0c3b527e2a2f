"""How well search does on a small part of the labelled queries, so that a change that spoils it is seen."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.eval_search import EVERYDAY, FITTED, KEPT, Catalog, measure, read_lines, read_tools
from toolyard.insight.cache import ItemCache
from toolyard.insight.embeddings.choice import default_embedder
from toolyard.insight.search.candidates import Meaning
from toolyard.insight.search.query import load_examples
from toolyard.insight.search.rank import load_weights

FOLDER = Path(__file__).resolve().parents[2] / "data" / "retrieval"
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
    return Meaning(embedder, cache)


def test_of_the_benchmark_the_right_tool_comes_first_and_where_it_is_not_there_little_is_called_sure(mode, meaning):
    catalog = Catalog(read_tools(FOLDER), meaning, "benchmark")
    lines = list(read_lines(FOLDER / "queries.jsonl"))
    figures = measure([catalog.ask(line, "right") for line in lines], load_weights()[mode])
    assert figures["requests"] == 80
    assert figures["first"] >= (0.6 if mode == "lexical" else 0.62)
    assert figures["recall@5"] >= (0.68 if mode == "lexical" else 0.75)
    gone = []
    for line in lines[::3]:
        others = np.ones(len(catalog.places), np.bool_)
        others[[catalog.places[name] for name in line["relevant"]]] = False
        gone.append(catalog.ask(line, "gone", others))
    assert measure(gone, load_weights()[mode])["sure"] <= 3


def test_of_what_people_say_the_right_tool_is_offered_and_of_what_is_foreign_little(mode, meaning):
    tools = [tool for tool in read_tools(EVERYDAY / FITTED[0]) if tool.namespace in SERVERS]
    catalog = Catalog(tools, meaning, "whole")
    lines = [line for line in read_lines(EVERYDAY / FITTED[0] / "requests.jsonl") if line["language"] == "en"]
    there = [line for line in lines if any(name in catalog.places for name in line["acceptable"])]
    asked = [catalog.ask(line, "right") for line in there]
    asked += [catalog.ask(line, "foreign") for line in lines if line["kind"] == "foreign"]
    figures = measure(asked, load_weights()[mode])
    assert figures["requests"] > 70
    assert figures["five"] >= (0.35 if mode == "lexical" else 0.7)
    assert figures["foreign"] <= (0.5 if mode == "lexical" else 0.2)
    assert figures["kept"] >= (0.4 if mode == "lexical" else 0.7)


def test_no_example_of_what_people_ask_is_a_request_that_figures_are_of():
    examples = load_examples()
    asked = {line["request"] for folder in (*FITTED, KEPT) for line in read_lines(EVERYDAY / folder / "requests.jsonl")}
    assert len(asked) > 1500
    assert asked.isdisjoint([*examples.served, *examples.foreign])
    assert set(examples.served).isdisjoint(examples.foreign)
