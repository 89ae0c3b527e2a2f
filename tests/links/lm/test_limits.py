"""Rate limits and pauses, with a clock set by the test."""

import pytest
from hypothesis import given, strategies as st
from waiting import Clock

from toolyard.links.lm.limits import RateLimits
from toolyard.model.errors import Unavailable


def test_a_minutes_worth_may_be_asked_at_once_and_then_as_it_fills():
    clock = Clock(100.0)
    limits = RateLimits(requests_per_minute=6, clock=clock)
    assert [limits.reserve(0, None) for _ in range(8)] == [0, 0, 0, 0, 0, 0, pytest.approx(10), pytest.approx(20)]
    clock.now += 30
    assert limits.reserve(0, None) == pytest.approx(0)


def test_tokens_are_reserved_by_estimate_and_put_right_afterwards():
    clock = Clock(100.0)
    limits = RateLimits(tokens_per_minute=600, clock=clock)
    assert limits.reserve(600, None) == 0
    limits.settle(600, 300)
    assert limits.reserve(300, None) == pytest.approx(0)
    assert limits.reserve(60, None) == pytest.approx(6)


def test_a_request_larger_than_the_bucket_waits_for_a_full_one_and_goes():
    limits = RateLimits(tokens_per_minute=100, clock=Clock(100.0))
    assert limits.reserve(1_000, None) == 0
    assert limits.reserve(1, None) > 60


def test_what_would_be_past_the_deadline_takes_nothing():
    clock = Clock(100.0)
    limits = RateLimits(requests_per_minute=1, clock=clock)
    limits.reserve(0, None)
    for _ in range(3):
        with pytest.raises(Unavailable) as caught:
            limits.reserve(0, clock.now + 10)
        assert caught.value.info.retry_after == pytest.approx(60)
    clock.now += 60
    assert limits.reserve(0, clock.now + 10) == pytest.approx(0)


def test_a_pause_holds_everybody():
    clock = Clock(100.0)
    limits = RateLimits(clock=clock)
    limits.pause(5)
    limits.pause(2)
    assert limits.reserve(0, None) == pytest.approx(5)
    clock.now += 5
    assert limits.reserve(0, None) == 0


@given(st.integers(1, 50), st.lists(st.floats(0, 30), min_size=1, max_size=80))
def test_no_minute_exceeds_the_limit_by_more_than_one_burst(rate, gaps):
    clock = Clock(100.0)
    limits = RateLimits(requests_per_minute=rate, clock=clock)
    made = []
    for gap in gaps:
        clock.now += gap
        made.append(clock.now + limits.reserve(0, None))
    for index, start in enumerate(made):
        within = [moment for moment in made[index:] if moment <= start + 60]
        # What the bucket held at most, and what came in meanwhile.
        assert len(within) <= 2 * rate + 1


def test_what_is_given_back_can_be_taken_again():
    limits = RateLimits(requests_per_minute=1, tokens_per_minute=100, clock=lambda: 5.0)
    assert limits.reserve(100, None) == 0
    assert limits.reserve(100, None) == pytest.approx(60)
    limits.cancel(100)
    assert limits.reserve(100, None) == pytest.approx(60)
