"""Who begins when many requests arrive in one moment."""

import asyncio
from collections import Counter

from hypothesis import given, strategies as st

from toolyard.serving.pace import LEAST, Pace, Rests
from toolyard.serving.turns import Turns


def bearer(key_id):
    return [(b"host", b"h"), (b"authorization", f"Bearer ty_{key_id}_secret".encode())]


async def begun(turns, arrivals):
    """The order in which those requests begin, and in which pass each does."""
    loop, order, passes = asyncio.get_running_loop(), [], 0
    for number, key in enumerate(arrivals):
        turns.take(loop, bearer(key), lambda number=number: order.append((passes, number)))
    while len(order) < len(arrivals):
        passes += 1
        await asyncio.sleep(0)
    return order


async def test_one_request_among_many_of_another_key_begins_in_the_next_pass():
    order = await begun(Turns({"many", "one"}.__contains__, each=4), ["many"] * 100 + ["one"])
    assert next(when for when, number in order if number == 100) == 1


async def test_strangers_share_one_turn_whatever_they_call_themselves():
    order = await begun(Turns({"one"}.__contains__, each=2), [f"made-up-{n}" for n in range(50)] + ["one"])
    assert next(when for when, number in order if number == 50) == 1


async def test_a_single_request_begins_at_once():
    assert await begun(Turns(), ["a"]) == [(0, 0)]


@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(1, 5))
def test_all_begin_once_in_order_of_their_key_and_few_in_a_pass(arrivals, each):
    with asyncio.Runner() as runner:
        order = runner.run(begun(Turns({"a", "b"}.__contains__, each=each), arrivals))
    assert sorted(number for _, number in order) == list(range(len(arrivals)))
    for key in "abc":
        own = [number for _, number in order if arrivals[number] == key]
        assert own == sorted(own)
    assert all(count <= each for count in Counter(when for when, _ in order).values())


def test_refusals_of_one_key_are_spread_over_time_and_another_key_does_not_feel_it():
    pace = Pace(clock=lambda: 100.0)
    pauses = [pace.pause("flood") for _ in range(1000)]
    assert pauses[0] == LEAST
    assert max(pauses) <= 1.0
    assert len(set(pauses[200:])) > 700
    assert pace.pause("light") == LEAST


class Loop:
    """A clock, and the timers that were set by it."""

    def __init__(self):
        self.now = 100.0
        self.timers = []

    def time(self):
        return self.now

    def call_at(self, when, callback, *args):
        timer = asyncio.TimerHandle(when, callback, args, asyncio.get_running_loop())
        self.timers.append(timer)
        return timer

    def late_by(self, seconds):
        """Let time pass and call what is due; one call of each timer that was set by then."""
        self.now += seconds
        due = [timer for timer in self.timers if timer.when() <= self.now]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            if not timer.cancelled():
                timer._run()


async def test_who_rested_comes_back_in_order_and_never_with_another():
    loop, rests, woken = Loop(), Rests(), []
    for number in range(20):
        rests.add(loop, 1.0 - number / 100, lambda number=number: woken.append(number))
    loop.late_by(0.5)
    assert woken == []
    sizes = []
    loop.late_by(10.0)
    while len(woken) < 20:
        sizes.append(len(woken))
        loop.late_by(0.001)
    assert woken == list(reversed(range(20)))
    assert max(after - before for before, after in zip([0, *sizes], [*sizes, 20], strict=True)) == 1


async def test_who_is_gone_takes_nobodys_turn():
    loop, rests, woken = Loop(), Rests(), []
    for _ in range(60):
        rests.add(loop, 0.1, lambda: False)
    rests.add(loop, 0.2, lambda: woken.append("first"))
    rests.add(loop, 0.2, lambda: woken.append("second"))
    loop.late_by(1.0)
    assert woken == ["first"]
    loop.late_by(0.001)
    assert woken == ["first", "second"]
