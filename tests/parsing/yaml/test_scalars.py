"""Plain scalars follow the core schema of YAML 1.2 and nothing of 1.1."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolyard.parsing.yaml_text import CORE_TAG, plain_scalar, tagged_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        ("0", 0), ("010", 10), ("-0", 0), ("+12", 12), ("0o17", 15), ("0x1F", 31), ("9" * 30, int("9" * 30)),
        ("1e3", 1000.0), ("12e03", 12000.0), (".5", 0.5), ("1.", 1.0), ("-0.0", -0.0), ("+.5E-1", 0.05), ("1e-400", 0.0),
    ],
)  # fmt: skip
def test_these_are_not_text(text: str, value: object) -> None:
    parsed = plain_scalar(text)
    assert (type(parsed), repr(parsed)) == (type(value), repr(value))


@pytest.mark.parametrize(
    "text",
    [
        "yes", "no", "on", "off", "Yes", "y", "N", "tRUE", "nULL", "none", "2024-01-02", "2001-12-14t21:59:43.10-05:00", "12:30:00", "1:30",
        "1_000", "_1", "0b1", "0O17", "0X1F", "-0x1F", "+0o7", "0x", "0o8", "0xG", ".", ".e3", "e3", "1e", "1e+", "+-1", "--", "+", "-",
        "1.2.3", "1,000", ".Inf.", ".iNf", "+.nan", "inf", "NaN", "=", "<<", "1 2", "१२", "²", "1\n", " 1", "trueish", "null ",
    ],
)  # fmt: skip
def test_these_are_text(text: str) -> None:
    assert plain_scalar(text) == text
    assert isinstance(plain_scalar(text), str)


@pytest.mark.parametrize(("text", "value"), [("600e27371700", "600e27371700"), ("12e03", 12e03), ("12e307", 12e307)])
def test_a_hash_that_looks_like_a_number_beyond_every_float_is_text(text: str, value: object) -> None:
    assert plain_scalar(text) == value


@pytest.mark.parametrize("text", [".inf", ".Inf", ".INF", "-.inf", "+.INF", ".nan", ".NaN", ".NAN", "1e400", "-1e999"])
def test_numbers_that_are_not_finite_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="finite"):
        plain_scalar(text)


def test_integers_are_limited_by_their_value_not_their_spelling() -> None:
    assert plain_scalar("9" * 4300) == int("9" * 4300)
    assert plain_scalar("0" * 9000 + "7") == 7
    assert plain_scalar("0x" + "f" * 3571) == int("f" * 3571, 16)
    for text in ("1" + "0" * 4300, "-1" + "0" * 4300, "0x" + "f" * 3572, "0o" + "7" * 4765):
        with pytest.raises(ValueError, match="4,300 digits"):
            plain_scalar(text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("str", "12", "12"),
        ("int", "12", 12),
        ("float", "3", 3.0),
        ("bool", "true", True),
        ("null", "", None),
        ("null", "~", None),
        ("binary", "2Q==", "2Q=="),
        ("binary", "R0lG\n ODdh\n", "R0lGODdh"),
        ("merge", "<<", "<<"),
    ],
)
def test_standard_tags_are_honoured(kind: str, text: str, value: object) -> None:
    parsed = tagged_scalar(CORE_TAG + kind, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("tag", "text", "reason"),
    [
        (CORE_TAG + "int", "x", "not a !!int"),
        (CORE_TAG + "int", "1.5", "not a !!int"),
        (CORE_TAG + "bool", "yes", "not a !!bool"),
        (CORE_TAG + "null", "x", "not a !!null"),
        (CORE_TAG + "float", "one", "not a !!float"),
        (CORE_TAG + "merge", "x", "tag !!merge"),
        (CORE_TAG + "timestamp", "2024-01-02", "tag !!timestamp"),
        (CORE_TAG + "python/name:os.system", "", "tag !!python/name:os.system"),
        ("!mine", "x", "tag !mine"),
        ("int", "1", "tag int"),
    ],
)
def test_other_tags_and_values_that_do_not_fit_are_refused(tag: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        tagged_scalar(tag, text)


def test_a_lone_exclamation_mark_means_text() -> None:
    assert tagged_scalar("!", "12") == "12"


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans()))
def test_what_python_prints_is_read_back(value: float | int | bool) -> None:
    parsed = plain_scalar(str(value))
    assert parsed == value
    assert type(parsed) is type(value)
