"""`Breaker`: leaves a failing server alone for a while."""

import threading

import pytest
from hypothesis import given, strategies as st
from waiting import Clock

from toolyard.loop.pacing import Breaker
from toolyard.model.errors import Unavailable

A, B = "https://a.org", "https://b.org"


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def breaker(clock):
    return Breaker(clock, failures=3, pause=10.0)


def is_open(breaker, origin=A):
    try:
        breaker.check(origin)
    except Unavailable:
        return True
    return False


def fail(breaker, times, origin=A):
    for _ in range(times):
        breaker.record_failure(origin)


def test_several_failures_in_a_row_open_it_for_that_origin_only(breaker):
    fail(breaker, 2)
    assert not is_open(breaker)
    fail(breaker, 1)
    assert is_open(breaker) and not is_open(breaker, B)


def test_a_success_in_between_starts_the_count_again(breaker):
    fail(breaker, 2)
    breaker.record_success(A)
    fail(breaker, 2)
    assert not is_open(breaker)


def test_the_refusal_says_when_to_try_again(breaker, clock):
    fail(breaker, 3)
    clock.now += 4
    with pytest.raises(Unavailable, match=r"https://a\.org failed 3 times") as refused:
        breaker.check(A)
    info = refused.value.info
    assert (info.retry_after, info.retryable, info.effect) == (6.0, True, "none")


def test_after_the_pause_one_probe_is_let_through(breaker, clock):
    fail(breaker, 3)
    clock.now += 10
    assert [is_open(breaker) for _ in range(3)] == [False, True, True]
    breaker.record_success(A)
    assert not is_open(breaker)


def test_a_failed_probe_begins_another_pause(breaker, clock):
    fail(breaker, 3)
    clock.now += 10
    breaker.check(A)
    clock.now += 5
    breaker.record_failure(A)
    clock.now += 9
    assert is_open(breaker)
    clock.now += 1
    assert not is_open(breaker)


def test_a_probe_that_never_tells_does_not_block_for_ever(breaker, clock):
    fail(breaker, 3)
    clock.now += 10
    breaker.check(A)
    clock.now += 10
    assert [is_open(breaker) for _ in range(2)] == [False, True]


def test_late_failures_of_earlier_calls_do_not_make_the_pause_longer(breaker, clock):
    fail(breaker, 3)
    clock.now += 9
    fail(breaker, 5)
    clock.now += 1
    assert not is_open(breaker)


def test_only_so_many_origins_are_remembered(clock):
    breaker = Breaker(clock, failures=1, pause=10.0, origins=4)
    for number in range(10):
        breaker.record_failure(f"https://{number}.org")
    assert [number for number in range(10) if is_open(breaker, f"https://{number}.org")] == [6, 7, 8, 9]


def test_only_one_of_many_threads_probes(breaker, clock):
    fail(breaker, 3)
    clock.now += 10
    begin, through = threading.Barrier(8), []

    def work():
        begin.wait()
        if not is_open(breaker):
            through.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert through == [1]


@given(st.lists(st.one_of(st.sampled_from(["ok", "fail"]), st.floats(0.1, 20)), max_size=60))
def test_the_circuit_never_stays_open_longer_than_the_pause_and_never_opens_early(steps):
    clock = Clock(100.0)
    breaker = Breaker(clock, failures=3, pause=10.0)
    row = 0
    for step in steps:
        if isinstance(step, float):
            clock.now += step
            continue
        if is_open(breaker):
            assert row >= 3
            continue
        if step == "ok":
            breaker.record_success(A)
            row = 0
        else:
            breaker.record_failure(A)
            row += 1
    clock.now += 10.001
    assert not is_open(breaker)
