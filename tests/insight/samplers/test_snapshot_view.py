"""What samplers know of a snapshot: content words, how alike tools are (the same number everywhere), edges."""

import numpy as np
import pytest

from tests.insight.samplers.registries import registry, tool
from toolyard.insight.arrays import LEVELS, find_highest, round_rows
from toolyard.insight.embeddings.vectors import read_embedding_matrix
from toolyard.insight.samplers.snapshot_view import (
    ContentWords,
    ToolLikeness,
    compare_words,
    content_words,
    snapshot_view_of,
)
from toolyard.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("mail Bob", True),
        ("an e-mail", True),
        ("Emailing them", True),
        ("send a letter", True),
        ("translate it", False),
        ("to Bob", False),
        ("information about data 5", False),
    ],
)
def test_words_match_by_stem_prefix_or_suffix(text, shares):
    assert ContentWords([tool("send_email", description="Information and data 5 about mails")]).shared(
        text
    ).tolist() == [shares]


def test_names_descriptions_aliases_and_tags_count_each_for_its_tool():
    given = [tool("a1"), tool("b1", description="Translates"), tool("c1").replace(aliases=("to-do",), tags=("lists",))]
    content = ContentWords(given)
    assert content.shared("translation of a todo").tolist() == [False, True, True]
    assert content.shared("list").tolist() == [False, False, True]
    assert content.shared("").tolist() == [False, False, False]


def test_hyphenated_words_also_count_without_hyphens():
    assert content_words("a Wi-Fi to-do") == ["wi", "fi", "wifi", "todo"]


def test_cosines_are_exact_whatever_the_order_of_addition():
    vectors = round_rows(np.random.default_rng(1).normal(size=(50, 1536)))
    turned = vectors[:, ::-1]
    assert np.array_equal(vectors @ vectors.T, np.ascontiguousarray(turned) @ np.ascontiguousarray(turned).T)
    exact = vectors.astype(np.int64) @ vectors.astype(np.int64).T
    assert np.array_equal((vectors @ vectors.T).astype(np.int64), exact)
    assert exact.max() < 2**24


def test_similarities_are_cosines():
    rows = np.random.default_rng(2).normal(size=(20, 30))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    likeness = ToolLikeness(rows * 7, "embeddings")
    assert likeness.to(3) == pytest.approx(np.maximum(unit @ unit[3], 0), abs=2e-3)
    assert likeness.similarity_to_any([3, 5]) == pytest.approx(np.maximum(likeness.to(3), likeness.to(5)))
    assert LEVELS == 4000


def test_highest_takes_the_first_of_equals():
    assert sorted(find_highest(np.array([1, 3, 2, 3, 2]), 3).tolist()) == [1, 2, 3]
    assert find_highest(np.array([1, 2]), 5).tolist() == [0, 1]


def test_words_of_names_descriptions_and_parameters_count():
    given = [
        tool("getWeather", description="Current weather of a city", required=["city"]),
        tool("weather_forecast", description="Weather of the next days in cities", required=["city"]),
        tool("send_mail", description="Send a message", required=["to"]),
        tool("書く", description="文字を書く"),
    ]
    likeness = compare_words(given)
    scores = likeness.to(0)
    assert scores[1] > 0.3 > scores[2]
    assert likeness.kind == "words"


def test_a_plain_mapping_is_accepted_as_embeddings():
    given = [tool("a"), tool("b")]
    mapping = {one.qualified_name: {one.fingerprint: [1.0, at]} for at, one in enumerate(given)}
    assert ToolLikeness(read_embedding_matrix(mapping, given), "embeddings").to(0) == pytest.approx(
        [1, 0.7071], abs=1e-3
    )


def test_an_incomplete_or_invalid_mapping_is_refused_with_a_message():
    given = [tool("a"), tool("b")]
    short, long = ({one.fingerprint: vector} for one, vector in zip(given, ([1.0], [1.0, 2.0]), strict=True))
    for mapping in (
        {},
        {"n::a": 1, "n::b": 2},
        dict(zip([one.qualified_name for one in given], (short, long), strict=True)),
    ):
        with pytest.raises(ConfigError, match="'embeddings' must have a vector for every tool"):
            read_embedding_matrix(mapping, given)


GIVEN = [tool("a"), tool("b"), tool("a", required=["x"]), tool("c", "m"), tool("d")]
EDGES = [(0, 1, 0.9), (1, 0, 0.4), (0, 2, 0.9), (1, 3, 0.8), (4, 1, 0.9)]


def graph(min_score=0.0, spaces=("n", "m")):
    return snapshot_view_of(registry(GIVEN, EDGES).snapshot).graph(min_score, spaces)


def test_edges_go_forward_and_back_best_first_and_never_between_overloads():
    made = graph()
    assert [[place for place, _ in row] for row in made.out] == [[1], [3, 0], [], [], [1]]
    assert [[place for place, _ in row] for row in made.into] == [[1], [0, 4], [], [1], []]
    assert made.linked == (0, 1, 3, 4)
    assert made.sources == (0, 1, 4)
    assert made.reach == [4, 4, 1, 4, 4]
    assert made.hubs(True, 2) == [1]
    assert made.hubs(False, 2) == [1]
    assert [edge.target for edge in made.path([0, 1, 3])] == ["n::b", "m::c"]


def test_weak_edges_and_namespaces_are_left_out():
    assert [[place for place, _ in row] for row in graph(0.5).out] == [[1], [3], [], [], [1]]
    assert [[place for place, _ in row] for row in graph(0.0, ("n",)).out] == [[1], [0], [], [], [1]]


def test_graphs_are_cached_up_to_a_limit():
    made = registry(GIVEN, EDGES)
    world = snapshot_view_of(made.snapshot)
    assert snapshot_view_of(made.snapshot) is world
    assert world.graph(0.5, ("n",)) is world.graph(0.5, ("n",))
    first = world.graph(0.0, ("n", "m"))
    for number in range(20):
        world.graph(number / 100 + 0.01, ("n", "m"))
    assert world.graph(0.0, ("n", "m")) is not first
    assert world.named("n", "a") == (0, 2)
    assert world.named("n", "zzz") == ()
    assert world.namesakes("c") == (3,)
