"""Search: words of names, descriptions and tags, found without looking at every tool."""

from hypothesis import given, strategies as st

from toolyard import Tool, ToolRegistry
from toolyard.serving.routes.catalog import MOST_WORDS, index_words


def found(tools, words):
    snapshot = ToolRegistry(tools).snapshot
    scores = index_words(snapshot).search(words)
    return [snapshot.tools[place].name for place in sorted(scores, key=lambda place: (-scores[place], place))]


def test_words_in_a_name_count_more_than_words_in_a_description():
    tools = [Tool("other", "x", "about rain"), Tool("rain", "x", "something")]
    assert found(tools, "RAIN") == ["rain", "other"]
    assert found(tools, "snow") == []
    assert found(tools, "  ") == []


def test_the_beginning_of_a_word_finds_it_and_a_whole_word_finds_only_itself():
    tools = [Tool("forecast", "x"), Tool("fore", "x")]
    assert sorted(found(tools, "forec")) == ["forecast"]
    assert found(tools, "fore") == ["fore"]


def test_tags_aliases_and_namespaces_are_searched_too():
    tools = [Tool("a", "weather"), Tool("b", "x", tags=("rainy",)), Tool("c", "x", aliases=("umbrella",))]
    assert (found(tools, "weather"), found(tools, "rainy"), found(tools, "umbrella")) == (["a"], ["b"], ["c"])


def test_words_beyond_the_limit_cost_nothing():
    tools = [Tool("last", "x")]
    assert found(tools, "last x") == ["last"]
    assert found(tools, " ".join(["last", *(f"w{number}" for number in range(MOST_WORDS - 1))])) == []
    assert found(tools, " ".join(["last"] * MOST_WORDS + ["nothing"])) == ["last"]


def test_a_snapshot_is_indexed_once():
    snapshot = ToolRegistry([Tool("a", "x")]).snapshot
    assert index_words(snapshot) is index_words(snapshot)


@given(st.lists(st.text("abc ", max_size=6), max_size=6), st.text("abc ", max_size=8))
def test_a_tool_is_found_exactly_if_it_has_every_word_or_the_beginning_of_one_that_nobody_has(descriptions, words):
    tools = [Tool(f"t{number}z", "y", text) for number, text in enumerate(descriptions)]
    vocabulary = {word for text in descriptions for word in text.split()}
    wanted = words.split()[:MOST_WORDS]

    def fits(text):
        return wanted and all(
            word in text.split() if word in vocabulary else any(other.startswith(word) for other in text.split())
            for word in wanted
        )

    assert set(found(tools, words)) == {f"t{number}z" for number, text in enumerate(descriptions) if fits(text)}
