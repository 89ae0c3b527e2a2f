"""Words: split off names, and in their other forms."""

import pytest

from toolyard.insight.outputs.words import base_verb, is_plural, joined, participle, plural, singular, words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getUserID", ["get", "user", "id"]),
        ("HTTPServer_status2", ["http", "server", "status", "2"]),
        ("a.b-c d", ["a", "b", "c", "d"]),
        ("工具", []),
    ],
)
def test_names_fall_into_words(name, words):
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("user", "users"),
        ("city", "cities"),
        ("box", "boxes"),
        ("person", "people"),
        ("key", "keys"),
        ("movie", "movies"),
    ],
)
def test_nouns_have_two_numbers(one, many):
    assert singular(many) == one and plural(one) == many
    assert is_plural(many) and not is_plural(one)


@pytest.mark.parametrize("word", ["status", "address", "news", "analysis", "bus", "class"])
def test_not_every_s_is_a_plural(word):
    assert not is_plural(word) and singular(word) == word


@pytest.mark.parametrize(
    ("word", "verb"),
    [("retrieves", "retrieve"), ("searches", "search"), ("verifies", "verify"), ("booking", "book"), ("table", None)],
)
def test_verbs_are_known_in_their_forms(word, verb):
    assert base_verb(word) == verb


def test_participles_and_names_are_put_together():
    assert [participle(verb) for verb in ("encrypt", "resize", "crop", "simplify", "rewrite")] == [
        *("encrypted", "resized", "cropped", "simplified", "rewritten")
    ]
    assert joined(["user", "id"], camel=False) == "user_id"
    assert joined(["user", "id"], camel=True) == "userId"
    assert joined(["it's", "", "ok!"], camel=False) == "its_ok"
