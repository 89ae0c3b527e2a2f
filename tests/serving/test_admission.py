"""Admission: places, turns and refusals."""

import asyncio
import itertools
from concurrent.futures import Future

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from waiting import SOON, Clock

from conftest import examples
from toolyard.serving.admission import Admission, Place
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import ALL, NOBODY, KeyLimits, Principal


def key(name, **limits):
    return Principal(name, name, ALL, KeyLimits(**limits))


def try_enter(admission, principal):
    admission.check_rate(principal)
    return admission.try_place(principal)


def test_a_place_is_taken_and_given_back_without_waiting():
    admission = Admission(2, 0)
    assert try_enter(admission, NOBODY) and try_enter(admission, NOBODY)
    with pytest.raises(HttpFault) as refused:
        try_enter(admission, NOBODY)
    assert (refused.value.status, refused.value.code) == (429, "server.overloaded")
    assert dict(refused.value.headers)[b"retry-after"] == b"1"
    assert refused.value.retryable
    admission.leave(NOBODY)
    assert try_enter(admission, NOBODY)


async def test_who_waits_gets_the_place_that_is_given_back_in_order():
    admission, order = Admission(1, 10), []

    async def work(number):
        async with Place(admission, NOBODY):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]
    assert (admission.running, admission.waiting) == (0, 0)


async def test_one_with_a_thousand_waiting_delays_another_by_one_turn():
    admission, order = Admission(1, 2000), []
    assert try_enter(admission, NOBODY)

    async def work(principal):
        async with Place(admission, principal):
            order.append(principal.key_id)

    heavy, light = key("heavy"), key("light")
    tasks = [asyncio.create_task(work(heavy)) for _ in range(1000)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(work(light)))
    await asyncio.sleep(0)
    admission.leave(NOBODY)
    await asyncio.gather(*tasks)
    assert order.index("light") <= 1


async def test_a_key_runs_no_more_at_once_than_it_may_while_others_go_on():
    admission = Admission(10, 10, concurrency=2)
    one, other = key("one"), key("other", concurrency=3)
    assert [try_enter(admission, one) for _ in range(3)] == [True, True, False]
    assert [try_enter(admission, other) for _ in range(4)] == [True, True, True, False]
    waiter = asyncio.create_task(admission.wait(one))
    await asyncio.sleep(0)
    admission.leave(other)
    await asyncio.sleep(0)
    assert not waiter.done()
    admission.leave(one)
    await waiter
    assert admission.running == 4


async def test_where_the_queue_is_full_whoever_fills_it_gives_way():
    admission = Admission(1, 4)
    assert try_enter(admission, NOBODY)
    heavy, light = key("heavy"), key("light")

    async def enter(principal):
        if not try_enter(admission, principal):
            await admission.wait(principal)

    crowd = [asyncio.create_task(enter(heavy)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(HttpFault, match="at its limit of requests"):
        try_enter(admission, heavy)
    newcomer = asyncio.create_task(enter(light))
    await asyncio.sleep(0)
    with pytest.raises(HttpFault):
        await crowd.pop()
    assert admission.waiting == 4
    admission.leave(NOBODY)
    admission.leave((await next(asyncio.as_completed([crowd[0]])), heavy)[1])
    await newcomer
    for task in crowd:
        task.cancel()


async def test_whoever_is_cancelled_while_waiting_holds_nothing():
    admission = Admission(1, 10)
    assert try_enter(admission, NOBODY)
    waiter = asyncio.create_task(admission.wait(NOBODY))
    await asyncio.sleep(0)
    waiter.cancel()
    admission.leave(NOBODY)
    await asyncio.wait([waiter])
    assert (admission.running, admission.waiting) == (0, 0)
    assert try_enter(admission, NOBODY)


async def test_a_place_given_in_the_moment_of_cancellation_is_passed_on():
    admission = Admission(1, 10)
    assert try_enter(admission, NOBODY)
    first, second = (asyncio.create_task(admission.wait(NOBODY)) for _ in range(2))
    await asyncio.sleep(0)
    admission.leave(NOBODY)
    first.cancel()
    await asyncio.wait([first])
    await second
    assert (admission.running, admission.waiting) == (1, 0)


def test_a_key_has_a_burst_and_then_its_rate():
    clock = Clock(100.0)
    admission = Admission(100, 100, rate=8, burst=3, clock=clock)
    one = key("one")

    def allowed():
        try:
            try_enter(admission, one)
        except HttpFault as fault:
            assert fault.code == "request.rate_limited"
            return False
        admission.leave(one)
        return True

    assert [allowed() for _ in range(4)] == [True, True, True, False]
    clock.now += 0.125
    assert [allowed() for _ in range(2)] == [True, False]
    clock.now += 1000
    assert [allowed() for _ in range(4)] == [True, True, True, False]
    assert try_enter(admission, NOBODY), "whoever has no key has no rate"


def test_how_long_to_wait_is_said_in_whole_seconds_and_exactly():
    clock = Clock(100.0)
    admission = Admission(100, 100, rate=0.25, burst=1, clock=clock)
    try_enter(admission, key("one"))
    with pytest.raises(HttpFault) as refused:
        try_enter(admission, key("one"))
    assert dict(refused.value.headers)[b"retry-after"] == b"4"
    assert refused.value.details == {"retry_after": 4.0}


def test_limits_of_a_key_are_its_own_and_follow_a_change():
    admission = Admission(100, 100, rate=1, burst=1, clock=Clock(100.0))
    assert [try_enter(admission, key("one", rate=5, burst=2)) for _ in range(1)] == [True]
    wide = key("one", rate=5, burst=50, concurrency=1)
    assert try_enter(admission, wide) is False
    admission.leave(wide)
    assert try_enter(admission, wide) is True


def test_a_place_is_given_by_the_current_limits_of_a_key():
    admission = Admission(10, 10)
    assert admission.try_place(key("a", concurrency=2))
    assert not admission.try_place(key("a", concurrency=1))


async def overdue(admission, principal, count):
    """So many requests that were given up at their deadline, and whose work goes on."""
    work = [Future() for _ in range(count)]
    for one in work:
        assert try_enter(admission, principal)
        admission.leave_later(principal, [one])
    return work


async def ended(*work):
    for one in work:
        one.set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_work_that_goes_on_past_its_deadline_keeps_nobody_from_a_place():
    admission = Admission(2, 0)
    work = await overdue(admission, NOBODY, 2)
    assert (admission.running, admission.aside) == (0, 2)
    assert try_enter(admission, NOBODY) and try_enter(admission, NOBODY)
    await ended(*work)
    assert (admission.running, admission.aside) == (2, 0)


async def test_who_waits_gets_the_place_of_work_that_steps_aside():
    admission = Admission(1, 5)
    assert try_enter(admission, NOBODY)
    waiting = asyncio.ensure_future(admission.wait(NOBODY))
    await asyncio.sleep(0)
    admission.leave_later(NOBODY, [Future()])
    await asyncio.wait_for(waiting, SOON)


async def test_beyond_as_many_as_may_run_such_work_keeps_its_place_until_it_is_over():
    admission = Admission(2, 0)
    work = await overdue(admission, NOBODY, 4)
    assert (admission.running, admission.aside) == (2, 2)
    with pytest.raises(HttpFault):
        try_enter(admission, NOBODY)
    await ended(work[3])
    assert (admission.running, admission.aside) == (1, 2)
    assert try_enter(admission, NOBODY)


async def test_the_work_of_a_key_counts_for_its_own_share_all_the_while():
    admission = Admission(4, 1, concurrency=2)
    work = await overdue(admission, key("a"), 2)
    assert not try_enter(admission, key("a"))
    assert try_enter(admission, key("b"))
    waiting = asyncio.ensure_future(admission.wait(key("a")))
    await asyncio.sleep(0)
    await ended(work[0])
    await asyncio.wait_for(waiting, SOON)


class Turns(RuleBasedStateMachine):
    """Any order of coming, going, overrunning and being cancelled: places are never lost, doubled or left empty."""

    names = ("a", "b", "c", None)

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.admission = Admission(3, 5, concurrency=2)
        self.inside = []
        self.overdue = []
        self.tasks = []
        self.numbers = itertools.count()

    def teardown(self):
        for _, task in self.tasks:
            task.cancel()
        self.spin()
        self.loop.close()

    def spin(self):
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(asyncio.sleep(0))
        for principal, task in list(self.tasks):
            if task.done():
                self.tasks.remove((principal, task))
                if not task.cancelled() and task.exception() is None:
                    self.inside.append(principal)

    @rule(name=st.sampled_from(names))
    def come(self, name):
        principal = NOBODY if name is None else Principal(name, name, ALL)
        try:
            if try_enter(self.admission, principal):
                self.inside.append(principal)
            else:
                self.tasks.append((principal, self.loop.create_task(self.admission.wait(principal))))
        except HttpFault:
            assert self.admission.waiting == 5
        self.spin()

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def go(self, data):
        self.admission.leave(self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1))))

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def overrun(self, data):
        principal, work = self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1))), Future()
        self.overdue.append((principal, work, self.admission.aside < 3))
        self.loop.run_until_complete(self.leave_later(principal, work))

    async def leave_later(self, principal, work):
        self.admission.leave_later(principal, [work])

    @precondition(lambda self: self.overdue)
    @rule(data=st.data())
    def end(self, data):
        _, work, _ = self.overdue.pop(data.draw(st.integers(0, len(self.overdue) - 1)))
        work.set_result(None)
        self.spin()

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), also_leave=st.booleans())
    def cancel(self, data, also_leave):
        self.tasks[data.draw(st.integers(0, len(self.tasks) - 1))][1].cancel()
        if also_leave and self.inside:
            self.admission.leave(self.inside.pop())

    @rule()
    def let_them_run(self):
        self.spin()

    @invariant()
    def counts_are_true(self):
        self.spin()
        inside = [principal.key_id for principal in self.inside]
        inside += [principal.key_id for principal, _, aside in self.overdue if not aside]
        aside = [principal.key_id for principal, _, aside in self.overdue if aside]
        assert self.admission.running == len(inside) <= 3
        assert self.admission.aside == len(aside) <= 3
        assert self.admission.waiting == len(self.tasks) <= 5
        counted = inside + aside
        assert all(counted.count(name) <= 2 for name in "abc")
        waiting = {principal.key_id for principal, _ in self.tasks}
        if len(inside) < 3:
            assert None not in waiting, "a place is empty while one waits who may have it"
            assert all(counted.count(name) == 2 for name in waiting), "a place is empty while one waits who may have it"


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_a_large_request_counts_for_as_many_as_it_is_worth():
    clock = Clock(100.0)
    admission = Admission(8, 8, rate=10, burst=20, clock=clock)
    alice, bob = key("alice"), key("bob")
    admission.check_rate(alice)
    admission.charge(alice, 1024 * 1024)
    with pytest.raises(HttpFault) as refused:
        admission.check_rate(alice)
    assert refused.value.code == "request.rate_limited"
    admission.check_rate(bob)
    clock.now += 4.2  # a debt is never more than a burst's worth
    admission.check_rate(alice)


def test_whoever_has_no_limit_is_charged_nothing():
    admission = Admission(1, 1)
    admission.charge(NOBODY, 10**9)
    assert try_enter(admission, NOBODY)
