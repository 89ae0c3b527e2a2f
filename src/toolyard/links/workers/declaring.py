"""Reading what files declare: several at once, and none can spoil another."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from toolyard.links.workers.faults import how
from toolyard.links.workers.nursery import Ended
from toolyard.links.workers.settings import Code, Declared, ScriptFault, WorkerSettings
from toolyard.links.workers.staff import Staff
from toolyard.links.workers.worker import Fault, Flooded, Gone, Late, Odd, Reply, Trouble, Worker
from toolyard.loop.threads import Threads
from toolyard.model.errors import CallError, SessionError

Result = Declared | ScriptFault

_GROUP = 25
_GROUP_BYTES = 2 << 20


class _Said(msgspec.Struct, frozen=True):
    """What the process of one file says."""

    tools: list[dict[str, object]] | None = None
    fault: Fault | None = None
    ended: int | None = None


class Declaring:
    """One round over some files: those that can do nothing to each other in groups, the rest one by one."""

    def __init__(self, staff: Staff, settings: WorkerSettings, codes: Sequence[Code], deadline: float | None) -> None:
        self._staff = staff
        self._settings = settings
        self._deadline = deadline
        self._codes = codes
        self._todo: deque[list[int]] = deque(_groups(codes, max(settings.workers, 1)))
        self._lock = threading.Lock()
        self.results: list[Result | None] = [None] * len(codes)

    def run(self, threads: Threads) -> list[Result]:
        """Every file, in the order given."""
        helpers = min(self._settings.workers, len(self._codes)) - 1
        others = []
        with suppress(SessionError):
            others = [threads.submit(self._work) for _ in range(helpers)]
        self._work()
        for other in others:
            # One that has not begun by now would find nothing to do, and may never begin.
            if not other.cancel():
                other.result()
        return [result for result in self.results if result is not None]

    def _work(self) -> None:
        worker: Worker | None = None
        had_groups = False
        try:
            while (numbers := self._next()) is not None:
                is_group = len(numbers) > 1
                if worker is not None and had_groups and not is_group:
                    # What executed files itself is not to be what others are forked from.
                    self._staff.end(worker)
                    worker = None
                had_groups = is_group
                try:
                    if worker is None:
                        worker = self._staff.start("declare", self._deadline)
                except CallError as error:
                    for number in numbers:
                        self.results[number] = ScriptFault(self._codes[number].file, str(error), kind="unavailable")
                    continue
                if not self._ask(worker, numbers):
                    worker = None
        finally:
            if worker is not None:
                self._staff.end(worker)

    def _next(self) -> list[int] | None:
        with self._lock:
            return self._todo.popleft() if self._todo else None

    def _later(self, numbers: list[int]) -> None:
        with self._lock:
            self._todo.extend([number] for number in numbers)

    def _ask(self, worker: Worker, numbers: list[int]) -> bool:
        """Ask about some files; False if the worker is of no more use."""
        codes = [self._codes[number] for number in numbers]
        is_group = len(numbers) > 1
        token = secrets.token_hex(8)
        files = [(code.file, code.source.decode("latin-1")) for code in codes]
        limit = time.monotonic() + self._settings.declare_seconds
        exchange = self._staff.exchange(worker)
        try:
            exchange.begin(msgspec.json.encode({"token": token, "group": is_group, "files": files}))
            reply = exchange.wait(limit if self._deadline is None else min(limit, self._deadline))
            said = _said(reply, token, len(numbers))
        except Trouble as trouble:
            ended = self._staff.end(worker)
            if is_group:
                self._later(numbers)
            else:
                self.results[numbers[0]] = _trouble(codes[0], trouble, ended)
            return False
        for number, code, item in zip(numbers, codes, said, strict=True):
            self.results[number] = None if item is None else _result(code, item)
        self._later([number for number, item in zip(numbers, said, strict=True) if item is None])
        if not reply.again:
            self._staff.end(worker)
        return reply.again


def _groups(codes: Sequence[Code], workers: int) -> list[list[int]]:
    """Numbers of files that are asked about at once: enough for each worker, and not too many bytes."""
    most = max(1, min(_GROUP, -(-len(codes) // workers)))
    groups: list[list[int]] = [[]]
    size = 0
    for number, code in enumerate(codes):
        if len(groups[-1]) >= most or (groups[-1] and size + len(code.source) > _GROUP_BYTES):
            groups.append([])
            size = 0
        groups[-1].append(number)
        size += len(code.source)
    return groups


def _said(reply: Reply, token: str, count: int) -> list[_Said | None]:
    if reply.token != token:
        raise Odd("an answer to another question")
    with suppress(msgspec.ValidationError):
        said = msgspec.convert(reply.body, list[_Said | None])
        if len(said) == count and (count > 1 or said[0] is not None):
            return said
    raise Odd("an answer of another shape")


def _result(code: Code, said: _Said) -> Result:
    if said.tools is not None:
        return Declared(code.file, said.tools)
    if said.fault is not None:
        fault = said.fault
        text = fault.message if fault.refused else f"{fault.type}: {fault.message}".removesuffix(": ")
        return ScriptFault(code.file, text, "refused" if fault.refused else "error", fault.line, fault.trace)
    return ScriptFault(code.file, f"it {how(Ended(status=said.ended), doing='it had declared anything')}", "crash")


def _trouble(code: Code, trouble: Trouble, ended: Ended) -> ScriptFault:
    if isinstance(trouble, Late):
        return ScriptFault(code.file, "it took too long to say what it declares, and was ended", "timeout")
    if isinstance(trouble, Flooded):
        return ScriptFault(code.file, "it printed more than its limit while it was read, and was ended", "crash")
    known = trouble if not isinstance(trouble, Gone) else None
    return ScriptFault(code.file, f"it {how(ended, known, doing='it had declared anything')}", "crash")
