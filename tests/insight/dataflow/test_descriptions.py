"""Descriptions say whose a value is."""

import pytest
from hypothesis import given, strategies as st

from toolyard.insight.dataflow.descriptions import owner_in


@pytest.mark.parametrize(
    ("description", "owner"),
    [
        ("The unique identifier of the balance account to use.", ("balance", "account")),
        ("ID of the user", ("user",)),
        ("The ID (a number) of your organisation", ("organization",)),
        ("It identifies the car.", ("car",)),
        ("The team ids", ("team",)),
        ("A list of the project names", ("project",)),
        ("The name of the resource", ()),
        ("The key of", ()),
        ("Whether it is on", ()),
        ("", ()),
    ],
)
def test_the_entity_that_is_named(description, owner):
    assert owner_in(description) == owner


@given(st.text(max_size=120))
def test_no_text_is_too_odd(description):
    assert len(owner_in(description)) <= 3


def test_letters_that_are_longer_in_lower_case_do_no_harm():
    assert owner_in("\u0130 the id of the user") == ("user",)
