"""A call sent again while the first is under way runs once, and both get its answer."""

import asyncio
import threading

import pytest
from call_support import SOON, Hung, call, engine_of, executions, until

from toolyard.calls.batch import CallRequest


class Slow:
    """An engine whose one tool can be held up; it counts its runs."""

    def __init__(self, **settings):
        self.hung, self.runs = Hung(), []

        def work(x: int) -> int:
            self.runs.append(x)
            self.hung()
            return len(self.runs)

        def other(x: int = 0) -> int:
            return x

        self.engine = engine_of(work, other, **settings)
        self.results = {}
        self.threads = []

    def start(self, name, *calls):
        def run():
            self.results[name] = self.engine.execute("s", list(calls))

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def in_line(self, count):
        gate = self.engine.sessions.find("s").gate
        until(lambda: len(gate.line or ()) == count)

    def finish(self):
        self.hung.end.set()
        for thread in self.threads:
            thread.join(SOON)
        assert not any(thread.is_alive() for thread in self.threads)
        return {name: [result.result for result in results] for name, results in self.results.items()}


@pytest.mark.parametrize("settings", [{}, {"timeout": 60}, {"output_check": "off"}], ids=["short way", "long", "off"])
def test_the_same_call_sent_by_three_at_once_runs_once(settings):
    slow = Slow(**settings)
    slow.start("a", call("work", "id", x=1))
    assert slow.hung.began.wait(SOON)
    slow.start("b", call("work", "id", x=1))
    slow.in_line(1)
    slow.start("c", call("other", x=5), call("work", "id", x=1))
    slow.in_line(2)
    assert slow.finish() == {"a": [1], "b": [1], "c": [5, 1]}
    assert slow.runs == [1]
    assert len(executions(slow.engine)) == 2, "a joined call is the same call: one entry"


def test_a_call_with_an_id_behind_one_without_can_be_joined_too():
    slow = Slow()
    slow.start("a", call("other"), call("work", "id", x=1))
    assert slow.hung.began.wait(SOON)
    slow.start("b", call("work", "id", x=1))
    slow.in_line(1)
    assert slow.finish() == {"a": [0, 1], "b": [1]}
    assert slow.runs == [1]


def test_a_call_that_is_answered_is_joined_until_its_whole_batch_is():
    slow = Slow()
    slow.start("a", call("other", "first", x=7), call("work", x=1))
    assert slow.hung.began.wait(SOON)
    slow.start("b", call("other", "first", x=7), call("other", "first", x="7"))
    slow.in_line(1)
    assert slow.finish() == {"a": [7, 1], "b": [7, 7]}
    recorded = [entry["tool_call"]["arguments"] for entry in executions(slow.engine)]
    assert recorded == [{"x": 7}, {"x": 1}, {"x": "7"}], "the last is spelt otherwise, so it is another call"


def test_a_batch_that_has_waited_joins_none_of_its_own_calls():
    slow = Slow()
    slow.start("a", call("work", x=1))
    assert slow.hung.began.wait(SOON)
    slow.start("b", call("work", "id", x=2), call("work", "id", x=2))
    slow.in_line(1)
    assert slow.finish() == {"a": [1], "b": [2, 3]}


def test_calls_without_an_id_read_nothing_of_what_was_recorded_while_they_waited():
    slow = Slow()
    slow.start("a", call("work", x=1))
    assert slow.hung.began.wait(SOON)
    for number in range(5):
        slow.start(number, call("other", x=number))
    slow.in_line(5)
    slow.finish()
    assert not slow.engine.sessions.find("s").tallies


def test_the_same_id_with_other_arguments_is_another_call():
    slow = Slow()
    slow.start("a", call("work", "id", x=1))
    assert slow.hung.began.wait(SOON)
    slow.start("b", call("work", "id", x=2), call("work", "id", x=1))
    slow.in_line(1)
    assert slow.finish() == {"a": [1], "b": [2, 1]}
    assert slow.runs == [1, 2]


def test_a_call_sent_again_when_the_first_is_answered_runs_again():
    slow = Slow()
    slow.hung.end.set()
    for _ in range(2):
        slow.engine.execute("s", [call("work", "id", x=1)])
    slow.engine.execute("s", [call("work", "id", x=1), call("work", "id", x=1)])
    assert slow.runs == [1, 1, 1, 1]


def test_calls_without_an_id_and_calls_in_other_sessions_are_never_joined():
    slow = Slow()
    slow.start("a", call("work", x=1))
    assert slow.hung.began.wait(SOON)
    slow.start("b", call("work", x=1))
    slow.in_line(1)
    slow.finish()
    assert slow.runs == [1, 1]


def test_a_simulation_neither_joins_nor_is_joined():
    slow = Slow()
    slow.start("a", call("work", "id", x=1))
    assert slow.hung.began.wait(SOON)
    simulated = []
    thread = threading.Thread(target=lambda: simulated.extend(slow.engine.simulate("s", [call("work", "id", x=1)])))
    thread.start()
    slow.in_line(1)
    slow.finish()
    thread.join(SOON)
    assert slow.runs == [1, 1]
    assert simulated[0].result == 2
    assert len(executions(slow.engine)) == 1


async def test_when_the_first_is_cancelled_before_its_turn_the_others_still_run_once():
    slow, runs = Slow(), []

    async def count(x: int) -> int:
        runs.append(x)
        await asyncio.sleep(0)
        return len(runs)

    engine = engine_of(count)
    gate = engine.sessions.find("s").gate
    assert gate.enter_at_once()
    first, second, third = (asyncio.ensure_future(engine.aexecute("s", [call("count", "id", x=1)])) for _ in range(3))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.sleep(0)
    gate.leave()
    assert [(await task)[0].result for task in (second, third)] == [1, 1]
    assert runs == [1]
    slow.finish()


def test_an_error_is_an_answer_too():
    hung, runs = Hung(), []

    def fail():
        runs.append(1)
        hung()
        raise ValueError("no")

    engine, results = engine_of(fail), []
    threads = [
        threading.Thread(target=lambda: results.append(engine.execute("s", [call("fail", "id")])[0])) for _ in range(2)
    ]
    threads[0].start()
    assert hung.began.wait(SOON)
    threads[1].start()
    until(lambda: len(engine.sessions.find("s").gate.line or ()) == 1)
    hung.end.set()
    for thread in threads:
        thread.join(SOON)
    assert runs == [1]
    assert results[0] == results[1]


def test_whoever_sends_a_call_again_that_was_left_behind_at_its_deadline_is_told_so_and_runs_nothing():
    slow = Slow(timeout=60)
    # On a busy machine the deadline may pass before the work begins; then nothing ran, and the id says so.
    number = 0
    while not slow.hung.began.is_set():
        number += 1
        [first] = slow.engine.execute("s", [call("work", f"id{number}", x=1)], timeout=0.05)
    request = CallRequest(calls=[call("work", f"id{number}", x=1)], session_id="s", replay=True)
    again = []
    slow.threads.append(threading.Thread(target=lambda: again.extend(asyncio.run(slow.engine.arun(request)))))
    slow.threads[-1].start()
    slow.in_line(1)
    slow.finish()
    assert (first.error_info.code, again[0].error_info) == ("tool.timeout", first.error_info)
    assert slow.runs == [1]
