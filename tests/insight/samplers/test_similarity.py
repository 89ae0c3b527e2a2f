"""How alike two tools are, as a number that is the same everywhere."""

import numpy as np
import pytest

from tests.insight.samplers.registries import tool
from toolyard.insight.samplers.snapshot_view import (
    LEVELS,
    ToolLikeness,
    compare_words,
    find_highest,
    read_embedding_matrix,
    round_rows,
)
from toolyard.model.errors import ConfigError


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
