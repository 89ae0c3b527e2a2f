"""Texts become vectors only where they could make a difference, and each once."""

import numpy as np
import pytest

from tests.insight.dataflow.builders import TEXT, WHOLE, tool
from toolyard.insight.dataflow import match
from toolyard.insight.dataflow.match import TOKENS, build_tables, token_vectors
from toolyard.insight.dataflow.profile import build_value_text, read_profile


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
def test_text_is_the_name_and_the_beginning_of_the_description_on_one_line(description, text):
    found = build_value_text("user id", description)
    assert found[: len(text)] == text
    assert len(found) <= len("user id: ") + 160


def test_only_texts_of_values_that_may_match_are_embedded():
    asked = []

    def vectors(texts):
        asked.extend(texts)
        return token_vectors(texts)

    giver = tool("get_user", gives={"user_id": {**TEXT, "description": "Whose"}, "shoe_size": WHOLE, "hat": TEXT})
    taker = tool("drop_user", {"user_id": TEXT, "reason": TEXT})
    tables = build_tables([read_profile(giver), read_profile(taker)])
    assert len(match.match_kinds(tables, np.zeros(2, np.int32), vectors, TOKENS, 0.0).inputs) == 1
    assert sorted(asked) == ["user id", "user id: Whose"]


def test_without_pairs_nothing_is_embedded():
    tables = build_tables([read_profile(tool("give", gives={"user_id": TEXT}))])
    nobody = match.match_kinds(
        tables, np.zeros(1, np.int32), lambda texts: pytest.fail(f"asked for {texts}"), TOKENS, 0.0
    )
    assert len(nobody.inputs) == 0
