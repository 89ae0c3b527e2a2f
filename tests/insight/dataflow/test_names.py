"""Names of values and of tools, however they are written, say what they are about."""

import pytest
from hypothesis import given, strategies as st

from toolyard.insight.dataflow.names import find_owner, name_words, read_name, read_nouns


@pytest.mark.parametrize(
    ("name", "attribute", "owner"),
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
def test_a_name_is_parsed_into_attribute_and_owner(name, attribute, owner):
    found = read_name(name)
    assert (found.attribute, found.owner) == (attribute, owner)


@pytest.mark.parametrize("name", ["limit", "next_cursor", "x-request-id", "X-Tenant", "", "__"])
def test_names_for_paging_and_signing_and_empty_names_are_not_read(name):
    assert read_name(name) is None


def test_a_list_suffix_leaves_the_name_of_the_items():
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
def test_the_nouns_of_a_tool_name_are_found(name, nouns):
    assert read_nouns(name) == nouns


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
def test_a_description_names_the_owner(description, owner):
    assert find_owner(description) == owner


@given(st.text(max_size=120))
def test_any_text_is_accepted(description):
    assert len(find_owner(description)) <= 3


def test_letters_that_are_longer_in_lower_case_are_accepted():
    assert find_owner("\u0130 the id of the user") == ("user",)


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


@given(st.text(max_size=40))
def test_words_of_any_text_can_be_read(name):
    words = name_words(name)
    assert all(word == word.lower() and word for word in words)
