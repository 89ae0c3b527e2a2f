import asyncio
import threading

import pytest

from toolyard import SyncInAsyncError
from toolyard.loop.home import HomeLoop


@pytest.fixture
def home():
    loop = HomeLoop("test-home")
    yield loop
    loop.close()


async def where():
    return threading.current_thread().name


def test_work_runs_on_one_thread_whoever_asks(home):
    names = []
    threads = [threading.Thread(target=lambda: names.append(home.run(where(), twin="x"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == ["test-home"] * 8


def test_waiting_for_the_home_loop_on_itself_raises_and_names_the_twin(home):
    async def inner():
        return home.run(where(), twin="adispatch")

    with pytest.raises(SyncInAsyncError, match="await adispatch"):
        home.run(inner(), twin="outer")


def test_an_error_of_the_coroutine_is_raised_in_the_caller(home):
    async def broken():
        raise LookupError("x")

    with pytest.raises(LookupError, match="x"):
        home.run(broken(), twin="t")


def test_close_cancels_what_is_left_and_the_loop_can_be_used_again(home):
    cancelled = threading.Event()

    async def forever():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def start():
        task = asyncio.get_running_loop().create_task(forever())
        await asyncio.sleep(0)
        return task is not None

    assert home.run(start(), twin="t")
    home.close()
    assert cancelled.is_set()
    assert home.run(where(), twin="t") == "test-home"


async def test_sync_code_inside_another_running_loop_still_works(home):
    assert home.run(where(), twin="t") == "test-home"
