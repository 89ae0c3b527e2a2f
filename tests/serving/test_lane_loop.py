"""The event loop of a server: what comes from connections, and what comes from threads."""

import asyncio
import os
import signal
import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest
from waiting import SOON

from toolyard.serving.lane_loop import LaneLoop
from toolyard.serving.lanes import NEWCOMERS


@contextmanager
def looped():
    loop = LaneLoop()
    try:
        yield loop
    finally:
        loop.close()


def test_a_loop_serves_connections_in_lanes_like_any_other_loop():
    async def serve(lanes):
        gone = asyncio.Semaphore(0)

        class Echo(asyncio.Protocol):
            def connection_made(self, transport):
                self.transport, self.fd = transport, transport.get_extra_info("socket").fileno()
                lanes.assign(self.fd, NEWCOMERS)

            def data_received(self, data):
                lanes.assign(self.fd, data.decode())
                self.transport.write(data)

            def connection_lost(self, error):
                lanes.forget(self.fd)
                gone.release()

        loop = asyncio.get_running_loop()
        async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]

            async def ask(name):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                for _ in range(5):
                    writer.write(name)
                    assert await reader.readexactly(len(name)) == name
                writer.close()
                await writer.wait_closed()

            await asyncio.gather(*(ask(name) for name in (b"a", b"b") for _ in range(30)))
            for _ in range(60):
                await gone.acquire()

    with looped() as loop:
        loop.run_until_complete(serve(loop.lanes))
        assert not loop.lanes.shared
        assert not loop.lanes._named


@contextmanager
def crowded(loop):
    """Two keys are there."""
    with ExitStack() as stack:
        for name in "ab":
            ours, _ = (stack.enter_context(each) for each in socket.socketpair())
            loop.lanes.assign(ours.fileno(), name)
            stack.callback(loop.lanes.forget, ours.fileno())
        yield


async def passes_of(count, loop):
    """In which pass each of so many calls was made that a thread asked for in one moment."""
    made, passes = [], 0
    thread = threading.Thread(
        target=lambda: [
            loop.call_soon_threadsafe(lambda number=number: made.append((passes, number))) for number in range(count)
        ]
    )
    thread.start()
    thread.join()
    while len(made) < count:
        passes += 1
        await asyncio.sleep(0)
    return made


def test_what_threads_hand_over_is_taken_one_at_a_time_and_in_order_while_several_keys_are_there():
    with looped() as loop, crowded(loop):
        made = loop.run_until_complete(passes_of(20, loop))
    assert [number for _, number in made] == list(range(20))
    assert len({when for when, _ in made}) == 20


def test_a_long_line_of_what_threads_hand_over_gets_shorter_faster():
    with looped() as loop, crowded(loop):
        made = loop.run_until_complete(passes_of(3000, loop))
    assert [number for _, number in made] == list(range(3000))
    assert len({when for when, _ in made}) < 500


def test_what_the_loops_own_thread_asks_for_keeps_its_order():
    async def asked(loop):
        made = []
        for number in range(0, 6, 2):
            loop.call_soon_threadsafe(made.append, number)
            loop.call_soon(made.append, number + 1)
        await asyncio.sleep(0)
        return made

    with looped() as loop, crowded(loop):
        assert loop.run_until_complete(asked(loop)) == list(range(6))


def test_a_signal_handler_wakes_the_loop_that_waits():
    async def woken(loop):
        signalled = asyncio.Event()
        before = signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon_threadsafe(signalled.set))
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        try:
            return await asyncio.wait_for(signalled.wait(), SOON)
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)

    with looped() as loop:
        assert loop.run_until_complete(woken(loop))


def test_one_that_ends_the_loop_takes_nothing_along():
    def leave():
        raise SystemExit(3)

    def hand_over(*callbacks):
        thread = threading.Thread(target=lambda: [loop.call_soon_threadsafe(callback) for callback in callbacks])
        thread.start()
        thread.join()

    made = []
    with looped() as loop, crowded(loop):
        hand_over(leave, lambda: made.append("before"))
        with pytest.raises(SystemExit):
            loop.run_until_complete(asyncio.sleep(SOON))
        hand_over(lambda: made.append("after"), loop.stop)
        loop.run_forever()
    assert made == ["before", "after"]


def test_what_cannot_be_called_is_refused_where_the_loop_is_debugged():
    async def nothing():
        pass

    with looped() as loop:
        loop.set_debug(True)
        with pytest.raises(TypeError, match="call_soon_threadsafe"):
            loop.call_soon_threadsafe(nothing)


def test_nobody_waits_for_nobody_where_there_is_one_key():
    with looped() as loop:
        made = loop.run_until_complete(passes_of(20, loop))
    assert [number for _, number in made] == list(range(20))
    assert len({when for when, _ in made}) == 1


@pytest.mark.parametrize("keys", [1, 2])
def test_nothing_is_lost_when_many_threads_hand_over_at_once(keys):
    async def gathered(loop):
        made, everything = [], asyncio.Event()

        def take(item):
            made.append(item)
            if len(made) == 8 * 500:
                everything.set()

        def hand_over(thread):
            for number in range(500):
                loop.call_soon_threadsafe(take, (thread, number))

        threads = [threading.Thread(target=hand_over, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        await everything.wait()
        for thread in threads:
            thread.join()
        return made

    with looped() as loop, crowded(loop) if keys == 2 else ExitStack():
        made = loop.run_until_complete(gathered(loop))
    for thread in range(8):
        assert [number for whose, number in made if whose == thread] == list(range(500))


def test_one_that_was_cancelled_is_not_called_and_one_that_fails_is_reported_like_any_other():
    async def handed(loop):
        said, called, after = [], [], asyncio.Event()
        loop.set_exception_handler(lambda _, context: said.append(context["exception"]))
        loop.call_soon_threadsafe(called.append, "cancelled").cancel()
        loop.call_soon_threadsafe(lambda: 1 / 0)
        loop.call_soon_threadsafe(after.set)
        await after.wait()
        return said, called

    with looped() as loop:
        said, called = loop.run_until_complete(handed(loop))
    assert called == []
    assert [type(error) for error in said] == [ZeroDivisionError]


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_closed_loop_says_so_each_time(waiting):
    with looped() as loop:
        for _ in range(waiting):
            loop.call_soon_threadsafe(print)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="closed"):
            loop.call_soon_threadsafe(print)
