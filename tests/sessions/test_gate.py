"""`Gate`: first come first served among threads and tasks, never too many inside, no place lost."""

import asyncio
import gc
import random
import threading
import time

import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import SyncInAsyncError
from toolyard.sessions.gate import Gate, _Task, _Thread

SOON = 10


def places(gate):
    """How many can still enter; they are all given back."""
    count = 0
    while gate.enter_at_once():
        count += 1
    for _ in range(count):
        gate.leave()
    return count


def soon():
    return time.monotonic() + SOON


def in_line(gate, count):
    for _ in range(2000):
        if len(gate.line or ()) >= count:
            return
        time.sleep(0.002)
    pytest.fail("nobody joined the line")


def test_as_many_as_the_limit_enter_at_once_and_no_more():
    gate = Gate(3)
    assert [gate.enter_at_once() for _ in range(4)] == [True, True, True, False]
    assert gate.busy
    gate.leave()
    assert not gate.busy
    assert gate.enter_at_once()


def test_a_time_in_the_past_means_now_or_never():
    gate = Gate()
    assert gate.enter(time.monotonic() - 1)
    assert not gate.enter(time.monotonic() - 1)
    gate.leave()
    assert places(gate) == 1


async def test_a_task_with_no_time_left_is_told_so_and_leaves_no_trace():
    gate = Gate()
    assert await gate.aenter(time.monotonic() - 1)
    assert not await gate.aenter(time.monotonic() - 1)
    assert not await gate.aenter(time.monotonic() + 0.01)
    assert not gate.line
    gate.leave()
    assert places(gate) == 1


def test_threads_enter_in_the_order_they_came():
    gate, order = Gate(), []
    assert gate.enter_at_once()

    def work(number):
        assert gate.enter(soon())
        order.append(number)
        gate.leave()

    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        in_line(gate, number + 1)
    gate.leave()
    for thread in threads:
        thread.join(SOON)
    assert order == list(range(8))
    assert places(gate) == 1


async def test_threads_and_tasks_stand_in_one_line():
    gate, order = Gate(), []
    assert gate.enter_at_once()

    def blocking(number):
        assert gate.enter(soon())
        order.append(number)
        gate.leave()

    async def waiting(number):
        assert await gate.aenter(soon())
        order.append(number)
        gate.leave()

    work = []
    for number in range(10):
        job = asyncio.to_thread(blocking, number) if number % 2 else waiting(number)
        work.append(asyncio.ensure_future(job))
        await asyncio.sleep(0)
        await asyncio.to_thread(in_line, gate, number + 1)
    gate.leave()
    await asyncio.gather(*work)
    assert order == list(range(10))
    assert places(gate) == 1


def test_a_newcomer_does_not_pass_those_in_line():
    gate = Gate()
    gate.enter_at_once()
    thread = threading.Thread(target=lambda: gate.enter(soon()) and gate.leave())
    thread.start()
    in_line(gate, 1)
    # The place is given back by hand, so that nobody is handed it yet.
    gate.free.append(None)
    assert not gate.enter_at_once()
    gate.admit_waiters()
    thread.join(SOON)
    assert places(gate) == 1


async def test_waiting_on_a_running_loop_is_refused_and_names_the_twin():
    gate = Gate()
    assert gate.enter(twin="aexecute")
    with pytest.raises(SyncInAsyncError, match="await aexecute"):
        gate.enter(twin="aexecute")
    assert not gate.line
    gate.leave()
    assert places(gate) == 1


async def test_a_task_cancelled_while_it_is_granted_passes_the_place_on():
    gate = Gate()
    gate.enter_at_once()
    first, second = (asyncio.ensure_future(gate.aenter()) for _ in range(2))
    await asyncio.sleep(0)
    gate.leave()
    # Granted, but the task has not run since.
    first.cancel()
    assert await asyncio.wait_for(second, SOON)
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.leave()
    assert places(gate) == 1


async def test_a_task_that_times_out_while_it_is_granted_is_inside():
    gate = Gate()
    gate.enter_at_once()
    task = asyncio.ensure_future(gate.aenter(time.monotonic() + 0.02))
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 - the loop must not run meanwhile
    # The loop finds the time over and the grant in one and the same round.
    gate.leave()
    assert await task
    assert places(gate) == 0
    gate.leave()
    assert places(gate) == 1


async def test_cancelled_tasks_leave_the_line():
    gate = Gate()
    gate.enter_at_once()
    tasks = [asyncio.ensure_future(gate.aenter()) for _ in range(20)]
    await asyncio.sleep(0)
    assert len(gate.line) == 20
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not gate.line, "they would pile up behind whoever stays inside"
    gate.leave()
    assert places(gate) == 1


def test_threads_that_give_up_leave_the_line():
    gate = Gate()
    gate.enter_at_once()
    assert not any(gate.enter(time.monotonic() + 0.001) for _ in range(20))
    assert not gate.line
    gate.leave()
    assert places(gate) == 1


def test_a_waiter_whose_loop_is_closed_is_passed_over_and_gives_nothing_back():
    gate = Gate()
    gate.enter_at_once()
    loop = asyncio.new_event_loop()
    task = loop.create_task(gate.aenter())
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False
    loop.close()
    gate.leave()
    assert places(gate) == 1
    del task, loop
    gc.collect()
    assert places(gate) == 1, "sweeping up the task must not make a second place"


def test_a_place_granted_to_a_task_that_was_swept_up_is_not_lost():
    gate = Gate()
    gate.enter_at_once()
    loop = asyncio.new_event_loop()
    task = loop.create_task(gate.aenter())
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False
    gate.leave()
    loop.close()
    del task, loop
    gc.collect()
    assert places(gate) == 1


def test_an_interrupted_thread_gives_back_what_it_was_granted(monkeypatch):
    gate = Gate()
    gate.enter_at_once()

    def interrupted(self, until):
        gate.leave()
        raise KeyboardInterrupt

    monkeypatch.setattr(_Thread, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gate.enter()
    assert places(gate) == 1


def test_an_interrupted_thread_that_was_granted_nothing_gives_nothing_back(monkeypatch):
    gate = Gate()
    gate.enter_at_once()

    def interrupted(self, until):
        raise KeyboardInterrupt

    monkeypatch.setattr(_Thread, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gate.enter()
    assert places(gate) == 0
    gate.leave()
    assert places(gate) == 1


def test_a_thread_whose_time_is_over_as_it_is_granted_is_inside(monkeypatch):
    gate = Gate()
    gate.enter_at_once()

    def late(self, until):
        gate.leave()
        return False

    monkeypatch.setattr(_Thread, "wait", late)
    assert gate.enter(time.monotonic())
    assert places(gate) == 0
    gate.leave()
    assert places(gate) == 1


@pytest.mark.parametrize("kind", ["thread", "task"])
async def test_a_waiter_is_granted_once_or_gives_up_once(kind):
    def made():
        return _Thread() if kind == "thread" else _Task(asyncio.get_running_loop())

    granted, gone = made(), made()
    assert granted.grant()
    assert not granted.grant()
    assert not granted.give_up()
    assert gone.give_up()
    assert not gone.grant()


@given(
    st.integers(1, 3),
    st.lists(
        st.one_of(
            st.tuples(st.just("enter"), st.booleans()),
            st.tuples(st.just("cancel"), st.integers(0, 30)),
            st.tuples(st.just("leave"), st.just(0)),
            st.tuples(st.just("spin"), st.just(0)),
        ),
        max_size=30,
    ),
)
def test_random_programs_of_tasks_never_overfill_a_gate_nor_lose_a_place(limit, program):
    async def run():
        gate, tasks, inside = Gate(limit), [], []

        async def one(number, until):
            if await gate.aenter(until):
                inside.append(number)
                assert len(inside) <= limit

        for action, detail in program:
            if action == "enter":
                until = time.monotonic() - 1 if detail else None
                tasks.append(asyncio.ensure_future(one(len(tasks), until)))
            elif action == "cancel" and tasks:
                tasks[detail % len(tasks)].cancel()
            elif action == "leave" and inside:
                inside.pop()
                gate.leave()
            else:
                for _ in range(4):
                    await asyncio.sleep(0)
        while not all(task.done() for task in tasks):
            for _ in range(6):
                await asyncio.sleep(0)
            if inside:
                inside.pop()
                gate.leave()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in inside:
            gate.leave()
        assert places(gate) == limit
        assert not gate.line

    asyncio.run(run())


def test_threads_and_tasks_that_come_and_go_and_give_up_never_overfill_it():
    gate, lock, inside, most, entered = Gate(3), threading.Lock(), 0, 0, 0

    def step(delta):
        nonlocal inside, most, entered
        with lock:
            inside += delta
            most = max(most, inside)
            entered += delta > 0

    def patience(rng):
        return rng.choice([None, time.monotonic() - 1, time.monotonic() + rng.random() * 0.002])

    def thread(seed):
        rng = random.Random(seed)
        for _ in range(150):
            if gate.enter(patience(rng)):
                step(1)
                if rng.random() < 0.1:
                    time.sleep(0)
                step(-1)
                gate.leave()

    async def task(seed):
        rng = random.Random(seed)
        for _ in range(40):
            try:
                came = await asyncio.wait_for(gate.aenter(patience(rng)), rng.choice([SOON, 0.001]))
            except TimeoutError:
                continue
            if came:
                step(1)
                await asyncio.sleep(0)
                step(-1)
                gate.leave()

    async def tasks(seed):
        await asyncio.gather(*(task(seed + n) for n in range(20)))

    work = [threading.Thread(target=thread, args=(n,)) for n in range(8)]
    work += [threading.Thread(target=lambda n=n: asyncio.run(tasks(n))) for n in (100, 200)]
    for one in work:
        one.start()
    for one in work:
        one.join(60)
    assert not any(one.is_alive() for one in work)
    assert most <= 3
    assert entered > 100
    assert places(gate) == 3
