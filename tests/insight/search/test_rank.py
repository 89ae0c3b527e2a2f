"""Three answers, and not one score: an order, whether anything here is meant, and how well each fits."""

import numpy as np
import pytest

from conftest import SOAK
from toolyard import Tool, ToolRegistry
from toolyard.insight.embeddings.embedder import default_embedder
from toolyard.insight.search.candidates import SearchEmbedder
from toolyard.insight.search.query import load_examples, read_query
from toolyard.insight.search.rank import HYBRID, LEXICAL, build_table, judge_request, load_weights, name_fit
from toolyard.insight.search.searcher import Searcher, ToolIndex

TOOLS = [
    Tool("get_invoice", "billing", "Get one invoice by its number"),
    Tool("list_invoices", "billing", "List all invoices of a customer"),
    Tool("delete_invoice", "billing", "Delete one invoice by its number"),
    Tool("book_hotel", "travel", "Book a hotel room in a city"),
]


def judge(query, k=4):
    index = ToolIndex(None)
    view = index.view(ToolRegistry(TOOLS).snapshot)
    return judge_request(build_table(read_query(query), view, None, None, None, k), load_weights()["lexical"], k)


@pytest.mark.parametrize(("mode", "columns"), [("lexical", LEXICAL), ("hybrid", HYBRID)])
def test_shipped_weights_match_the_columns(mode, columns):
    weights = load_weights()[mode]
    assert tuple(weights.rank) == columns
    assert 0 < weights.foreign < 1


def test_the_fit_is_the_probability_in_words():
    assert [name_fit(score) for score in (0, 0.4999, 0.5, 0.7999, 0.8, 1)] == ["nearest"] * 2 + ["likely"] * 2 + [
        "sure"
    ] * 2


@pytest.mark.parametrize("lexical", [True, False])
def test_a_request_in_the_words_of_a_tool_is_never_called_nearest(lexical):
    # Regression: the probability fell where everything matched, since no request like this had been fitted.
    searcher, snapshot = Searcher(cache=False, lexical=lexical), ToolRegistry(TOOLS).snapshot
    for tool in TOOLS:
        for request in (tool.name.replace("_", " "), tool.description):
            best = searcher.search(snapshot, request)[0]
            assert best.tool.name == tool.name and best.fit != "nearest", request


def test_an_unrelated_request_is_marked_and_still_has_nearest_tools():
    found = judge("sing a song for one of my cats")
    assert found.foreign and [hit.fit for hit in found.hits] == ["nearest"] * len(found.hits) != []
    assert not judge("delete an invoice by its number").foreign


def test_requests_for_tools_are_distinguished_from_other_requests():
    meaning = SearchEmbedder(default_embedder())
    known = meaning.embed_catalog(TOOLS, {}, {})
    examples = load_examples()
    for texts, sign in ((examples.served, 1), (examples.foreign, -1)):
        some = texts if SOAK else texts[::4]
        wishes = [known.place_request(meaning.embed_query(read_query(text), known).segments[0]) for text in some]
        assert np.mean(wishes) == pytest.approx(sign / 2, abs=1e-3 if SOAK else 0.1)
        assert np.mean(np.sign(wishes) == sign) > 0.9


def test_questions_prefer_reading_tools_and_commands_changing_ones():
    asked, told = judge("what about the invoice number"), judge("the invoice number goes away")
    assert TOOLS[asked.hits[0].row].name == "get_invoice"
    scores = [{hit.row: hit.score for hit in found.hits} for found in (asked, told)]
    assert scores[0].get(0, 0) > scores[0].get(2, 0)
    assert scores[1].get(2, 0) >= scores[0].get(2, 0)


def test_scores_and_fits_fall_with_rank():
    hits = judge("get the invoice with this number").hits
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    ranks = [("sure", "likely", "nearest").index(hit.fit) for hit in hits]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("count", [1, 3, 40, 300])
def test_hits_are_found_in_catalogs_of_any_size(count):
    tools = [Tool(f"tool_{number}", "x", f"Paint wall number {number}") for number in range(count)]
    found = Searcher(lexical=True).search(ToolRegistry(tools).snapshot, "paint wall number 7", 3)
    assert len(found) == min(count, 3) and np.isfinite([hit.score for hit in found]).all()
