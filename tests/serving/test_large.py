"""Large requests of one key beside the requests of another."""

import asyncio

import pytest
from service_support import CORE, served
from waiting import SOON

from toolyard.serving.faults import HttpFault
from toolyard.serving.large import Larges, counted
from toolyard.serving.principal import ALL, Limits, Principal
from toolyard.serving.request import LARGE, Request

MEGABYTE = 1_000_000
BIG = {"text": "x" * (4 * LARGE)}


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


async def nothing():
    return {"type": "http.disconnect"}


def asked(name):
    request = Request({"method": "POST", "path": "/", "headers": [(b"content-length", b"4000000")]}, nothing)
    request.principal = Principal(name, name, ALL, Limits())
    return request


def met(rate, seconds=4):
    """As it is after another key has asked so often, and the clock that it goes by."""
    clock = Clock()
    larges = Larges(clock)
    beside(larges, clock, rate, seconds)
    return larges, clock


def beside(larges, clock, rate, seconds):
    """Time goes by in which another key asks so often."""
    for _ in range(round(seconds * rate)):
        clock.now += 1 / rate
        larges.see("other")


async def refused(larges, name="one"):
    with pytest.raises(HttpFault) as fault:
        await larges.turn(asked(name), 4 * MEGABYTE)
    assert (fault.value.status, fault.value.code) == (429, "request.rate_limited")
    return fault.value


async def test_a_key_alone_need_not_wait_and_owes_nothing_when_another_comes():
    larges, _ = met(0.0, 0)
    for _ in range(100):
        larges.see("one")
        request = asked("one")
        await larges.turn(request, 4 * MEGABYTE)
        request.spent = 0.1
        larges.settle(request)
    larges.see("other")
    assert await asyncio.wait_for(larges.turn(asked("one"), 4 * MEGABYTE), SOON) is None


async def test_beside_a_busy_key_a_second_large_request_is_refused_until_the_first_is_paid_for():
    larges, clock = met(20)
    await larges.turn(asked("one"), 4 * MEGABYTE)
    fault = await refused(larges)
    pause = fault.details["retry_after"]
    assert dict(fault.headers)[b"retry-after"] == b"%d" % -(-pause // 1)
    beside(larges, clock, 20, pause)
    await larges.turn(asked("one"), 4 * MEGABYTE)


async def test_the_share_falls_with_how_often_others_ask():
    shares = [met(rate)[0].share("one") for rate in (0.5, 1, 2, 5, 10, 20, 200)]
    assert shares == sorted(shares, reverse=True)
    # Beside somebody who asks once a second a third is left; beside twenty a second less than one in a hundred.
    assert shares[1] == pytest.approx(1 / 3)
    assert shares[5] < 0.005
    assert shares[-1] == pytest.approx(1 / 300)


async def test_a_steady_key_goes_on_beside_one_that_asks_now_and_then():
    larges, clock = met(1)
    served = 0
    for _ in range(20):
        larges.see("other")
        for _ in range(10):
            # 1 MB in 5 ms, ten times a second: a twentieth of the time.
            request = asked("one")
            await larges.turn(request, MEGABYTE)
            request.spent = 0.005
            larges.settle(request)
            clock.now += 0.1
            served += 1
    assert served == 200


async def test_another_key_is_not_held_up_by_it():
    larges, _ = met(20)
    larges.see("third")
    await larges.turn(asked("one"), 4 * MEGABYTE)
    await larges.turn(asked("other"), 4 * MEGABYTE)
    assert (await refused(larges)).status == 429  # only the first is


async def test_who_is_gone_does_not_count():
    larges, clock = met(20)
    await larges.turn(asked("one"), 4 * MEGABYTE)
    clock.now += 5
    assert larges.share("one") == 1
    await larges.turn(asked("one"), 4 * MEGABYTE)


async def test_who_had_a_turn_for_a_request_needs_no_other_for_the_same():
    larges, _ = met(20)
    request = asked("one")
    await larges.turn(request, 4 * MEGABYTE)
    assert await larges.turn(request, 4 * MEGABYTE) is None


async def test_what_a_request_really_cost_is_waited_for_be_it_more_or_less_than_the_guess():
    pauses = []
    for spent in (0.010, 0.020, 0.030):
        larges, _ = met(20)
        request = asked("one")
        request.body = bytes(MEGABYTE)
        await larges.turn(request, 4 * MEGABYTE)
        request.spent = spent
        larges.settle(request)
        pauses.append((await refused(larges)).details["retry_after"])
    assert pauses == [pytest.approx(300 * (spent + 0.002), abs=0.01) for spent in (0.010, 0.020, 0.030)]


async def test_counting_changes_nothing_about_the_work():
    request = asked("one")

    async def work(wait):
        try:
            await wait
        except ValueError:
            await asyncio.sleep(0)
        return sum(range(100_000))

    loop = asyncio.get_running_loop()
    good, bad = loop.create_future(), loop.create_future()
    loop.call_soon(good.set_result, None)
    loop.call_soon(bad.set_exception, ValueError("no"))
    for wait in (good, bad):
        assert await counted(work(wait), request) == sum(range(100_000))
    assert request.spent > 0


async def test_work_that_is_cancelled_or_fails_does_so_as_it_would_by_itself():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    task = asyncio.create_task(_awaited(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]

    async def broken():
        raise KeyError("gone")

    with pytest.raises(KeyError):
        await _awaited(broken())


async def _awaited(work):
    return await counted(work, asked("one"))


def test_a_served_key_of_large_requests_is_slowed_down_only_beside_another(tmp_path):
    config = {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}
    with served(config) as yard:
        heavy, light = yard.key("*:*", name="heavy"), yard.key("*:*", name="light")
        clock = Clock()
        yard.service.larges = Larges(clock)
        assert [yard.invoke("echo", BIG, token=heavy).status for _ in range(6)] == [200] * 6
        for _ in range(40):
            clock.now += 0.05
            assert yard.invoke("echo", {"text": "a"}, token=light).status == 200
        larges = yard.service.larges
        larges._book(yard.service.keys.find(heavy).key_id, 5.0)
        answer = yard.invoke("echo", BIG, token=heavy)
        assert (answer.status, answer.error["code"]) == (429, "request.rate_limited")
        assert yard.invoke("echo", {"text": "a"}, token=heavy).status == 200
        assert yard.invoke("echo", BIG, token=light).status == 200
        clock.now += 60
        assert yard.invoke("echo", BIG, token=heavy).status == 200
