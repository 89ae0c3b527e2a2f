"""What can be given where something else is asked for, and how."""

import pytest

from toolyard.insight.dataflow.match import fit_types
from toolyard.insight.dataflow.paths import ARRAY, BOOLEAN, INTEGER, NUMBER, OBJECT, SCALAR, STRING


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
