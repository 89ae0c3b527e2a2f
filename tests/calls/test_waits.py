"""A flow is driven in a thread and in a task: what it waits for comes back to it, and so does what went wrong."""

import asyncio
import threading

import pytest

from toolyard.calls.flow import adrive, drive
from toolyard.calls.waits import enter_gate, pause
from toolyard.sessions.gate import Gate


class Said:
    """Waits for nothing, and says where it was waited for."""

    def block(self):
        return "in a thread", threading.current_thread()

    async def suspend(self):
        return "in a task", asyncio.current_task()


class Broken:
    """Goes wrong in either place."""

    def block(self):
        raise LookupError("here")

    async def suspend(self):
        raise LookupError("there")


def flow(*waits, seen):
    for wait in waits:
        try:
            seen.append((yield wait))
        except LookupError as error:
            seen.append(str(error))


async def test_each_wait_is_waited_for_where_the_driver_is_and_the_flow_is_sent_what_came_of_it():
    here, there, results = [], [], []
    assert drive(flow(Said(), Broken(), Said(), seen=here), results) is results
    assert await adrive(flow(Said(), Broken(), Said(), seen=there), results) is results
    thread, task = ("in a thread", threading.current_thread()), ("in a task", asyncio.current_task())
    assert (here, there) == ([thread, "here", thread], [task, "there", task])


async def test_what_a_flow_does_not_catch_is_raised_to_who_drives_it():
    def careless():
        yield Broken()

    with pytest.raises(LookupError, match="here"):
        drive(careless(), None)
    with pytest.raises(LookupError, match="there"):
        await adrive(careless(), None)


async def test_a_flow_that_waits_for_nothing_is_over_at_once():
    assert drive(flow(seen=[]), "nothing") == await adrive(flow(seen=[]), "nothing") == "nothing"


async def test_a_task_that_is_cancelled_tells_its_flow_which_may_still_clean_up():
    cleaned = []

    def careful():
        try:
            yield pause(600)
        finally:
            cleaned.append((yield Said())[0])

    task = asyncio.ensure_future(adrive(careful(), None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["in a task"]


async def test_a_gate_that_stays_closed_is_told_as_false_in_both_places():
    gate = Gate()
    assert gate.enter(None)
    seen = []
    await asyncio.to_thread(drive, flow(enter_gate(gate, 0.0), seen=seen), None)
    await adrive(flow(enter_gate(gate, 0.0), seen=seen), None)
    assert seen == [False, False]
