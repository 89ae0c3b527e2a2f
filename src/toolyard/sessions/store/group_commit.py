"""`GroupCommit`: combine the writes of many threads in few transactions; a single writer commits in its own thread."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

import msgspec

from toolyard.model.errors import SessionError

_Op = TypeVar("_Op")

Apply = Callable[[Sequence[_Op], list[object]], None]
"""Writes all operations in one transaction, or raises and writes none. The second argument is the receipt: an item is
added at the moment of the commit, so that an interrupt right after it is not mistaken for a failure."""

log = logging.getLogger(__name__)


class StoreFailing(SessionError):
    """The store itself does not work now (disk full, locked, unreachable), so retrying writes one by one is useless."""


class _Pending(msgspec.Struct, Generic[_Op], eq=False):
    """A pending operation. Settled means committed or failed, finally."""

    op: _Op
    done: Callable[[BaseException | None], None] | None = None
    error: BaseException | None = None
    settled: bool = False
    withdrawn: bool = False

    def settle(self, error: BaseException | None = None) -> None:
        self.error = error
        self.settled = True


class GroupCommit(Generic[_Op]):
    """Leader and followers: the thread that gets the mutex commits for all that wait for it.

    Operations leave the queue only once they are settled, so an interrupted leader loses nothing: the next one reads
    the receipt it left, and either settles the batch as committed or commits it.
    """

    def __init__(self, apply: Apply[_Op], *, most: int = 512) -> None:
        self._apply = apply
        self._most = most
        self._mutex = threading.Lock()
        self._queue: deque[_Pending[_Op]] = deque()
        self._in_flight: tuple[Sequence[_Pending[_Op]], list[object]] = ((), [])
        self._closed = False
        self._gate = threading.Lock()  # Guards what follows; never held during a commit.
        self._closing = False
        self._inbox: SimpleQueue[_Pending[_Op] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def write(self, op: _Op) -> None:
        """Commit the operation, or raise. After a `KeyboardInterrupt` the outcome is unknown."""
        pending = _Pending(op)
        try:
            # Queue first: the next holder of the mutex includes it.
            self._queue.append(pending)
            with self._mutex:
                while not pending.settled:
                    if self._closed:
                        raise _closed_error()
                    self._commit_next()
        except BaseException:
            # The caller has given up, so nobody should write it later.
            pending.withdrawn = True
            raise
        if pending.error is not None:
            raise pending.error

    def submit(self, op: _Op, done: Callable[[BaseException | None], None]) -> None:
        """Commit without blocking. `done` runs on the writer thread, or in this call if the store is closed."""
        with self._gate:
            refused = self._closing
            if not refused:
                if self._thread is None:
                    thread = threading.Thread(target=self._serve, name="toolyard-sessions", daemon=True)
                    thread.start()
                    self._thread = thread
                self._inbox.put(_Pending(op, done))
        if refused:
            done(_closed_error())

    def write_on_thread(self, op: _Op) -> None:
        """`write` on the writer thread, for drivers that an interrupt during a commit would leave in a bad state.

        An interrupt is raised only once the outcome is known; a second one is raised at once.
        """
        if threading.current_thread() is self._thread:
            # Called from a callback; the writer thread cannot wait for itself.
            self.write(op)
            return
        done = threading.Event()
        told: list[BaseException | None] = []

        def tell(error: BaseException | None) -> None:
            told.append(error)
            done.set()

        self.submit(op, tell)
        try:
            done.wait()
        except BaseException:
            done.wait()
            raise
        if told[0] is not None:
            raise told[0]

    def close(self) -> None:
        """Commit what is pending and stop. Idempotent, also after an interrupt."""
        with self._gate:
            self._closing = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._inbox.put(None)
            thread.join()
        with self._mutex:
            while self._commit_next():
                pass
            self._closed = True

    def _commit_next(self) -> bool:
        """Commit the head of the queue; False if it was empty. Only under the mutex."""
        settled, receipt = self._in_flight
        if receipt:
            _settle(settled)
        self._forget_settled()
        # By index, since other threads append meanwhile; only the holder of the mutex removes.
        batch = [self._queue[i] for i in range(min(len(self._queue), self._most))]
        if not batch:
            return False
        self._commit([pending for pending in batch if not (pending.settled or pending.withdrawn)])
        self._forget_settled()
        return True

    def _forget_settled(self) -> None:
        while self._queue and (self._queue[0].settled or self._queue[0].withdrawn):
            self._queue.popleft()

    def _commit(self, batch: Sequence[_Pending[_Op]]) -> None:
        if not batch:
            return
        receipt: list[object] = []
        self._in_flight = (batch, receipt)
        try:
            self._apply([pending.op for pending in batch], receipt)
        except Exception as error:  # noqa: BLE001 - passed to the caller of the write
            if receipt:
                _settle(batch)
            elif len(batch) == 1:
                batch[0].settle(error)
            elif isinstance(error, StoreFailing):
                for pending in batch:
                    # One exception object raised in several threads would mix up their tracebacks.
                    copy = StoreFailing(*error.args)
                    copy.__cause__ = error.__cause__
                    pending.settle(copy)
            else:
                for pending in batch:
                    self._commit([pending])
        else:
            _settle(batch)
        self._in_flight = ((), [])

    def _serve(self) -> None:
        """Body of the writer thread, which alone calls `done` for operations from the inbox."""
        stop = False
        while not stop:
            first = self._inbox.get()
            with self._mutex:
                # Under the mutex, so that what arrived while waiting for it joins the same commit.
                taken = [first, *self._drain_inbox()]
                stop = None in taken
                mine = [pending for pending in taken if pending is not None]
                self._queue.extend(mine)
                self._commit_until_settled(mine)
            for pending in mine:
                try:
                    if pending.done is not None:
                        pending.done(pending.error)
                except Exception:
                    # A foreign callback must not end the writer thread. The write is settled either way.
                    log.exception("a callback for a session write failed")

    def _drain_inbox(self) -> list[_Pending[_Op] | None]:
        arrived: list[_Pending[_Op] | None] = []
        try:
            while len(arrived) < self._most - 1:
                arrived.append(self._inbox.get_nowait())
        except Empty:
            pass
        return arrived

    def _commit_until_settled(self, mine: Sequence[_Pending[_Op]]) -> None:
        try:
            while not all(pending.settled for pending in mine):
                self._commit_next()
        except BaseException as error:  # noqa: BLE001 - if the writer thread died, its callers would wait for ever
            batch, receipt = self._in_flight
            if receipt:
                _settle(batch)
            for pending in mine:
                if not pending.settled:
                    pending.settle(error)


def _settle(batch: Sequence[_Pending[_Op]]) -> None:
    for pending in batch:
        pending.settle()


def _closed_error() -> SessionError:
    return SessionError("the session store is closed; open a new one to go on")
