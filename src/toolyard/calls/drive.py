"""Driving a flow: in a thread, or in a task. The flow says what happens; these two only wait."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolyard.calls.waits import Flow, Wait
from toolyard.loop.threads import loop_runs_here

T = TypeVar("T")


def drive(flow: Flow, results: T) -> T:
    """Run a flow in this thread. One that waits for nothing is over at once."""
    for wait in flow:
        _drive_on(flow, wait)
    return results


def _drive_on(flow: Flow, wait: Wait) -> None:
    got: Any
    try:
        while True:
            try:
                got = wait.here()
            except BaseException as error:  # noqa: BLE001 - it belongs to the flow, interrupts too
                wait = flow.throw(error)
            else:
                wait = flow.send(got)
    except StopIteration:
        return
    finally:
        # An interrupt may come out here, too: the flow hears that nobody drives it any more.
        flow.close()


async def adrive(flow: Flow, results: T) -> T:
    """Run a flow in this task."""
    for first in flow:
        wait: Wait = first
        try:
            while True:
                try:
                    got = await wait.there()
                except GeneratorExit:
                    raise  # the task itself is thrown away: nothing can be awaited any more
                except BaseException as error:  # noqa: BLE001 - it belongs to the flow, cancellations too
                    wait = flow.throw(error)
                else:
                    wait = flow.send(got)
        except StopIteration:
            return results
        finally:
            flow.close()
    return results


def drive_value(flow: Flow) -> Any:
    """Run a flow in this thread, and give what it returns."""
    values: list[Any] = []
    drive(_keep_value(flow, values), values)
    return values[0]


async def adrive_value(flow: Flow) -> Any:
    """`drive_value` for a task."""
    values: list[Any] = []
    await adrive(_keep_value(flow, values), values)
    return values[0]


def _keep_value(flow: Flow, values: list[Any]) -> Flow:
    values.append((yield from flow))


class EitherWay:
    """A wait for what can be had in both ways, such as an exchange with a client that has a-twins."""

    __slots__ = ("here", "there")

    def __init__(self, here: Callable[[], Any], there: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.here = here
        self.there = there


def drive_here(flow: Flow) -> Any:
    """What a flow returns; where an event loop runs, a coroutine for it."""
    return adrive_value(flow) if loop_runs_here() else drive_value(flow)
