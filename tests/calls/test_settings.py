"""`Settings`: checked at once, with words that say what is wrong; `Gates` bound engines and tools."""

import pytest

from toolyard.calls.settings import Gates, Settings
from toolyard.model.errors import ConfigError


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("timeout", 0, "timeout: must be above 0, not 0"),
        ("timeout", -1, "timeout: must be above 0, not -1"),
        ("timeout", True, "timeout: must be a number, not boolean"),
        ("timeout", "5", "timeout: must be a number, not string"),
        ("timeout", float("nan"), "timeout: must be above 0, not nan"),
        ("timeout", float("inf"), "timeout: must be a finite number"),
        ("retry_delay", -0.1, "retry_delay: must be 0 or more, not -0.1"),
        ("retries", -1, "retries: must be 0 or more, not -1"),
        ("retries", 1.5, "retries: must be a whole number, not number"),
        ("retries", True, "retries: must be a whole number, not boolean"),
        ("threads", 0, "threads: must be 1 or more, not 0"),
        ("max_result_bytes", 0, "max_result_bytes: must be 1 or more, not 0"),
        ("max_concurrent_calls", 0, "max_concurrent_calls: must be 1 or more, not 0"),
        ("max_concurrent_calls_per_tool", 0, "max_concurrent_calls_per_tool: must be 1 or more, not 0"),
        ("max_concurrent_calls_per_tool", {"a::*": 0}, "max_concurrent_calls_per_tool.a::*: must be 1 or more, not 0"),
        ("max_concurrent_calls_per_tool", {"slow": 1}, "'slow' matches no tool; write 'namespace::slow'"),
        ("retry_delay", None, "retry_delay: must be a number, not null"),
        ("output_check", "loud", "output_check: no such choice 'loud'; write one of off, warn, strict"),
        ("abandoned", "drop", "abandoned: no such choice 'drop'; write one of hold, release"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_by_name(option, value, said):
    with pytest.raises(ConfigError) as caught:
        Settings(**{option: value})
    assert said in str(caught.value)


@pytest.mark.parametrize("options", [{"max_concurrent_calls": 1}, {"max_concurrent_calls_per_tool": 1}, {"retries": 1}])
def test_settings_are_unlimited_only_if_nothing_waits_or_repeats(options):
    assert Settings(timeout=5).unlimited
    assert not Settings(**options).unlimited


def test_without_limits_there_is_no_gate():
    assert Gates(Settings()).of("a::b") == ()


def test_each_tool_has_a_gate_of_its_own_and_all_share_the_engines():
    gates = Gates(Settings(max_concurrent_calls=3, max_concurrent_calls_per_tool=2))
    (own, engine), (other, same) = gates.of("a::b"), gates.of("a::c")
    assert own is not other
    assert engine is same
    assert gates.of("a::b") == (own, engine)
    assert [own.enter_at_once() for _ in range(3)] == [True, True, False]
    assert [engine.enter_at_once() for _ in range(4)] == [True, True, True, False]


def test_the_first_pattern_that_fits_decides_and_others_are_free():
    gates = Gates(Settings(max_concurrent_calls_per_tool={"a::x": 1, "a::*": 2}))
    (strict,), (loose,) = gates.of("a::x"), gates.of("a::y")
    assert [strict.enter_at_once() for _ in range(2)] == [True, False]
    assert [loose.enter_at_once() for _ in range(3)] == [True, True, False]
    assert gates.of("b::x") == ()
