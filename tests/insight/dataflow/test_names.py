"""Names of values and of tools say what they are about."""

import pytest

from toolyard.insight.dataflow.names import asked_of, named, tool_nouns


@pytest.mark.parametrize(
    ("name", "attribute", "own"),
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
def test_a_name_says_what_a_value_is_and_whose(name, attribute, own):
    found = named(name)
    assert (found.attribute, found.own) == (attribute, own)


@pytest.mark.parametrize("name", ["limit", "next_cursor", "x-request-id", "X-Tenant", "", "__"])
def test_how_to_page_and_sign_and_nothing_at_all_are_no_names_of_values(name):
    assert named(name) is None


def test_a_name_that_ends_as_lists_do_says_of_what():
    assert named("tag_list").listed == ("tag",)
    assert named("tag").listed == ()


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
    ("name", "owner"), [("get-accounts-id-limits", ("account",)), ("get_user", ()), ("id_of_user", ())]
)
def test_a_name_may_say_whose_id_a_call_is_about(name, owner):
    assert asked_of(name) == owner
