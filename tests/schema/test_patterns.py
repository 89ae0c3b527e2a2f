"""Patterns run on no more text than the time of a verdict allows, and counted classes become limits of the length."""

import pytest
from hypothesis import given, strategies as st

from toolyard.schema.admission import admit_schema
from toolyard.schema.compile import compile_schema, read_pattern, split_length
from toolyard.schema.weight import STEPS, pattern_steps

LONG = "(a|b)*a(a|b){5000}c"
TOO_COSTLY = "may take more than"


def judged(pattern, **values):
    schema = {"type": "object", "properties": {"text": {"type": "string", "pattern": pattern}}}
    compiled = compile_schema(schema)
    return compiled.accepts(values), [violation.message[:18] for violation in compiled.violations(values)]


@pytest.mark.parametrize(
    ("pattern", "positions"),
    [
        ("abcdefgh", 8),
        ("[abc]{8}", 8),
        (r"(\d{4}-){2}", 10),
        (r"((a{10}){10}){10}", 1000),
        (r"\p{L}{7}", 7),
        (r"[\]a-z]{7,}", 8),
        (r"(?<year>\d{4})|(?:x{3})", 7),
        (r"(?i)\u{61}\(\[.{5}", 8),
        ("a{0,9}", 9),
        ("a{0}bcdefgh", 8),
    ],
)
def test_counted_repetitions_multiply_the_positions(pattern, positions):
    assert pattern_steps(pattern) == (3.0 * positions, 0.0)


@pytest.mark.parametrize(
    "pattern", ["^[A-Za-z0-9+/]*={0,2}$", ".*", r"^(?!\s*$).+", "^(?=.*[0-9])(?!.*x).", "", ")", "("]
)
def test_a_short_pattern_takes_any_text_that_a_request_can_have(pattern):
    letters, restarts = pattern_steps(pattern)
    assert letters * 4 * 1024 * 1024 <= STEPS and not restarts


@pytest.mark.parametrize(
    "pattern", ["(?=.*x)a", r"(a*)\1b", "^a(?!b)", r"^(?:(?=.*x).)*$", "^(?=(?!a)b)c", r"^(?=(a))\1", "(?<!a)b"]
)
def test_a_pattern_that_looks_around_may_begin_anew_at_every_character(pattern):
    assert pattern_steps(pattern)[1] > 0


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(LONG, "ab" * 20_000), ("(?=.*x)a", "a" * 40_000), (r"^\d{20}$", "1" * 100_000)],
)
def test_a_text_that_is_too_long_for_its_pattern_is_refused_unseen(pattern, text):
    assert judged(pattern, text=text) == (False, [TOO_COSTLY])
    assert judged(pattern, text=[text]) == (False, ["must be string, no"])


def test_text_that_no_pattern_is_about_may_be_as_long_as_it_likes():
    assert judged(LONG, text="a" * 5_001 + "c", other="x" * 1_000_000)[1] == [TOO_COSTLY]
    assert judged(LONG, text="ac", other="x" * 1_000_000) == (False, ["must match the pat"])
    assert judged(r"^\d{20}$", text="1" * 20, other="x" * 1_000_000) == (True, [])


def test_names_are_text_too():
    compiled = compile_schema({"type": "object", "patternProperties": {LONG: {"type": "integer"}}})
    assert not compiled.accepts({"ab" * 20_000: 1})
    assert compiled.accepts({"ab": 1, "c": "x"})


def test_patterns_that_judge_the_same_text_add_up():
    one, two = ({"allOf": [{"pattern": rf"^\d{{{20 + at}}}"} for at in range(count)]} for count in (1, 20))
    assert compile_schema(one).accepts("1" * 9_000)
    assert not compile_schema(two).accepts("1" * 9_000)
    assert compile_schema(two).accepts("1" * 200)


@pytest.mark.parametrize(
    ("schema", "read"),
    [
        ({"pattern": r"^\p{L}{1,64}$"}, {"pattern": r"^\p{L}+$", "minLength": 1, "maxLength": 64}),
        ({"pattern": r"^([\p{L}\p{N}]{0,255})$"}, {"pattern": r"^([\p{L}\p{N}]*)$", "minLength": 0, "maxLength": 255}),
        ({"pattern": r"^\p{L}[\p{L}-]{2,63}$"}, {"pattern": r"^\p{L}[\p{L}-]+$", "minLength": 3, "maxLength": 64}),
        ({"pattern": r"^\p{L}{100}-\d{4}$"}, {"pattern": r"^\p{L}+-\d{4}$", "minLength": 105, "maxLength": 105}),
        ({"pattern": r"^\p{L}{100,}$"}, {"pattern": r"^\p{L}+$", "minLength": 100}),
        (
            {"pattern": r"^\p{L}{1,64}$", "minLength": 2, "maxLength": 10},
            {"pattern": r"^\p{L}+$", "minLength": 2, "maxLength": 10},
        ),
        ({"pattern": r"^\p{L}{1,8}$"}, {"pattern": r"^\p{L}{1,8}$"}),
        ({"pattern": r"^\p{L}{1,64} \p{L}{1,64}$"}, None),
        ({"pattern": r"^(?:\p{L}-){1,64}$"}, None),
        ({"pattern": r"^\p{L}{64,1}$"}, None),
        ({"pattern": r"^\p{L}{1,64}$", "maxLength": "10"}, None),
    ],
)
def test_a_count_that_is_too_large_to_compile_becomes_limits_of_the_length(schema, read):
    assert read_pattern(schema) == read


PARTS = st.lists(st.sampled_from(["a", "[ab]", r"\w", ".", r"[^a\]]", "é"]), min_size=1, max_size=3)


@given(PARTS, st.integers(0, 2), st.sampled_from(["{2}", "{0,2}", "{1,3}", "{2,}"]), st.text("abé]-", max_size=8))
def test_a_pattern_and_its_split_form_accept_the_same_text(parts, place, count, text):
    place = min(place, len(parts) - 1)
    pattern = f"^{''.join(parts[: place + 1])}{count}{''.join(parts[place + 1 :])}$"
    split = split_length(pattern)
    assert compile_schema({"pattern": pattern}).is_valid(text) is (
        compile_schema({"pattern": split.pattern}).is_valid(text) and split.least <= len(text) <= split.most
    )


@pytest.mark.parametrize(
    "pattern", ["^a{2}?$", "a{2}", "^a|b{2}$", r"^\b{2}$", r"^\uD83D\uDE00{2}$", r"^(a)\1{2}$", "^(?=a)a{2}$", "^{2}$"]
)
def test_parts_that_are_not_exactly_one_character_cannot_be_split(pattern):
    assert split_length(pattern) is None


def test_a_schema_with_a_counted_unicode_class_is_admitted_with_a_note():
    admitted = admit_schema({"type": "object", "properties": {"name": {"type": "string", "pattern": r"^\p{L}{1,64}$"}}})
    assert [(change.pointer, change.what) for change in admitted.changes] == [
        ("/properties/name/pattern", "its count of characters moved to minLength and maxLength")
    ]
    compiled = compile_schema(admitted.schema)
    verdicts = [compiled.is_valid({"name": name}) for name in ("é" * 64, "é" * 65, "", "a1")]
    assert verdicts == [True, False, False, False]
