"""One request with an idempotency key: how it is carried out, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from toolyard.model.errors import SessionBusyError, SessionExistsError, UnknownSessionError
from toolyard.serving import once_entry, once_faults
from toolyard.serving.faults import HttpFault
from toolyard.serving.response import Response

_T = TypeVar("_T")

# Raised before anything has run, each by its own promise; about all other errors nobody knows.
_NOTHING_RAN = (HttpFault, SessionBusyError, SessionExistsError, UnknownSessionError)


class Slot(NamedTuple):
    """Where a key's answer is stored."""

    owner: str
    name: str


class Job(NamedTuple):
    """One request with a key, as it was made."""

    slot: Slot
    digest: bytes
    make: Callable[[], Awaitable[Response]]
    repeatable: bool
    interrupted: Callable[[], Response]


class Work:
    """A request that is being carried out here, or waited for on behalf of another process."""

    __slots__ = ("digest", "task", "waiters")

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.task: asyncio.Task[None] | None = None
        self.waiters: list[asyncio.Future[Response]] = []
        """One for each who asked: whoever gives up waiting takes neither the work nor the others' answer along."""

    def tell(self, response: Response) -> None:
        """It is over."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(response)

    def fail(self, error: Exception) -> bool:
        """It is over, with an error; False if nobody was left to tell."""
        left = [waiter for waiter in self.waiters if not waiter.done()]
        for waiter in left:
            waiter.set_exception(error)
        return bool(left)


async def carried_out(job: Job) -> tuple[Response, bytes | None, BaseException | None]:
    """Carry out the request: the response, what is to be stored (None: as if it had never come), and the error."""
    try:
        response = await job.make()
    except _NOTHING_RAN as error:
        return Response(), None, error
    except asyncio.CancelledError:
        if job.repeatable:
            return Response(), None, once_faults.stopping()
        response = job.interrupted()
    except Exception as error:  # noqa: BLE001 - raised again, once the store knows that something may have run
        if job.repeatable:
            return Response(), None, error
        return Response(), once_entry.answer(job.digest, job.interrupted()), error
    return response, once_entry.answer(job.digest, response), None


async def to_the_end(work: Coroutine[Any, Any, _T]) -> tuple[_T, asyncio.CancelledError | None]:
    """Wait for something that must not stop half way, even if this task is cancelled; says if it was."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    return task.result(), cancelled
