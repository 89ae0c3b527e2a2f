"""Identifiers, however they are written, give the same words."""

import pytest
from hypothesis import given, strategies as st

from toolyard.insight.dataflow.names import name_words
from toolyard.words.identifiers import singular


@pytest.mark.parametrize(
    "name", ["user_ids", "userIds", "userIDs", "User-Ids", "USER_ID", "USER_IDS", "user.id", "userId"]
)
def test_one_identifier_in_every_style_gives_the_same_words(name):
    assert name_words(name) == ("user", "id")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("repo", ("repository",)),
        ("lat", ("latitude",)),
        ("zipCode", ("postal", "code")),
        ("userName", ("user", "name")),
        ("username", ("user", "login")),
        ("HTTPServer", ("http", "server")),
        ("v2Addresses", ("v", "2", "address")),
        ("größe", ("größe",)),
        ("IDSource", ("id", "source")),
        ("S", ("s",)),
        ("", ()),
    ],
)
def test_abbreviations_are_written_out(name, words):
    assert "".join(name_words(name)) == "".join(words)


@pytest.mark.parametrize(
    ("many", "one"),
    [("cities", "city"), ("boxes", "box"), ("users", "user"), ("status", "status"), ("address", "address")],
)
def test_plurals_become_singular_and_nothing_else_does(many, one):
    assert singular(many) == one


@given(st.text(max_size=40))
def test_words_of_any_text_can_be_read(name):
    words = name_words(name)
    assert all(word == word.lower() and word for word in words)
