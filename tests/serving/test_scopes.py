"""What scopes allow, and how people write them."""

import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import ConfigError
from toolyard.serving.scopes import VERBS, Grant, Scopes, read_scopes


@pytest.mark.parametrize(
    ("text", "allowed", "denied"),
    [
        ("hr:list,execute", [("list", "hr"), ("execute", "hr")], [("admin", "hr"), ("list", "hr2"), ("list", "HR")]),
        ("*:*", [("admin", "hr"), ("simulate", "x")], []),
        ("weather*:list", [("list", "weather"), ("list", "weather_eu")], [("list", "my_weather")]),
        ("a:b:list", [("list", "a:b")], [("list", "a")]),
        ("hr:list, admin", [("admin", "hr")], [("execute", "hr")]),
    ],
)
def test_scopes_are_read_as_people_write_them(text, allowed, denied):
    scopes = read_scopes([text])
    assert all(scopes.allows(*pair) for pair in allowed)
    assert not any(scopes.allows(*pair) for pair in denied)
    assert read_scopes(scopes.to_texts()) == scopes


@pytest.mark.parametrize(
    ("text", "reason"),
    [("hr", "such as"), (":list", "such as"), ("hr:", "such as"), ("hr:exceute", "'execute'"), ("hr:list,", "verb")],
)
def test_scopes_that_cannot_be_read_are_told_what_was_meant(text, reason):
    with pytest.raises(ConfigError, match=reason):
        read_scopes([text])


@given(
    st.lists(
        st.builds(
            Grant,
            st.text(min_size=1, max_size=5),
            st.frozensets(st.sampled_from(VERBS), min_size=1),
        ),
        max_size=3,
    )
)
def test_scopes_survive_being_written_down(grants):
    scopes = Scopes(tuple(grants))
    assert read_scopes(scopes.to_texts()) == scopes
