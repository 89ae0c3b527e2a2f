"""Names of values and of tools say what they are about."""

import pytest
from hypothesis import given, strategies as st

from toolyard.insight.dataflow.names import find_owner, read_name, tool_nouns


@pytest.mark.parametrize(
    ("name", "attribute", "name_owner"),
    [
        ("user_id", "id", ("user",)),
        ("userIDs", "id", ("user",)),
        ("id", "id", ()),
        ("service_plan_name", "name", ("service", "plan")),
        ("created_at", "created_at", ()),
        ("number_of_items", "count", ("item",)),
        ("friendly_name", "friendly_name", ()),
    ],
)
def test_a_name_says_what_a_value_is_and_whose(name, attribute, name_owner):
    found = read_name(name)
    assert (found.attribute, found.name_owner) == (attribute, name_owner)


@pytest.mark.parametrize("name", ["limit", "next_cursor", "x-request-id", "X-Tenant", "", "__"])
def test_how_to_page_and_sign_and_nothing_at_all_are_no_names_of_values(name):
    assert read_name(name) is None


def test_a_name_that_ends_as_lists_do_says_of_what():
    assert read_name("tag_list").item_words == ("tag",)
    assert read_name("tag").item_words == ()


@pytest.mark.parametrize(
    ("name", "nouns"),
    [
        ("list_team_members", [("team", "member")]),
        ("get-accounts-id-limits", [("account",), ("limit",)]),
        ("users/list-for-repo", [("user",)]),
        ("getOrderDetails", [("order",)]),
        ("set_timer", [("timer",)]),
        ("get_sets", [("set",)]),
        ("ping", [("ping",)]),
    ],
)
def test_a_name_says_what_a_tool_is_about(name, nouns):
    assert tool_nouns(name) == nouns


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
    assert find_owner(description) == owner


@given(st.text(max_size=120))
def test_no_text_is_too_odd(description):
    assert len(find_owner(description)) <= 3


def test_letters_that_are_longer_in_lower_case_do_no_harm():
    assert find_owner("\u0130 the id of the user") == ("user",)
