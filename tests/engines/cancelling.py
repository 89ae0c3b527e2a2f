"""Cancels a coroutine at its N-th suspension, as asyncio does."""

import asyncio

AT = "at the suspension"
AFTER = "when what it waited for has just come"
AGAIN = "at the suspension and at the two that follow"


class Cancelling:
    """An awaitable that cancels its own task when the coroutine inside suspends for the N-th time."""

    def __init__(self, work, number, how):
        self.work = work
        self.number = number
        self.how = how
        self.suspensions = 0

    @property
    def fired(self):
        return self.suspensions >= self.number

    def __await__(self):
        task, inner = asyncio.current_task(), self.work.__await__()
        step = inner.send
        value = None
        while True:
            try:
                waited_for = step(value)
            except StopIteration as end:
                return end.value
            self.suspensions += 1
            self._cancel(task, waited_for)
            step = inner.send
            try:
                value = yield waited_for
            except BaseException as error:  # pass any exception on to the coroutine
                step, value = inner.throw, error

    def _cancel(self, task, waited_for):
        since = self.suspensions - self.number
        if self.how == AFTER:
            if since == 0 and waited_for is not None:
                # Registered before the task's own callback: cancels between the result and the wakeup.
                waited_for.add_done_callback(lambda _: task.cancel())
            elif since == 0:
                asyncio.get_running_loop().call_soon(task.cancel)
        elif since == 0 or (self.how == AGAIN and 0 < since <= 2):
            task.cancel()


async def cancelled_at(work, number, how):
    """(fired, outcome): whether there was an N-th suspension, and the coroutine's outcome."""
    cancelling = Cancelling(work, number, how)

    async def run():
        return await cancelling

    task = asyncio.ensure_future(run())
    await asyncio.wait({task})
    if task.cancelled():
        return cancelling.fired, asyncio.CancelledError
    return cancelling.fired, task.result()
