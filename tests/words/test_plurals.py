"""What one of several things is called."""

import pytest

from toolyard.words.plurals import singular


@pytest.mark.parametrize(
    ("several", "one"),
    [
        ("boxes", "box"),
        ("cities", "city"),
        ("pets", "pet"),
        ("status", "status"),
        ("glass", "glass"),
        ("sizes", "size"),
    ],
)
def test_a_plural_is_told_by_its_ending(several, one):
    assert singular(several) == one
