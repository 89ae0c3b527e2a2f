import unicodedata

import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import InvalidNameError
from toolyard.model.names import check_namespace, check_tool_name, find_similar_tools, qualify, split_qualified

GOOD = [
    "get_weather",
    "math.sum",
    "users/list",
    "Get Weather",
    "天気",
    "naïve café",
    "a:b",
    "x" * 128,
    "α-β",
    "wetter-übersicht",
]


@pytest.mark.parametrize("name", GOOD)
def test_names_of_real_catalogs_are_fine(name):
    check_tool_name(name)
    check_namespace(name)
    assert split_qualified(qualify("ns", name)) == ("ns", name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "is empty"),
        ("x" * 129, "at most 128"),
        ("a::b", "may not contain '::'"),
        (" a", "begin or end with a space"),
        ("a ", "begin or end with a space"),
        (":a", "colon"),
        ("a:", "colon"),
        ("a\nb", "control character"),
        ("a\tb", "control character"),
        ("a\u200bb", "'\\u200b'"),
        ("a\u202eb", "'\\u202e'"),
        ("a\u00a0b", "white space"),
        ("e\u0301", "normal form C"),
        ("\u0430pple", "look alike"),
        ("\uff47et", "looks like"),
        ("a\u3164", "invisible"),
        ("a\ufe0f", "invisible"),
        ("a\U000e0100", "invisible"),
        ("\ufb01le", "looks like 'fi'"),
        ("\u2113", "looks like"),
        ("a\uff1ab", "looks like ':'"),
        ("a\ua789b", "looks like ':'"),
        (7, "must be text"),
        (None, "must be text"),
    ],
)
def test_a_name_that_could_deceive_is_refused_and_shown_escaped(name, says):
    with pytest.raises(InvalidNameError) as caught:
        check_tool_name(name)
    assert says in str(caught.value)
    assert str(caught.value).isascii()


def test_a_tool_name_may_not_end_like_the_invoke_route_but_a_namespace_may():
    with pytest.raises(InvalidNameError, match=":invoke"):
        check_tool_name("get:invoke")
    check_namespace("get:invoke")


def test_a_name_without_separator_is_not_qualified():
    with pytest.raises(InvalidNameError, match="not a qualified name"):
        split_qualified("get_weather")


@given(st.text(min_size=1, max_size=140))
def test_whatever_is_accepted_is_visible_normalised_and_splits_back(name):
    try:
        check_tool_name(name)
    except InvalidNameError:
        return
    assert unicodedata.is_normalized("NFC", name)
    assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs"} for char in name)
    assert split_qualified(qualify(name, name)) == (name, name)


NAMES = ["weather_api::get_weather", "hr_api::find_employee", "other::get_weather"]


def test_a_misspelt_name_finds_its_neighbours_qualified_or_bare():
    assert find_similar_tools("get_wether", NAMES) == ["weather_api::get_weather", "other::get_weather"]
    assert find_similar_tools("weather::get_weather", NAMES)[:2] == ["weather_api::get_weather", "other::get_weather"]
    assert find_similar_tools("hr_api__find_employe", NAMES) == ["hr_api::find_employee"]
    assert find_similar_tools("zzz", NAMES) == []


def test_a_large_catalog_is_searched_where_letters_are_shared():
    many = [f"ns::tool_number_{index}" for index in range(20_000)]
    assert find_similar_tools("get_wether", [*many, *NAMES])[0] == "weather_api::get_weather"
