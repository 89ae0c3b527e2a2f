"""Texts become vectors only where they could make a difference, and each once."""

import numpy as np
import pytest

from tests.insight.dataflow.yard import TEXT, WHOLE, tool
from toolyard.insight.dataflow import match
from toolyard.insight.dataflow.match import TOKENS, Texts, token_vectors
from toolyard.insight.dataflow.profile import text_of, told_of
from toolyard.insight.dataflow.tables import tables_of


@pytest.mark.parametrize(
    ("description", "text"),
    [
        ("", "user id"),
        (" \t\n", "user id"),
        ("Whose it is.", "user id: Whose it is."),
        ("  Whose \n it  is. ", "user id: Whose it is."),
        ("x" * 500, f"user id: {'x' * 160}"),
        (" y" * 500, f"user id: {' y' * 80}".replace(":  ", ": ")),
    ],
)
def test_a_text_is_the_name_and_the_beginning_of_the_description_in_one_line(description, text):
    found = text_of("user id", description)
    assert found[: len(text)] == text
    assert len(found) <= len("user id: ") + 160


def test_only_texts_of_values_that_may_feed_each_other_are_asked_for():
    asked = []

    def vectors(texts):
        asked.extend(texts)
        return token_vectors(texts)

    giver = tool("get_user", gives={"user_id": {**TEXT, "description": "Whose"}, "shoe_size": WHOLE, "hat": TEXT})
    taker = tool("drop_user", {"user_id": TEXT, "reason": TEXT})
    tables = tables_of([told_of(giver), told_of(taker)])
    assert len(match.match_kinds(tables, np.zeros(2, np.int32), vectors, TOKENS, 0.0).inputs) == 1
    assert sorted(asked) == ["user id", "user id: Whose"]


def test_more_texts_may_come_and_those_that_are_known_are_not_asked_for_again():
    animals = ("ant", "bee", "dog", "elk", "fox", "gnu", "hen", "owl")
    fields = {f"{animal}_id": {**TEXT, "description": f"Of {animal}"} for animal in animals}
    tables = tables_of([told_of(tool("give", gives=fields)), told_of(tool("take", fields))])
    asked = []

    def vectors(texts):
        asked.append(list(texts))
        return token_vectors(texts)

    texts = Texts(tables, vectors)
    alike = np.concatenate([texts.alike(np.array([n, 0]), np.array([n, n])) for n in range(8)])
    assert alike[::2] == pytest.approx(np.ones(8), abs=1e-6)
    assert all(0 < each < 0.9 for each in alike[3::2])
    assert [len(some) for some in asked] == [1] * 8
    assert len({text for some in asked for text in some}) == 8


def test_no_pairs_ask_for_nothing():
    tables = tables_of([told_of(tool("give", gives={"user_id": TEXT}))])
    nobody = np.zeros(0, np.int32)
    assert len(Texts(tables, lambda texts: pytest.fail(f"asked for {texts}")).alike(nobody, nobody)) == 0
