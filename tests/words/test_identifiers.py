"""Names are split and compared alike wherever that is done."""

import pytest
from hypothesis import given, strategies as st

from toolyard.words.identifiers import plain_letters, snake_case, split_ascii_identifier, split_identifier

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
