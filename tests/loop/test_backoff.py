"""How long to wait before another try."""

from hypothesis import given, strategies as st

from toolyard.loop.pacing import backoff_delay


def test_each_attempt_waits_twice_as_long_up_to_the_limit():
    assert [backoff_delay(attempt, 0.5, 3.0) for attempt in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_jitter_shortens_the_delay_by_up_to_half():
    assert backoff_delay(3, 1.0, chance=0.0) == 2.0
    assert backoff_delay(3, 1.0, chance=1.0) == 4.0


@given(st.integers(0, 10**9), st.floats(0, 1))
def test_any_number_of_failures_gives_a_finite_delay_within_the_limit(attempt, chance):
    assert 0 < backoff_delay(attempt, 0.25, 30.0, chance=chance) <= 30.0
