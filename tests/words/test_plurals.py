"""What one of several things is called."""

import pytest

from toolyard.words.identifiers import is_plural, plural, singular


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
def test_plurals_are_recognised_by_their_ending(several, one):
    assert singular(several) == one


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("user", "users"),
        ("city", "cities"),
        ("box", "boxes"),
        ("person", "people"),
        ("key", "keys"),
        ("movie", "movies"),
        ("topic", "topics"),
    ],
)
def test_singular_and_plural_are_inverse(one, many):
    assert singular(many) == one and plural(one) == many
    assert is_plural(many) and not is_plural(one)


@pytest.mark.parametrize("word", ["status", "address", "news", "analysis", "bus", "class"])
def test_words_ending_in_s_are_not_all_plural(word):
    assert not is_plural(word) and singular(word) == word
