"""tc/irrelevant: tools of which none does what is needed."""

import numpy as np
import pytest

from tests.insight.samplers.registries import names, qualified, registry, tool
from toolyard import SamplingError
from toolyard.insight.samplers.neighbor import IrrelevantSampler

GROUPS = np.repeat(np.eye(5), 4, axis=0)
WORDS = [
    tool("get_weather", description="Current weather of a city"),
    tool("weather_forecast", description="Weather forecast for a city"),
    tool("send_mail", description="Send a message to a person"),
    tool("play_song", description="Play some music"),
    tool("book_table", description="Reserve a table in a restaurant"),
]


def test_irrelevant_tools_are_dissimilar_to_the_needed_tool():
    sampler = IrrelevantSampler(registry(20, vectors=GROUPS), k=5)
    for drawn in sampler.series(50, seed=1):
        needed = int(drawn.details["needed"].removeprefix("n::t"))
        assert all(int(name[1:]) // 4 != needed // 4 for name in names(drawn))
        assert drawn.roles == ("irrelevant",) * 5
        assert drawn.score < 0.6
        assert drawn.topology == "irrelevant"


def test_the_needed_tool_may_be_given():
    drawn = IrrelevantSampler(registry(20, vectors=GROUPS), k=16, tool="n::t5").sample()
    assert drawn.details["needed"] == "n::t5"
    assert {int(name[1:]) // 4 for name in names(drawn)} == {0, 2, 3, 4}
    with pytest.raises(SamplingError, match="not enough tools that do not fit") as caught:
        IrrelevantSampler(registry(20, vectors=GROUPS), k=17, tool="n::t5").sample()
    assert len(caught.value.tools) == 16


def test_the_need_may_be_given_as_a_query():
    sampler = IrrelevantSampler(registry(WORDS), k=3, query="What is the weather in Paris?")
    for drawn in sampler.series(20, seed=1):
        assert not {"get_weather", "weather_forecast"} & set(names(drawn))
        assert drawn.details == {"query": "What is the weather in Paris?", "likeness": "query"}


@pytest.mark.parametrize("vectors", [None, np.eye(10)])
@pytest.mark.parametrize("query", ["what do you know about the moon", "information about the stars", "bake some bread"])
def test_common_words_do_not_count_as_shared(query, vectors):
    things = ("cats", "dogs", "cars", "jobs", "food", "wine", "boats", "math", "poems", "taxes")
    given = [tool(f"get_{thing}", description=f"Get information about {thing}.", required=["x"]) for thing in things]
    made = registry(given, vectors=vectors)
    assert len(IrrelevantSampler(made, k=10, query=query).sample(seed=1)) == 10
    drawn = IrrelevantSampler(made, k=9, query="information about the dogs").sample(seed=1)
    assert "get_dogs" not in names(drawn)


def test_if_all_tools_fit_the_query_there_is_no_sample():
    given = [tool(f"weather_{kind}", description=f"Get the weather {kind}.") for kind in ("now", "daily", "map", "old")]
    sampler = IrrelevantSampler(registry(given), k=1)
    with pytest.raises(SamplingError, match="not enough tools that do not fit"):
        sampler.sample(query="What is the weather like in Paris tomorrow morning?")
    assert len(sampler.sample(4, query="bake some bread")) == 4


def test_a_tool_of_the_same_name_always_fits():
    given = [tool("search", "a", "Find people"), tool("search", "b", "Look up songs"), tool("draw", "b", "Paint")]
    drawn = IrrelevantSampler(registry(given, vectors=np.eye(3)), k=1, tool="a::search").sample()
    assert qualified(drawn) == ["b::draw"]


def test_hardness_selects_how_similar_irrelevant_tools_are():
    angles = np.linspace(0, np.pi / 2, 60)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    sampler = IrrelevantSampler(registry(60, vectors=vectors), k=4, tool="n::t0", max_score=0.9)
    scores = [np.mean([drawn.score for drawn in sampler.series(20, seed=1, hardness=h)]) for h in (0, 0.5, 1)]
    assert scores[0] < scores[1] < scores[2] < 0.9


def test_max_score_sets_the_limit():
    sampler = IrrelevantSampler(registry(20, vectors=GROUPS + 0.5), k=4, tool="n::t0")
    with pytest.raises(SamplingError):
        sampler.sample(max_score=0.1)
    assert len(sampler.sample(max_score=0.95)) == 4


def test_a_query_and_a_tool_at_once_are_refused():
    with pytest.raises(ValueError, match="a query or a tool, not both"):
        IrrelevantSampler(registry(WORDS), k=2, query="x", tool="n::send_mail").sample()


def test_irrelevant_tools_come_from_the_given_namespaces():
    given = [tool(f"t{at}", "ab"[at % 2]) for at in range(20)]
    sampler = IrrelevantSampler(registry(given, vectors=GROUPS), k=4, namespace="a")
    assert {one.namespace for drawn in sampler.series(20, seed=1) for one in drawn} == {"a"}


OFFICE = [
    tool(name, space, text, [parameter])
    for space in ("p", "q", "z")
    for name, text, parameter in (
        ("get_weather", "Current weather of a city", "city"),
        ("send_email", "Send an email", "to"),
        ("create_issue", "Create an issue", "title"),
        ("search_docs", "Search documents", "query"),
    )
]


@pytest.mark.parametrize("vectors", [None, np.eye(12)])
@pytest.mark.parametrize(
    "query", ["mail Bob", "write an e-mail to Bob", "Emails for Bob", "E-MAIL Bob", "emailing Bob"]
)
def test_tools_sharing_a_word_with_the_query_and_their_namesakes_are_not_irrelevant(query, vectors):
    sampler = IrrelevantSampler(registry(OFFICE, vectors=vectors), k=3, query=query)
    assert not any("send_email" in names(drawn) for drawn in sampler.series(60, seed=1))
    assert len(sampler.sample(9)) == 9
    with pytest.raises(SamplingError, match="not enough tools that do not fit"):
        sampler.sample(10)


def test_a_namesake_of_a_fitting_tool_fits_too():
    given = [tool("notify", "a", "Send a mail"), tool("notify", "b", "Ring a bell"), tool("draw", "b", "Paint")]
    assert qualified(IrrelevantSampler(registry(given), k=1, query="mail Bob").sample()) == ["b::draw"]


@pytest.mark.parametrize("query", ["", "  ", "?!"])
def test_a_query_without_words_is_refused(query):
    with pytest.raises(ValueError, match="has no words; say what is needed"):
        IrrelevantSampler(registry(WORDS)).sample(2, query=query)
