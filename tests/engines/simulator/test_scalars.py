"""Text written from regular expressions, checked with those of the validator."""

import pytest
from hypothesis import given, strategies as st

from toolyard.engines.simulator.draw import Draw
from toolyard.engines.simulator.scalars import Unreadable, writer_of
from toolyard.schema.compile import compile_schema

PATTERNS = [
    "^AC[0-9a-fA-F]{32}$",
    "^[UW][A-Z0-9]{8,}$|^$",
    "(arn:aws(-cn)?:billing::[0-9]{12}:group/)?[a-zA-Z0-9]{10}",
    "^\\+[1-9]\\d{1,14}$",
    "^([\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]*)$",
    "^[a-zA-Z0-9-_$:.]*$",
    "\\d{4}-(0?[1-9]|1[012])",
    "^[^\\s\\d]+$",
    "^s3:\\/\\/(.+)$",
    "^(?<year>\\d{4})(?:-(?:0[1-9]))?$",
    "^\\x41\\u0042[\\]\\-^]$",
    "^\\S+( +\\S+)*$",
    "a{2}b{,3}c{1,2}?",
    "^\\w\\W\\s\\S\\D$",
    "^{x}$",
    "^\\[[^[]*\\]$",
    "^[(?<name>[]+$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_written_matches(pattern):
    write = writer_of(pattern)
    try:
        check = compile_schema({"pattern": pattern}).is_valid
    except ValueError:
        return  # the validator reads it otherwise, or not at all
    texts = [write(Draw(b"%d" % seed), 6, False) for seed in range(30)]
    assert all(map(check, texts)), texts


@pytest.mark.parametrize("pattern", ["(", "a)", "[a", "\\", "(?:a", "\\x4"])
def test_what_is_broken_is_refused(pattern):
    with pytest.raises(Unreadable):
        writer_of(pattern)


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(pattern):
    try:
        write = writer_of(pattern)
    except Unreadable:
        return
    assert isinstance(write(Draw(b"x"), 3, False), str)
