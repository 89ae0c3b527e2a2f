import pytest

from toolyard import ConfigError
from toolyard.app import expand
from toolyard.app.config import find_variable_defaults
from toolyard.schema.options import Variable


def test_variables_are_replaced_everywhere_and_defaults_serve_when_unset():
    value = {"a": ["${X}/b", 3], "c": {"d": "${Y:-fallback}${Z:-}"}, "e": "$X {Y}"}
    assert expand(value, env={"X": "x"}) == {"a": ["x/b", 3], "c": {"d": "fallback"}, "e": "$X {Y}"}


def test_an_unset_variable_is_an_error_that_says_where():
    with pytest.raises(ConfigError, match=r"config\.tools\[0\]\.path: the variable NOPE is not set"):
        expand({"tools": [{"path": "${NOPE}"}]}, env={})


def test_values_are_not_expanded_twice():
    assert expand("${A}", env={"A": "${B}", "B": "b"}) == "${B}"


def test_a_text_that_is_one_variable_is_told_from_one_that_holds_some():
    value = {"a": "${X}", "b": ["${Y:-1}", "x${X}", "${X}${X}", "plain"]}
    made = expand(value, env={"X": "3"}, whole=Variable)
    assert made == {"a": "3", "b": ["1", "x3", "33", "plain"]}
    assert [type(item) for item in (made["a"], *made["b"])] == [Variable, Variable, str, str, str]


def test_who_asks_is_told_each_variable_and_whether_its_default_served():
    told = []
    expand("${X}${Y:-d}", env={"X": "3"}, found=lambda *seen: told.append(seen))
    assert told == [("X", "3", False), ("Y", "d", True)]
    assert find_variable_defaults({"a": ["${X:-one}", "${Y}"], "b": "${Z:-two}${W:-}", "c": 3}) == {"one", "two"}
