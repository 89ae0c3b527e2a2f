"""The bucket by moments that the test tells."""

import pytest
from hypothesis import given, strategies as st

from toolyard.loop.pacing import TokenBucket


def test_a_burst_passes_at_once_and_later_requests_at_the_rate():
    bucket = TokenBucket(rate=2, burst=3, now=100.0)
    assert [bucket.try_take(100.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert bucket.try_take(100.5) == 0
    assert bucket.try_take(100.5) == 0.5


def test_what_cannot_be_taken_leaves_the_bucket_as_it_was():
    bucket = TokenBucket(rate=1, burst=5, now=0.0)
    bucket.take(3, 0.0)
    assert bucket.try_take(0.0, 4) == 2
    assert bucket.try_take(0.0, 2) == 0


def test_more_than_a_burst_waits_for_a_full_bucket_and_goes_into_debt():
    bucket = TokenBucket(rate=1, burst=5, now=0.0)
    assert bucket.try_take(0.0, 50) == 0
    assert bucket.seconds_until(1, 0.0) == 46


def test_a_charge_is_a_debt_of_at_most_one_burst():
    bucket = TokenBucket(rate=1, burst=5, now=0.0)
    bucket.charge(1_000)
    assert bucket.seconds_until(1, 0.0) == 6


def test_what_is_given_back_never_overfills_it():
    bucket = TokenBucket(rate=1, burst=5, now=0.0)
    bucket.take(-10, 0.0)
    assert [bucket.try_take(0.0) for _ in range(6)] == [0, 0, 0, 0, 0, 1]


def test_a_bucket_that_is_not_used_fills_up():
    bucket = TokenBucket(rate=2, burst=4, now=0.0)
    bucket.take(4, 0.0)
    assert bucket.seconds_until(4, 1.5) == 0.5
    assert [bucket.try_take(2.0) for _ in range(5)] == [0, 0, 0, 0, 0.5]


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 3)), max_size=50))
def test_no_more_goes_through_than_the_rate_and_one_burst_allow(steps):
    bucket = TokenBucket(rate=2, burst=4, now=0.0)
    now = taken = 0.0
    for pause, amount in steps:
        now += pause
        if bucket.try_take(now, amount) == 0:
            taken += amount
    assert taken <= 4 + 2 * now + 1e-6


def test_after_the_wait_that_it_returned_the_bucket_has_enough():
    bucket = TokenBucket(rate=3, burst=1, now=0.0)
    bucket.take(1, 0.0)
    wait = bucket.try_take(0.0)
    assert wait == pytest.approx(1 / 3)
    assert bucket.try_take(wait + 1e-9) == 0
