"""`ScriptPool`: calls handlers of scripts and reads their declarations in worker processes."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal, TypeVar

import msgspec

from toolyard.links.scripts.fork_server import Supervisor
from toolyard.links.scripts.sandbox import Level, environment, probe_level
from toolyard.links.scripts.worker import (
    DeadlinePassed,
    ExchangeError,
    InvalidReply,
    OutputTooLarge,
    ReportedDeclarations,
    Worker,
    WorkerEnd,
    WorkerExchange,
    WorkerLost,
    describe_end,
    make_exchange_error,
    make_script_error,
)
from toolyard.loop.home import link_loop
from toolyard.loop.threads import Threads, await_future, reset_after_fork
from toolyard.model.bases import Closing
from toolyard.model.errors import CallError, CallTimeout, InvalidArguments, SessionError, Unavailable
from toolyard.schema.common_options import WorkerSettings
from toolyard.sessions.gate import Gate
from toolyard.words.redactor import find_credentials


class Code(msgspec.Struct, frozen=True):
    """The content of a script, as it was read and hashed."""

    file: str
    sha256: str
    source: bytes

    def __repr__(self) -> str:
        return f"Code(file={self.file!r}, sha256={self.sha256!r}, {len(self.source)} bytes)"


class Answer(msgspec.Struct, frozen=True):
    """The return value of a handler, and the end of its output."""

    value: Any
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False


class DeclaredTools(msgspec.Struct, frozen=True):
    """The tools of one file.

    Each is a dict of `name`, `description`, `parameters`, `output`, `aliases`, `timeout`, `effects`, `tags`, `version`,
    `flags`, `handler`, `takes_ctx`, `is_async`; what the file does not declare is None or empty.
    """

    file: str
    tools: list[dict[str, Any]]


class ScriptFault(msgspec.Struct, frozen=True):
    """Why the declarations of a file could not be read."""

    file: str
    message: str
    kind: Literal["error", "refused", "timeout", "crash", "unavailable"] = "error"
    """error: it raised; refused: it declares wrongly; crash: its process ended; unavailable: it had no process."""
    line: int | None = None
    trace: str = ""
    """For the log only, not for callers."""


class PoolSlots:
    """A fixed number of slots, first come, first served. Idle workers keep theirs until another caller needs it."""

    def __init__(self, size: int) -> None:
        self.gate = Gate(size)
        self._lock = threading.Lock()
        self.idle: OrderedDict[Worker, None] = OrderedDict()

    def find(self, key: tuple[str, str]) -> Worker | None:
        """For the holder of a slot: an idle worker with that script, or one that must be replaced, or None."""
        with self._lock:
            for worker in reversed(self.idle):
                if worker.key == key:
                    del self.idle[worker]
                    return worker
            return self.idle.popitem(last=False)[0] if len(self.idle) > len(self.gate.free) else None

    def release(self, worker: Worker | None) -> None:
        """Give back a slot, with its worker if that can be used again."""
        # Both under the lock: otherwise there could be one worker too many in between.
        with self._lock:
            if worker is not None:
                self.idle[worker] = None
            self.gate.leave()

    def remove_idle(self) -> list[Worker]:
        """Remove and return the idle workers."""
        with self._lock:
            idle, self.idle = list(self.idle), OrderedDict()
        return idle


Result = DeclaredTools | ScriptFault


def _read_declaration(code: Code, reported: ReportedDeclarations) -> Result:
    if reported.tools is not None:
        return DeclaredTools(code.file, reported.tools)
    if reported.fault is not None:
        fault = reported.fault
        text = fault.message if fault.refused else f"{fault.type}: {fault.message}".removesuffix(": ")
        return ScriptFault(code.file, text, "refused" if fault.refused else "error", fault.line, fault.trace)
    if reported.unforked is not None:
        return ScriptFault(code.file, reported.unforked, "unavailable")
    return ScriptFault(
        code.file, f"it {describe_end(WorkerEnd(status=reported.ended), doing='it had declared anything')}", "crash"
    )


def _explain_failure(code: Code, error: ExchangeError, ended: WorkerEnd) -> ScriptFault:
    if isinstance(error, DeadlinePassed):
        return ScriptFault(code.file, "it took too long to say what it declares, and was ended", "timeout")
    if isinstance(error, OutputTooLarge):
        return ScriptFault(code.file, "it printed more than its limit while it was read, and was ended", "crash")
    known = error if not isinstance(error, WorkerLost) else None
    text = f"it {describe_end(ended, known, doing='it had declared anything')}"
    # If its status is unknown, the whole fork server was ended.
    lost = known is None and ended.status is None
    return ScriptFault(code.file, text, "unavailable" if lost else "crash")


T = TypeVar("T")


class _Call(msgspec.Struct, frozen=True):
    token: str
    handler: str
    arguments: Mapping[str, Any]
    ctx: Mapping[str, Any] | None
    file: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET


_encoder = msgspec.json.Encoder()


class ScriptPool(Closing):
    """Warm processes for the scripts of one directory. Its methods may be called from any thread and any loop.

    A worker belongs to the script of its first call, so that scripts cannot see what others leave behind.
    """

    def __init__(self, settings: WorkerSettings, label: str = "scripts") -> None:
        self.settings = settings
        self.label = label
        self.level: Level = probe_level(settings.sandbox)
        given = environment(settings).items()
        self.credentials = tuple(part for item in given for part in find_credentials(*item))
        """The credentials in the environment of scripts, which results must not repeat."""
        self._reset()
        reset_after_fork(self)

    def _reset(self) -> None:
        workers = self.settings.workers
        self._slots = PoolSlots(workers)
        self._threads = Threads(workers * 2 + 2, "toolyard-scripts")
        self._supervisor = Supervisor(self.settings, self.level, self.label)

    def reset_in_child(self) -> None:
        """Start with new workers: a forked child must not use those of its parent."""
        for worker in self._slots.idle:  # its lock may be held by a thread that does not exist here
            worker.close()
        self._supervisor.disown()
        self._reset()

    async def acall(
        self, code: Code, handler: str, arguments: Mapping[str, Any], *, ctx: Mapping[str, Any] | None = None,
        deadline: float | None = None,
    ) -> Answer:  # fmt: skip
        """The return value of a handler; `deadline` is in the time of `time.monotonic()`. Raises only `CallError`s.

        Cancelling it ends the worker, whose state is then unknown.
        """
        started = time.monotonic()
        # The token cannot be known to a script before the call.
        request = _Call(secrets.token_hex(8), handler, arguments, ctx)
        body = _encode_call(request, code)
        worker = await self._find_worker(code, deadline)
        if not worker.calls:
            first = msgspec.structs.replace(request, file=code.file, code=code.source.decode("latin-1"))
            body = _encoder.encode(first)
        exchange = WorkerExchange(worker, self.settings)
        try:
            exchange.begin(body)
            reply = await exchange.wait_async(deadline)
            if reply.token != request.token:
                raise InvalidReply("an answer to another question")
        except ExchangeError as error:
            retired = self._retire_soon(worker)
            # The status is only informative if the process ended by itself.
            ended = await await_future(retired) if isinstance(error, WorkerLost) else WorkerEnd()
            raise make_exchange_error(code.file, error, ended, exchange, time.monotonic() - started) from None
        except BaseException:
            self._retire_soon(worker)
            raise
        worker.calls += 1
        if reply.again and exchange.is_sent and worker.calls < self.settings.calls_per_worker:
            self._slots.release(worker)
        else:
            self._retire_soon(worker)
        if reply.fault is not None:
            raise make_script_error(code.file, reply.fault, exchange, self.level)
        return Answer(reply.value, *exchange.printed())

    call = link_loop.sync_twin(acall)

    async def adeclare(self, codes: Sequence[Code], *, deadline: float | None = None) -> list[Result]:
        """What each file declares, or why it cannot be read, in the same order.

        Several are read concurrently, each in its own fork. No file can change what another declares, except where a
        level lets scripts access the memory of each other: see note (2) of `sandbox`. A file that got no process,
        because another file used up the limit, is read again after the others.
        """
        results: dict[int, Result] = {}
        todo = deque(enumerate(codes))
        helpers = min(self.settings.workers, len(codes))
        await asyncio.gather(*(self._read_files(todo, results, deadline) for _ in range(helpers)))
        lost = {n for n, item in results.items() if isinstance(item, ScriptFault) and item.kind == "unavailable"}
        todo = deque(item for item in enumerate(codes) if item[0] in lost)
        if len(todo) < len(codes):
            await self._read_files(todo, results, deadline)
        return [results[number] for number in range(len(codes))]

    declare = link_loop.sync_twin(adeclare)

    def close(self) -> None:
        """End every process. Waiting and running calls fail; later ones raise `Unavailable`."""
        self._supervisor.close()
        for worker in self._slots.remove_idle():
            worker.close()
        self._threads.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        with suppress(SessionError):
            await await_future(self._threads.submit(self.close))

    async def _read_files(
        self, todo: deque[tuple[int, Code]], results: dict[int, Result], deadline: float | None
    ) -> None:
        """Read files with a worker until none are left; replace the worker when it cannot be used again."""
        worker: Worker | None = None
        try:
            while todo:
                number, code = todo.popleft()
                try:
                    worker = worker or await self._start_reader(deadline)
                except CallError as error:
                    results[number] = ScriptFault(code.file, str(error), kind="unavailable")
                    continue
                results[number], again = await self._read_file(worker, code, deadline)
                if not again:
                    worker = None
        finally:
            if worker is not None:
                await await_future(self._end_soon(worker))

    async def _start_reader(self, deadline: float | None) -> Worker:
        made = self._submit_work(lambda: self._supervisor.start("declare", deadline))
        try:
            return await await_future(made)
        except asyncio.CancelledError:
            # The worker will start anyway, so end it then.
            made.add_done_callback(lambda made: made.result().end() if _has_result(made) else None)
            raise

    async def _read_file(self, worker: Worker, code: Code, deadline: float | None) -> tuple[Result, bool]:
        """What one file declares, and whether the worker can read another."""
        token = secrets.token_hex(8)
        limit = time.monotonic() + self.settings.declare_seconds
        exchange = WorkerExchange(worker, self.settings)
        try:
            exchange.begin(_encoder.encode({"token": token, "file": code.file, "code": code.source.decode("latin-1")}))
            reply = await exchange.wait_async(limit if deadline is None else min(limit, deadline))
            if reply.token != token or reply.body is None:
                raise InvalidReply("an answer to another question")
        except ExchangeError as error:
            return _explain_failure(code, error, await await_future(self._end_soon(worker))), False
        if not reply.again:
            await await_future(self._end_soon(worker))
        return _read_declaration(code, reply.body), reply.again

    async def _find_worker(self, code: Code, deadline: float | None) -> Worker:
        if not await self._slots.gate.aenter(deadline):
            text = f"{self.label}: all {self.settings.workers} workers were busy until the deadline"
            raise CallTimeout(text, effect="none", hint="allow more workers, or a longer time")
        key = (code.file, code.sha256)
        found = self._slots.find(key)
        if found is not None and found.key == key and found.is_ready():
            return found
        made = self._make_soon(found, key)
        try:
            async with asyncio.timeout(None if deadline is None else max(deadline - time.monotonic(), 0.0)):
                return await asyncio.shield(await_future(made))
        except BaseException as error:
            made.add_done_callback(lambda made: self._retire_soon(made.result()) if _has_result(made) else None)
            if isinstance(error, TimeoutError):
                raise CallTimeout(f"{self.label}: no worker was ready before the deadline", effect="none") from None
            raise

    def _make_soon(self, old: Worker | None, key: tuple[str, str]) -> Future[Worker]:
        """Start a worker for a script in the background, replacing the old worker of the slot."""

        def make() -> Worker:
            if old is not None:
                old.end()
            worker = self._supervisor.start("serve")
            worker.key = key
            return worker

        try:
            made = self._submit_work(make)
        except BaseException:
            self._slots.release(None)
            raise
        made.add_done_callback(lambda made: None if _has_result(made) else self._slots.release(None))
        return made

    def _retire_soon(self, worker: Worker) -> Future[WorkerEnd]:
        """End a worker in the background; its slot becomes free when the process is gone."""
        ended = self._end_soon(worker)
        ended.add_done_callback(lambda _: self._slots.release(None))
        return ended

    def _end_soon(self, worker: Worker) -> Future[WorkerEnd]:
        try:
            return self._threads.submit(worker.end)
        except SessionError:
            ended: Future[WorkerEnd] = Future()
            ended.set_result(worker.end())
            return ended

    def _submit_work(self, work: Callable[[], T]) -> Future[T]:
        try:
            return self._threads.submit(work)
        except SessionError:
            raise Unavailable(f"{self.label}: the workers are closed", retryable=False) from None


def _has_result(future: Future[Any]) -> bool:
    return not future.cancelled() and future.exception() is None


def _encode_call(request: _Call, code: Code) -> bytes:
    try:
        return _encoder.encode(request)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        what = "the arguments, or the context of the call, cannot be written as JSON"
        raise InvalidArguments(f"{code.file}: {what}: {error}") from None
