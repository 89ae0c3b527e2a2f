"""What can be given where something else is asked for, and how; and which texts are compared."""

import numpy as np
import pytest

from tests.insight.dataflow.builders import TEXT, WHOLE, tool
from toolyard.insight.dataflow import match
from toolyard.insight.dataflow.match import TOKENS, build_tables, fit_types, token_vectors
from toolyard.insight.dataflow.paths import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, SCALAR, STRING
from toolyard.insight.dataflow.profile import build_value_text, read_profile


@pytest.mark.parametrize(
    ("given", "wanted", "how"),
    [
        ((STRING, 0, 0), (STRING, 0, 0, True), "direct"),
        ((INTEGER, 0, 0), (STRING, 0, 0, True), "direct"),
        ((STRING, 0, 1), (STRING, 0, 0, True), "each"),
        ((STRING, 0, 1), (STRING, 0, 0, False), "first"),
        ((ARRAY, STRING, 0), (STRING, 0, 0, True), "each"),
        ((ARRAY, STRING, 0), (ARRAY, STRING, 0, True), "direct"),
        ((STRING, 0, 1), (ARRAY, STRING, 0, True), "direct"),
        ((STRING, 0, 0), (ARRAY, STRING, 0, True), "wrap"),
        ((STRING, 0, 1), (STRING, 0, 1, False), "direct"),
        ((SCALAR, 0, 0), (INTEGER, 0, 0, True), "direct"),
        ((OBJECT, 0, 0), (OBJECT, 0, 0, True), "direct"),
    ],
)
def test_fitting_types_say_how_the_value_is_passed_on(given, wanted, how):
    score, way = fit_types(*given, *wanted)
    assert way == how
    assert score > 0.5


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((BOOLEAN, 0, 0), (STRING, 0, 0, True)),
        ((STRING, 0, 0), (BOOLEAN, 0, 0, True)),
        ((OBJECT, 0, 0), (STRING, 0, 0, True)),
        ((STRING, 0, 0), (OBJECT, 0, 0, True)),
        ((ARRAY, OBJECT, 0), (STRING, 0, 0, True)),
        ((ARRAY, 0, 0), (STRING, 0, 0, True)),
    ],
)
def test_unfit_types_score_zero(given, wanted):
    assert fit_types(*given, *wanted)[0] == 0


def test_equal_types_score_higher_than_convertible_ones():
    exact, near, far = (
        fit_types(*given, INTEGER, 0, 0, True)[0] for given in ((INTEGER, 0, 0), (NUMBER, 0, 0), (STRING, 0, 0))
    )
    assert exact > near > far > 0


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
