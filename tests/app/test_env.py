import pytest

from toolyard import ConfigError
from toolyard.app import expand


def test_variables_are_replaced_everywhere_and_defaults_serve_when_unset():
    value = {"a": ["${X}/b", 3], "c": {"d": "${Y:-fallback}${Z:-}"}, "e": "$X {Y}"}
    assert expand(value, env={"X": "x"}) == {"a": ["x/b", 3], "c": {"d": "fallback"}, "e": "$X {Y}"}


def test_an_unset_variable_is_an_error_that_says_where():
    with pytest.raises(ConfigError, match=r"config\.tools\[0\]\.path: the variable NOPE is not set"):
        expand({"tools": [{"path": "${NOPE}"}]}, env={})


def test_values_are_not_expanded_twice():
    assert expand("${A}", env={"A": "${B}", "B": "b"}) == "${B}"
