"""`registry.search`: what fits first, names always, filters before ranks, and nothing where nothing fits."""

import threading

import pytest
from hypothesis import given, settings, strategies as st

from tests.insight.embedder_stub import HashEmbedder
from toolyard import Tool, ToolRegistry
from toolyard.insight.search.searcher import Searcher
from toolyard.model.errors import ConfigError

TOOLS = [
    Tool("get_current_weather", "weather", "Get the current weather in a city", tags=("live",), aliases=("rain_now",)),
    Tool("send_email", "office", "Send an email to a person with a subject and a body", tags=("mail",)),
    Tool("calculate_triangle_area", "math", "Calculate the area of a triangle from its base and height"),
    Tool("book_hotel", "travel", "Book a hotel room in a city for some nights", tags=("live", "money")),
    Tool("translate_text", "office", "Translate a text into another language"),
    Tool("Now", "weather", "What people search for"),
    Tool("now", "clock", "The time of day"),
]


@pytest.fixture
def lexical():
    return Searcher(lexical=True)


@pytest.fixture
def hybrid(tmp_path):
    return Searcher(HashEmbedder(), cache=tmp_path)


def names(results):
    return [hit.tool.qualified_name for hit in results]


class Broken(HashEmbedder):
    def encode(self, texts):
        raise ConfigError("the weights are not whole; install them again")


@pytest.mark.parametrize("wait", [True, False])
def test_a_model_that_cannot_be_used_leaves_a_search_by_words_that_says_why(wait):
    searcher, snapshot = Searcher(Broken(), cache=False), ToolRegistry(TOOLS).snapshot
    found = searcher.search(snapshot, "What is the current weather in Rome?", wait=wait)
    if not wait:
        searcher._index._worker.join()
        found = searcher.search(snapshot, "What is the current weather in Rome?", wait=wait)
    assert names(found)[0] == "weather::get_current_weather"
    assert found.mode == "lexical"
    assert "install them again" in found.note


def test_a_model_that_breaks_later_leaves_a_search_by_words(tmp_path):
    snapshot, query = ToolRegistry(TOOLS).snapshot, "What is the current weather in Rome?"
    Searcher(HashEmbedder(), cache=tmp_path).search(snapshot, query)
    found = Searcher(Broken(), cache=tmp_path).search(snapshot, query)
    assert names(found)[0] == "weather::get_current_weather"
    assert (found.mode, "install them again" in found.note) == ("lexical", True)


def test_the_tool_that_fits_comes_first_with_a_score_between_nothing_and_one(lexical):
    found = lexical.search(ToolRegistry(TOOLS).snapshot, "What is the current weather in Rome?")
    assert names(found)[0] == "weather::get_current_weather"
    assert found.mode == "lexical"
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert set(found[0].reasons) == {"words", "name"}


def test_nothing_is_offered_where_nothing_fits_unless_it_is_asked_for(lexical):
    snapshot = ToolRegistry(TOOLS).snapshot
    assert lexical.search(snapshot, "Who painted the ceiling of the chapel?") == []
    assert lexical.search(snapshot, "zzz qqq") == []
    assert len(lexical.search(snapshot, "paint a picture of a city", threshold=0)) > 0


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("get_current_weather", "weather::get_current_weather"),
        ("weather::get_current_weather", "weather::get_current_weather"),
        ("rain_now", "weather::get_current_weather"),
        ("WEATHER::RAIN_NOW", "weather::get_current_weather"),
        ("please run `send_email` about the triangle", "office::send_email"),
        ("Now", "weather::Now"),
        ("now", "clock::now"),
    ],
)
def test_a_name_is_always_found_first_however_it_is_spelt(lexical, hybrid, query, first):
    snapshot = ToolRegistry(TOOLS).snapshot
    for searcher in (lexical, hybrid):
        found = searcher.search(snapshot, query, k=2)
        assert names(found)[0] == first
        assert found[0].score >= 0.99


def test_filters_come_before_the_ranking(lexical):
    snapshot = ToolRegistry(TOOLS).snapshot

    def asked(**options):
        return set(names(lexical.search(snapshot, "city", k=7, threshold=0, **options)))

    assert asked(namespace="travel") == {"travel::book_hotel"}
    assert asked(namespace=["travel", "weather"]) == {"travel::book_hotel", "weather::get_current_weather"}
    assert asked(tags="live") == {"travel::book_hotel", "weather::get_current_weather"}
    assert asked(tags=["live", "money"]) == {"travel::book_hotel"}
    assert asked(namespace="nowhere") == set()
    assert asked(where=lambda tool: tool.name != "book_hotel") == {"weather::get_current_weather"}
    assert names(lexical.search(snapshot, "book_hotel", namespace="office", threshold=0)) == []


def test_a_tool_that_is_added_is_the_only_one_that_is_embedded(tmp_path):
    embedder = HashEmbedder()
    searcher = Searcher(embedder, cache=tmp_path)
    registry = ToolRegistry(TOOLS)
    searcher.search(registry.snapshot, "weather")
    before = set(embedder.texts)
    registry.add(Tool("paint_wall", "home", "Paint a wall blue"))
    assert names(searcher.search(registry.snapshot, "paint_wall"))[0] == "home::paint_wall"
    fresh = set(embedder.texts) - before - {"paint_wall"}
    assert fresh == {"paint wall. Paint a wall blue ()", "paint", "wall", "blue"}


def test_what_is_removed_is_found_no_more_and_an_old_snapshot_stays_as_it_was(hybrid):
    registry = ToolRegistry(TOOLS)
    old = registry.snapshot
    hybrid.search(old, "weather")
    registry.remove("office::send_email")
    assert "office::send_email" not in names(hybrid.search(registry.snapshot, "send_email", k=7, threshold=0))
    assert names(hybrid.search(old, "send_email"))[0] == "office::send_email"


def test_without_waiting_words_are_compared_while_the_vectors_are_made(tmp_path):
    searcher = Searcher(HashEmbedder(), cache=tmp_path)
    snapshot = ToolRegistry(TOOLS).snapshot
    found = searcher.search(snapshot, "current weather in a city", wait=False)
    assert (found.mode, names(found)[0]) == ("lexical", "weather::get_current_weather")
    assert "are being made" in found.note
    assert searcher.search(snapshot, "current weather in a city").mode == "hybrid"
    assert searcher.search(snapshot, "current weather in a city", wait=False).mode == "hybrid"


def test_a_question_that_cannot_be_one_is_refused(lexical):
    snapshot = ToolRegistry(TOOLS).snapshot
    with pytest.raises(ValueError, match="k must be a whole number from 1 on, not 0"):
        lexical.search(snapshot, "weather", k=0)
    with pytest.raises(TypeError, match="query must be text, not int"):
        lexical.search(snapshot, 3)


def test_empty_catalogs_and_empty_questions_have_empty_answers(lexical, hybrid):
    for searcher in (lexical, hybrid):
        assert searcher.search(ToolRegistry().snapshot, "weather") == []
        assert searcher.search(ToolRegistry(TOOLS).snapshot, "  \n ") == []


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200) | st.sampled_from(["a" * 100_000, "\ud800", "weather " * 5000, "🎉🎉", "'\"`; DROP"]))
def test_no_query_is_an_error(query):
    snapshot = ToolRegistry(TOOLS).snapshot
    found = SHARED.search(snapshot, query, k=3, threshold=0)
    assert len(found) <= 3
    assert all(0 <= hit.score <= 1 for hit in found)


SHARED = Searcher(HashEmbedder(), cache=False)


def test_threads_that_search_while_tools_come_and_go_all_get_answers(hybrid):
    registry = ToolRegistry(TOOLS)
    wrong, done = [], threading.Event()

    def look():
        while not done.is_set():
            if names(hybrid.search(registry.snapshot, "send_email", k=1)) != ["office::send_email"]:
                wrong.append("not found")

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(10):
        registry.add(Tool(f"extra_{number}", "more", f"Extra tool number {number}"))
        if number % 3 == 0:
            registry.remove(f"more::extra_{number}")
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_registry_searches_with_what_it_keeps_for_it():
    registry = ToolRegistry(TOOLS)
    assert registry.searcher is registry.searcher
    assert registry.search("book_hotel", k=1)[0].tool is registry.get("travel::book_hotel")[0]
    assert registry.search("book_hotel", k=3, namespace="math", tags=["none"]) == []
