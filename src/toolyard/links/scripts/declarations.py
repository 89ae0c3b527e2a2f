"""Reading what files declare: several at once, and none can spoil another."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from toolyard.links.scripts.fork_server import Supervisor
from toolyard.links.scripts.settings import Code, Declared, Ended, ScriptFault, WorkerSettings
from toolyard.links.scripts.worker import Flooded, Gone, Late, Odd, Trouble, Worker, WorkerFault, WorkerReply, how
from toolyard.loop.threads import Threads
from toolyard.model.errors import CallError, SessionError

Result = Declared | ScriptFault


class _Said(msgspec.Struct, frozen=True):
    """What the process of one file says."""

    tools: list[dict[str, object]] | None = None
    fault: WorkerFault | None = None
    ended: int | None = None


class DeclarationRound:
    """One round over some files, each read in a fork of its own."""

    def __init__(
        self, supervisor: Supervisor, settings: WorkerSettings, codes: Sequence[Code], deadline: float | None
    ) -> None:
        self._supervisor = supervisor
        self._settings = settings
        self._deadline = deadline
        self._codes = codes
        self._todo = deque(range(len(codes)))
        self._lock = threading.Lock()
        self.results: list[Result | None] = [None] * len(codes)

    def run(self, threads: Threads) -> list[Result]:
        """Every file, in the order given."""
        helpers = min(self._settings.workers, len(self._codes)) - 1
        others = []
        with suppress(SessionError):
            others = [threads.submit(self._read_files) for _ in range(helpers)]
        self._read_files()
        for other in others:
            # One that has not begun by now would find nothing to do, and may never begin.
            if not other.cancel():
                other.result()
        return [result for result in self.results if result is not None]

    def _read_files(self) -> None:
        worker: Worker | None = None
        try:
            while (number := self._take_next()) is not None:
                try:
                    if worker is None:
                        worker = self._supervisor.start("declare", self._deadline)
                except CallError as error:
                    self.results[number] = ScriptFault(self._codes[number].file, str(error), kind="unavailable")
                    continue
                if not self._ask_worker(worker, number):
                    worker = None
        finally:
            if worker is not None:
                self._supervisor.end(worker)

    def _take_next(self) -> int | None:
        with self._lock:
            return self._todo.popleft() if self._todo else None

    def _ask_worker(self, worker: Worker, number: int) -> bool:
        """Ask about one file; False if the worker is of no more use."""
        code = self._codes[number]
        token = secrets.token_hex(8)
        limit = time.monotonic() + self._settings.declare_seconds
        exchange = self._supervisor.exchange(worker)
        question = {"token": token, "file": code.file, "code": code.source.decode("latin-1")}
        try:
            exchange.begin(msgspec.json.encode(question))
            reply = exchange.wait(limit if self._deadline is None else min(limit, self._deadline))
            said = _read_reply(reply, token)
        except Trouble as trouble:
            self.results[number] = _explain_trouble(code, trouble, self._supervisor.end(worker))
            return False
        self.results[number] = _read_result(code, said)
        if not reply.again:
            self._supervisor.end(worker)
        return reply.again


def _read_reply(reply: WorkerReply, token: str) -> _Said:
    if reply.token != token:
        raise Odd("an answer to another question")
    with suppress(msgspec.ValidationError):
        return msgspec.convert(reply.body, _Said)
    raise Odd("an answer of another shape")


def _read_result(code: Code, said: _Said) -> Result:
    if said.tools is not None:
        return Declared(code.file, said.tools)
    if said.fault is not None:
        fault = said.fault
        text = fault.message if fault.refused else f"{fault.type}: {fault.message}".removesuffix(": ")
        return ScriptFault(code.file, text, "refused" if fault.refused else "error", fault.line, fault.trace)
    return ScriptFault(code.file, f"it {how(Ended(status=said.ended), doing='it had declared anything')}", "crash")


def _explain_trouble(code: Code, trouble: Trouble, ended: Ended) -> ScriptFault:
    if isinstance(trouble, Late):
        return ScriptFault(code.file, "it took too long to say what it declares, and was ended", "timeout")
    if isinstance(trouble, Flooded):
        return ScriptFault(code.file, "it printed more than its limit while it was read, and was ended", "crash")
    known = trouble if not isinstance(trouble, Gone) else None
    return ScriptFault(code.file, f"it {how(ended, known, doing='it had declared anything')}", "crash")
