"""Identifiers are split into words; plurals; what verbs do and return."""

import pytest
from hypothesis import given, strategies as st

from toolyard.words import identifiers as verbs
from toolyard.words.identifiers import (
    is_plural,
    plain_letters,
    plural,
    singular,
    snake_case,
    split_ascii_identifier,
    split_identifier,
)

ASCII = st.text("aZbYcX019_- ", max_size=12)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("petStatus_code2", ["pet", "status", "code", "2"]),
        ("HTTPServer", ["http", "server"]),
        ("userIDs", ["user", "i", "ds"]),
        ("stra\u00dfe", ["stra", "\u00dfe"]),
        ("", []),
    ],
)
def test_a_name_is_split_into_its_words(name, words):
    assert split_identifier(name) == words


@given(ASCII)
def test_both_splitters_agree_on_ascii(name):
    assert split_identifier(name) == split_ascii_identifier(name)


def test_letters_of_other_scripts_stand_between_ascii_words():
    assert split_ascii_identifier("\u00e9Token1") == ["token", "1"]


@pytest.mark.parametrize(("name", "snake"), [("GetHTTPStatus", "get_http_status"), ("add", "add"), ("A2B", "a2_b")])
def test_a_class_name_becomes_a_function_name(name, snake):
    assert snake_case(name) == snake


def test_spellings_of_one_name_are_compared_as_one():
    assert {plain_letters(name) for name in ("petId", "pet_id", "Pet-ID")} == {"petid"}


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


def test_no_verb_is_in_two_rows():
    listed = [verb for row in verbs._VERBS.values() for verb in row.split()]
    assert len(listed) == len(set(listed)) == len(verbs.CRUD_BY_VERB)


def test_verbs_and_methods_say_what_a_call_does():
    assert [verbs.CRUD_BY_VERB[verb] for verb in ("book", "fetch", "browse", "upsert", "erase", "pay")] == [
        *("create", "get", "list", "replace", "delete", "act"),
    ]
    assert verbs.CRUD_BY_METHOD["put"] == "replace" and "post" not in verbs.CRUD_BY_METHOD


@pytest.mark.parametrize(
    ("word", "verb"),
    [("retrieves", "retrieve"), ("searches", "search"), ("verifies", "verify"), ("booking", "book"), ("table", None)],
)
def test_verbs_are_known_in_their_forms(word, verb):
    assert verbs.base_verb(word) == verb
