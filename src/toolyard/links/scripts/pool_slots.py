"""`PoolSlots`: who may have a worker, in the order of asking."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from concurrent.futures import Future

import msgspec

from toolyard.links.scripts.worker import Worker


class PoolSlot(msgspec.Struct):
    """The right to use one worker."""

    worker: Worker | None = None
    """One that knows the script already; None: a new one must be made."""
    stranger: Worker | None = None
    """One that belongs to another script and must make room first."""


class PoolSlots:
    """A fixed number of seats. Idle workers keep theirs until somebody needs it."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._lock = threading.Lock()
        self._idle: OrderedDict[Worker, None] = OrderedDict()
        self._queue: deque[tuple[tuple[str, str], Future[PoolSlot]]] = deque()

    def take(self, key: tuple[str, str]) -> Worker | PoolSlot | Future[PoolSlot]:
        """A worker that knows the script, or the seat for one, or the promise of a seat."""
        with self._lock:
            # Whoever waits was first; as long as somebody does, nobody is idle.
            if not self._queue:
                for worker in reversed(self._idle):
                    if worker.key == key:
                        del self._idle[worker]
                        return worker
                if self._free > 0:
                    self._free -= 1
                    return PoolSlot()
                if self._idle:
                    return PoolSlot(stranger=self._idle.popitem(last=False)[0])
            promise: Future[PoolSlot] = Future()
            self._queue.append((key, promise))
            return promise

    def give(self, worker: Worker | None) -> None:
        """Give a seat back, with the worker in it if it can go on."""
        with self._lock:
            while self._queue:
                key, promise = self._queue.popleft()
                if promise.set_running_or_notify_cancel():
                    seat = (
                        PoolSlot(worker=worker)
                        if worker is not None and worker.key == key
                        else PoolSlot(stranger=worker)
                    )
                    promise.set_result(seat)
                    return
            if worker is None:
                self._free += 1
            else:
                self._idle[worker] = None

    def abandon(self, promise: Future[PoolSlot]) -> None:
        """Wait no longer; a seat that has just been given goes to the next."""
        if not promise.cancel() and not promise.cancelled():
            seat = promise.result()
            self.give(seat.worker or seat.stranger)

    def clear(self, *, locked: bool = True) -> list[Worker]:
        """Take the idle workers out, and send everybody who waits away with a cancelled promise."""
        # In a copy of the process nobody else is left, and nobody to give the lock back.
        with self._lock if locked else threading.Lock():
            idle, waiting = list(self._idle), list(self._queue)
            self._idle.clear()
            self._free += len(idle)
            self._queue.clear()
        for _, promise in waiting:
            promise.cancel()
        return idle
