"""`Staff`: starts workers and ends them, and starts the nursery again when it is lost."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from toolyard.links.workers.faults import how
from toolyard.links.workers.nursery import Ended, Nursery, NurseryBroken, Role
from toolyard.links.workers.settings import Level, WorkerSettings
from toolyard.links.workers.worker import Exchange, Late, Trouble, Worker
from toolyard.model.errors import CallTimeout, Unavailable


class Staff:
    """Its methods block for a moment; they may be called from any thread but the one of the links' loop."""

    def __init__(self, settings: WorkerSettings, level: Level, label: str) -> None:
        self._settings = settings
        self._level: Level = level
        self._label = label
        self._lock = threading.Lock()
        self._nursery: Nursery | None = None
        self._is_closed = False

    def start(self, role: Role, deadline: float | None = None) -> Worker:
        """A worker that is ready. `Unavailable` if there is none to be had, `CallTimeout` if not in time."""
        try:
            return self._start(role, deadline)
        except NurseryBroken:
            # It was lost since it was last used; a second failure is no accident.
            try:
                return self._start(role, deadline)
            except NurseryBroken as error:
                raise Unavailable(f"{self._label}: {error}") from None

    def get_ready(self, role: Role) -> None:
        """Start the process that workers are forked from. If it cannot be, whoever needs one will hear of it."""
        with suppress(NurseryBroken, Unavailable):
            self._open_nursery(role)

    def end(self, worker: Worker) -> Ended:
        """End a worker. Where something of it cannot be ended, everybody of its nursery is."""
        nursery = worker.nursery
        ended = nursery.end(worker)
        if not ended.clean:
            nursery.close()
        return ended

    def close(self) -> None:
        """End everybody; nobody is started any more."""
        with self._lock:
            self._is_closed = True
            if self._nursery is not None:
                self._nursery.close()

    def let_go(self) -> None:
        """Forget everybody without ending them: they belong to the process that this is a copy of."""
        if self._nursery is not None:
            self._nursery.let_go()

    def exchange(self, worker: Worker) -> Exchange:
        """One question to a worker."""
        return Exchange(worker, self._settings)

    def _start(self, role: Role, deadline: float | None) -> Worker:
        worker = self._open_nursery(role).fork(role)
        end = time.monotonic() + self._settings.start_seconds
        try:
            reply = self.exchange(worker).wait(end if deadline is None else min(end, deadline))
        except Trouble as trouble:
            ended = self.end(worker)
            if isinstance(trouble, Late) and deadline is not None and time.monotonic() >= deadline:
                raise CallTimeout(f"{self._label}: no worker was ready in time", effect="none") from None
            if ended.status is None and ended.fault is None:
                raise NurseryBroken("the process that makes workers does not answer") from None
            raise Unavailable(f"{self._label}: a worker {how(ended)}") from None
        if not reply.ready:
            self.end(worker)
            raise Unavailable(f"{self._label}: {reply.broken or 'a worker is not ready'}")
        return worker

    def _open_nursery(self, role: Role) -> Nursery:
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"{self._label}: the workers are closed", retryable=False)
            if self._nursery is not None and self._nursery.is_broken:
                self._nursery.close()
                self._nursery = None
            if self._nursery is None:
                nursery = Nursery(self._settings, self._level, role)
                nursery.start()
                self._nursery = nursery
            return self._nursery
