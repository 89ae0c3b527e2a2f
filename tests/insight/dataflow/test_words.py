"""Identifiers, however they are written, give the same words."""

import pytest
from hypothesis import given, strategies as st

from tests.insight.dataflow.yard import TEXT, tool
from toolyard.insight.dataflow import names
from toolyard.insight.dataflow.edges import compute_edges, limits_of
from toolyard.insight.dataflow.match import token_vectors
from toolyard.insight.dataflow.names import forget, forget_too_many, remembered, words_of
from toolyard.insight.dataflow.profile import told_of
from toolyard.words.plurals import singular


@pytest.mark.parametrize("name", ["user_ids", "userIds", "userIDs", "User-Ids", "USER_ID", "user.id", "userId"])
def test_one_identifier_in_every_style_gives_the_same_words(name):
    assert words_of(name) == ("user", "id")


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
        ("", ()),
    ],
)
def test_abbreviations_are_written_out(name, words):
    assert "".join(words_of(name)) == "".join(words)


@pytest.mark.parametrize(
    ("many", "one"),
    [("cities", "city"), ("boxes", "box"), ("users", "user"), ("status", "status"), ("address", "address")],
)
def test_plurals_become_singular_and_nothing_else_does(many, one):
    assert singular(many) == one


@given(st.text(max_size=40))
def test_any_text_has_words(name):
    words = words_of(name)
    assert all(word == word.lower() and word for word in words)


def counting(most):
    asked = []

    @remembered(most)
    def double(number):
        asked.append(number)
        return 2 * number

    return double, asked


def test_each_thing_is_worked_out_once():
    double, asked = counting(10)
    assert [double(number) for number in (1, 2, 1, 2, 3)] == [2, 4, 2, 4, 6]
    assert asked == [1, 2, 3]


def test_as_many_as_are_allowed_are_kept_for_the_next_run():
    double, asked = counting(3)
    for number in (1, 2, 3):
        double(number)
    forget_too_many()
    double(2)
    assert asked == [1, 2, 3]


def test_when_there_are_too_many_the_next_run_begins_again():
    double, asked = counting(3)
    for number in (1, 2, 3, 4):
        double(number)
    forget_too_many()
    double(2)
    assert asked == [1, 2, 3, 4, 2]


def test_after_a_run_over_more_names_than_are_kept_they_are_gone(monkeypatch):
    forget()
    monkeypatch.setattr(names, "_MEMOS", [one._replace(most=5) for one in names._MEMOS])
    wide = [tool("get_order", takes={f"field_{'x' * number}": TEXT for number in range(1, 8)})]
    told_of(wide[0])
    assert max(one.work.cache_info().currsize for one in names._MEMOS) > 5
    compute_edges(wide, map(told_of, wide), token_vectors, limits_of(0.5, 10))
    assert max(one.work.cache_info().currsize for one in names._MEMOS) <= 5


def test_all_is_worked_out_anew_once_it_is_forgotten():
    double, asked = counting(3)
    double(1)
    forget()
    assert double(1) == 2
    assert asked == [1, 1]
