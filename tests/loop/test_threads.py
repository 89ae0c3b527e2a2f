"""`Threads`: sized, able to write a thread off, and never in anybody's way."""

import contextvars
import gc
import queue
import subprocess
import sys
import threading
import weakref

import pytest
from waiting import SOON, Hung, until

from toolyard.loop import threads as module
from toolyard.loop.threads import Threads, await_future
from toolyard.model.errors import SessionError


@pytest.fixture
def pool():
    made = Threads(2)
    yield made
    made.close()


def test_work_runs_in_another_thread_and_its_value_comes_back(pool):
    assert pool.submit(threading.get_ident).result(SOON) != threading.get_ident()


def test_what_the_work_raises_belongs_to_whoever_waits_even_if_it_would_end_the_interpreter(pool):
    def stop():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        pool.submit(stop).result(SOON)
    assert pool.submit(lambda: 1).result(SOON) == 1


def test_work_sees_the_callers_context_and_cannot_change_it(pool):
    word = contextvars.ContextVar("word", default="none")
    word.set("mine")

    def work():
        seen = word.get()
        word.set("theirs")
        return seen

    assert pool.submit(work).result(SOON) == "mine"
    assert word.get() == "mine"
    assert pool.submit(word.get).result(SOON) == "mine"


def test_no_more_than_size_run_at_once_and_the_rest_follow_in_order(pool):
    lock, inside, most, order = threading.Lock(), 0, 0, []

    def work(number):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            order.append(number)
        threading.Event().wait(0.001)
        with lock:
            inside -= 1

    futures = [pool.submit(lambda n=n: work(n)) for n in range(40)]
    for future in futures:
        future.result(SOON)
    assert most <= 2
    assert pool.alive <= 2
    assert sorted(order) == list(range(40))


def test_a_thread_is_reused_when_one_is_idle():
    pool = Threads(8)
    idents = set()
    for _ in range(30):
        idents.add(pool.submit(threading.get_ident).result(SOON))
        until(lambda: pool._idle == pool.alive)
    assert len(idents) == 1
    pool.close()


def test_work_cancelled_before_it_starts_never_runs():
    pool, hung, ran = Threads(1), Hung(), []
    first = pool.submit(hung)
    assert hung.began.wait(SOON)
    second = pool.submit(lambda: ran.append(1))
    third = pool.submit(lambda: "third")
    assert second.cancel()
    hung.end.set()
    assert first.result(SOON) == "ended"
    assert third.result(SOON) == "third"
    assert not ran
    pool.close()


def test_a_written_off_thread_is_replaced_and_one_goes_when_it_comes_back():
    pool, hung = Threads(1), Hung()
    lost = pool.submit(hung)
    assert hung.began.wait(SOON)
    waiting = pool.submit(lambda: "done")
    pool.write_off(lost)
    pool.write_off(lost)
    assert waiting.result(SOON) == "done"
    assert pool.alive == 2
    hung.end.set()
    assert lost.result(SOON) == "ended"
    until(lambda: pool.alive == 1)
    assert pool.submit(lambda: "still").result(SOON) == "still"
    pool.close()


def test_fifty_written_off_threads_leave_the_size_for_others():
    pool = Threads(2)
    hung = [Hung() for _ in range(50)]
    for work in hung:
        future = pool.submit(work)
        assert work.began.wait(SOON)
        pool.write_off(future)
    assert [pool.submit(lambda n=n: n).result(SOON) for n in range(5)] == list(range(5))
    for work in hung:
        work.end.set()
    until(lambda: pool.alive <= 2)
    assert pool.submit(lambda: 1).result(SOON) == 1
    pool.close()


def test_work_that_has_not_begun_or_is_done_cannot_be_written_off():
    pool, hung, other = Threads(1), Hung(), Hung()
    done = pool.submit(lambda: 1)
    done.result(SOON)
    pool.write_off(done)
    first = pool.submit(hung)
    assert hung.began.wait(SOON)
    queued = pool.submit(other)
    pool.write_off(queued)
    assert not other.began.is_set()
    assert pool.alive == 1
    hung.end.set()
    other.end.set()
    assert [first.result(SOON), queued.result(SOON)] == ["ended", "ended"]
    pool.close()


def test_close_does_not_wait_and_refuses_more_work():
    pool, hung = Threads(1), Hung()
    future = pool.submit(hung)
    assert hung.began.wait(SOON)
    pool.close()
    pool.close()
    with pytest.raises(SessionError, match="closed"):
        pool.submit(lambda: 1)
    hung.end.set()
    assert future.result(SOON) == "ended"
    until(lambda: pool.alive == 0)


def test_work_that_waited_when_the_pool_closed_is_still_done():
    pool, hung = Threads(1), Hung()
    pool.submit(hung)
    assert hung.began.wait(SOON)
    waiting = pool.submit(lambda: "late")
    pool.close()
    hung.end.set()
    assert waiting.result(SOON) == "late"
    until(lambda: pool.alive == 0)


def test_idle_threads_end(monkeypatch):
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.01)
    pool = Threads(4)
    assert pool.submit(lambda: 1).result(SOON) == 1
    until(lambda: pool.alive == 0)
    assert pool.submit(lambda: 2).result(SOON) == 2
    pool.close()


def test_an_idle_worker_keeps_nothing_of_its_last_work_alive(pool):
    class Large:
        pass

    def work():
        return Large()

    answer = weakref.ref(pool.submit(work).result(SOON))
    until(lambda: pool._idle == pool.alive)
    gc.collect()
    assert answer() is None


def test_a_job_queued_behind_a_busy_thread_starts_another_thread():
    """Between taking a job and saying so a thread still counts as idle; a job that comes then needs another one."""
    pool, hung, asked = Threads(2), Hung(), []

    class Slow(queue.SimpleQueue):
        def get(self, *args, **keywords):
            job = super().get(*args, **keywords)
            if job is not None and not asked:
                asked.append(True)
                second.put(pool.submit(lambda: "not stuck"))
            return job

    second = queue.SimpleQueue()
    pool._jobs = Slow()
    pool.submit(hung)
    assert second.get(timeout=SOON).result(SOON) == "not stuck"
    hung.end.set()
    pool.close()


async def test_a_task_can_wait_for_a_thread():
    pool = Threads(1)
    assert await await_future(pool.submit(lambda: 5)) == 5
    pool.close()


FORKS = """
import os
from toolyard.loop.threads import Threads
pool = Threads(1)
pool.submit(lambda: 1).result(60)
if (pid := os.fork()) == 0:
    os._exit(0 if pool.submit(lambda: 2).result(60) == 2 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), pool.submit(lambda: 3).result(60))
"""


@pytest.mark.process
def test_the_child_of_a_fork_has_threads_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=SOON)
    assert done.stdout.split() == ["0", "3"], done.stderr
