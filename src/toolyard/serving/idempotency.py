"""`Idempotency`: a request with an idempotency key runs once, however often it arrives, and at whichever process.

The entry of a key in the store goes from nothing to a *claim* to an *answer*. The claim is stored before anything
runs, the answer before it is sent. So whichever process dies at whatever point, the next request with the key can tell
how far it got:

    entry      meaning                                what the next request does
    nothing    not begun                              runs
    claim      running, or its process has died       waits; if it has died: answers `interrupted`, or runs a READ again
    answer     finished                               gives the same answer
               some of its calls are held             makes it a claim again, and runs those calls

Each process holds a lock under its own name, which is released when it dies. A live process may lose its lock (when
its connection is cut), so correctness does not depend on it: every step is a compare-and-swap, and an answer that
arrives late replaces an `interrupted` that was only a guess.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from toolyard.loop.threads import wait_uncancelled
from toolyard.model.errors import (
    SessionBusyError,
    SessionError,
    SessionExistsError,
    SessionFullError,
    UnknownEntryError,
    UnknownSessionError,
)
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.stored_answers import (
    StoredAnswer,
    encode_entry,
    make_in_progress,
    make_key_conflict,
    make_stopping,
    make_store_unavailable,
    make_unrecorded,
    mark_replayed,
    read_entry,
    replay_answer,
    stored_name,
    withdraw_claim,
)
from toolyard.sessions.records import Records
from toolyard.sessions.store.group_commit import StoreFailing

KEEP_SECONDS = 24 * 3600.0
"""Seconds that an answer is kept."""

_KIND, _HOLDER = "answer", "holder"
_MIN_PAUSE = 0.02
_MAX_PAUSE = 0.25
_PROBE_SECONDS = 1.0
"""Seconds between checks whether the process that holds a claim is still alive."""
_MAX_UNSETTLED = 10_000
_SWEEP_SECONDS = 600.0

log = logging.getLogger(__name__)
_T = TypeVar("_T")


# Errors that guarantee that nothing has run; after any other error, something may have.
_NOTHING_RAN = (
    *(HttpFault, SessionBusyError, SessionExistsError, SessionFullError),
    *(UnknownEntryError, UnknownSessionError),
)


Slot = tuple[str, str]
"""Where the entry of an idempotency key is stored: owner and name."""


class KeyedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request with an idempotency key."""

    owner: str
    key: str
    digest: bytes
    """Identifies the request: a different one under the same key is a 409."""
    make: Callable[[], Awaitable[StoredAnswer]]
    """Runs it. If it raises an error which says that nothing ran, the key stays unused."""
    interrupted: Callable[[], StoredAnswer]
    """The permanent answer if it may have been cut short and must not run twice."""
    repeatable: bool = False
    """Whether it may run twice without harm."""
    resume: Callable[[bytes], None] | None = None
    """Takes an `unfinished` answer, which is not replayed; then `make` is called again."""

    @property
    def slot(self) -> Slot:
        """Where its entry is stored."""
        return self.owner, stored_name(self.key)


class KeyedWork:
    """A request running in this process, or waiting for another process that has claimed its key."""

    __slots__ = ("digest", "task", "waiting")

    def __init__(self, digest: bytes, task: asyncio.Task[StoredAnswer]) -> None:
        self.digest = digest
        self.task = task
        self.waiting = 0
        """The number of requests that wait for it. One that is cancelled does not cancel the work."""

    async def wait(self) -> StoredAnswer:
        """Return the answer, or raise the error of the work."""
        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.task.cancelled():
                # Cancelled by `close` before it began, so `_run` had no chance to raise this.
                raise make_stopping() from None
            raise
        finally:
            self.waiting -= 1


async def run_request(request: KeyedRequest, claim: bytes) -> tuple[StoredAnswer, bytes | None, BaseException | None]:
    """Run the request. Return the answer, the entry to store (None to withdraw the claim), and the error, if any."""
    earlier = read_entry(claim).unfinished
    if earlier and request.resume is not None:
        request.resume(earlier)
    try:
        response = await request.make()
    except _NOTHING_RAN as error:
        return StoredAnswer(), None, error
    except asyncio.CancelledError:
        if request.repeatable:
            return StoredAnswer(), None, make_stopping()
        response = request.interrupted()
    except Exception as error:  # noqa: BLE001 - raised again, once the store knows that something may have run
        if request.repeatable:
            return StoredAnswer(), None, error
        return StoredAnswer(), encode_entry(replace(request.interrupted(), digest=request.digest)), error
    return response, encode_entry(replace(response, digest=request.digest)), None


async def finish_uncancelled(work: Coroutine[Any, Any, _T]) -> tuple[_T, BaseException | None]:
    """Run `work` to its end even if this task is cancelled; return its result, and the cancellation, if any."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled = await wait_uncancelled(task)
    return task.result(), cancelled


class Idempotency:
    """Runs requests with idempotency keys on one event loop. Call `poll` every second or so, and `close` at the end."""

    def __init__(
        self,
        records: Records,
        *,
        keep: float = KEEP_SECONDS,
        patience: float = 90.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._keep = keep
        self._patience = patience
        self._monotonic = monotonic
        self._running: dict[Slot, KeyedWork] = {}
        self._unsettled: dict[Slot, tuple[bytes, bytes | None]] = {}
        """Finished requests whose outcome is not stored yet: the claim, and the entry to replace it (None: delete)."""
        self._name = secrets.token_hex(12)
        self._locking: asyncio.Task[bool] | None = None
        self._claims = 0
        self._sweep_at = monotonic() + _SWEEP_SECONDS
        self._closing = False

    async def answer(self, request: KeyedRequest) -> StoredAnswer:
        """Return the answer of `request.make`, which is called only if it was not called for this key before.

        If this task is cancelled, the work goes on, and its answer is kept for the next request with the key.
        """
        work = self._running.get(request.slot)
        first = work is None
        if work is None:
            work = self._begin(request)
        elif work.digest != request.digest:
            raise make_key_conflict()
        response = await work.wait()
        return response if first else mark_replayed(response)

    async def poll(self) -> None:
        """Keep the lock of this process, retry outcomes that could not be stored, and delete old answers."""
        if self._locking is not None and not await self._records.aholds(_HOLDER, "", self._name):
            # Another process may hold it for a moment to probe it; the next poll gets it then.
            await self._records.ahold(_HOLDER, "", self._name)
        for slot in list(self._unsettled):
            if slot in self._running or slot not in self._unsettled:
                continue
            try:
                await self._settle(slot)
            except StoreFailing:
                raise
            except SessionError as error:
                # The store rejects this entry only. Keep it, or the claim would look as if it had never been acted on.
                log.warning("an answer cannot be stored: %s", error)
        await self._sweep()

    async def close(self) -> None:
        """Cancel running requests and store their outcomes. No request is begun afterwards."""
        self._closing = True
        running = [work.task for work in self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._running.clear()
        try:
            await self.poll()
        except SessionError as error:
            log.warning("not all that is known of idempotency keys could be stored: %s", error)
        if self._locking is not None:
            with suppress(SessionError):  # released with the process at the latest
                await self._records.arelease(_HOLDER, "", self._name)

    def _begin(self, request: KeyedRequest) -> KeyedWork:
        if self._closing:
            raise make_stopping()
        # A separate task, so that it continues when no request waits for it any more.
        work = KeyedWork(request.digest, asyncio.get_running_loop().create_task(self._run(request)))
        self._running[request.slot] = work
        # Without a waiting request its exception is never retrieved; `_run` has logged what matters.
        work.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return work

    async def _run(self, request: KeyedRequest) -> StoredAnswer:
        try:
            return await self._run_once(request)
        except Exception as failure:
            if not self._running[request.slot].waiting and not isinstance(failure, HttpFault):
                log.exception("a request failed after its client had gone")
            raise
        finally:
            del self._running[request.slot]

    async def _run_once(self, request: KeyedRequest) -> StoredAnswer:
        claim, cancelled = await finish_uncancelled(self._claim(request))
        if isinstance(claim, StoredAnswer):
            return claim
        is_stopping = cancelled is not None or self._closing
        outcome = (StoredAnswer(), None, make_stopping()) if is_stopping else await run_request(request, claim)
        response, entry, error = outcome
        self._unsettled[request.slot] = (claim, entry or withdraw_claim(claim))
        try:
            stored, _ = await finish_uncancelled(self._settle(request.slot))
        except SessionError as failure:
            log.warning("what came of a request cannot be stored yet: %s", failure)
            raise (make_unrecorded() if error is None else error) from failure
        if error is not None:
            raise error
        # Another process may have stored an answer already; that one counts.
        return response if stored is None else mark_replayed(stored)

    async def _claim(self, request: KeyedRequest) -> bytes | StoredAnswer:
        """Store a claim and return it, or return the stored answer. Waits while another process has the claim."""
        _, entry = self._unsettled.get(request.slot, (b"", None))
        self._claims += 1
        claim_id = f"{self._name}.{self._claims}"
        try:
            if request.slot in self._unsettled:
                # Store the outcome of an earlier request with the key first.
                await self._settle(request.slot)
                entry = None
            await self._lock_name()
            return await self._put_claim(request, claim_id)
        except SessionError as error:
            # A commit whose reply was lost may have stored the claim, and no process will act on it: withdraw it later.
            if len(self._unsettled) < _MAX_UNSETTLED:
                self._unsettled.setdefault(request.slot, (encode_entry(StoredAnswer(request.digest, claim_id)), None))
            raise (make_store_unavailable() if entry is None else make_unrecorded()) from error

    async def _put_claim(self, request: KeyedRequest, claim_id: str) -> bytes | StoredAnswer:
        mine = encode_entry(StoredAnswer(request.digest, claim_id))
        give_up = self._monotonic() + self._patience
        probe_at, pause = float("-inf"), _MIN_PAUSE
        value: bytes | None = None
        while True:
            # Write only if there was no entry: this loop may run often.
            if value is None and await self._records.aput(_KIND, *request.slot, mine, new=True):
                return mine
            value = await self._records.aget(_KIND, *request.slot)
            if value is None:
                continue
            entry = read_entry(value)
            if entry.claim is None and entry.unfinished and entry.digest == request.digest:
                renewed = await self._renew_claim(request, value, entry, claim_id)
                if renewed is not None:
                    return renewed
                continue
            if entry.claim is None or entry.digest != request.digest:
                return replay_answer(entry, request.digest)
            now = self._monotonic()
            if now >= probe_at:
                probe_at = now + _PROBE_SECONDS
                taken = await self._take_over(request, value, entry, claim_id)
                if taken is not None:
                    return taken
            if self._closing:
                raise make_stopping()
            if now >= give_up:
                raise make_in_progress()
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _MAX_PAUSE)

    async def _take_over(
        self, request: KeyedRequest, value: bytes, found: StoredAnswer, claim_id: str
    ) -> bytes | StoredAnswer | None:
        """Take over a claim whose process has died: return a new claim, or the `interrupted` answer.

        None if the holder may still be alive, or another process was faster.
        """
        holder = (found.claim or "").partition(".")[0]
        # Requests of this process are running or unsettled. This is neither, so its claim was never acted on.
        again = holder == self._name
        if not again and not await self._is_dead(holder):
            return None
        if again or request.repeatable:
            return await self._renew_claim(request, value, found, claim_id)
        response = request.interrupted()
        entry = encode_entry(replace(response, digest=request.digest, guess=True))
        return mark_replayed(response) if await self._records.areplace(_KIND, *request.slot, value, entry) else None

    async def _renew_claim(
        self, request: KeyedRequest, value: bytes, found: StoredAnswer, claim_id: str
    ) -> bytes | None:
        """Replace the entry found with a claim that keeps its results so far; None if another process was faster."""
        mine = encode_entry(replace(found, digest=request.digest, claim=claim_id))
        try:
            return mine if await self._records.areplace(_KIND, *request.slot, value, mine) else None
        except SessionError:
            self._unsettled[request.slot] = (mine, withdraw_claim(mine))
            raise

    async def _is_dead(self, holder: str) -> bool:
        if not await self._records.ahold(_HOLDER, "", holder):
            return False
        await self._records.arelease(_HOLDER, "", holder)
        return True

    async def _settle(self, slot: Slot) -> StoredAnswer | None:
        """Replace the claim with its outcome. Return the answer of another process if that one is kept instead.

        Raises if the store fails; the outcome then stays in `_unsettled` for another try.
        """
        pending = self._unsettled[slot]
        claim, entry = pending
        stored = None
        if entry is None:
            await self._records.aremove(_KIND, *slot, old=claim)
        else:
            stored = await self._store(slot, claim, entry)
        # By now, the slot may belong to a later request.
        if self._unsettled.get(slot) is pending:
            del self._unsettled[slot]
        return stored

    async def _store(self, slot: Slot, claim: bytes, entry: bytes) -> StoredAnswer | None:
        while not await self._records.areplace(_KIND, *slot, claim, entry):
            # Another process took this one for dead, or an earlier write succeeded but its reply was lost.
            value = await self._records.aget(_KIND, *slot)
            if value == entry:
                break
            if value is None:
                if await self._records.aput(_KIND, *slot, entry, new=True):
                    break
                continue
            found = read_entry(value)
            if found.claim is None and not found.guess:
                return found
            claim = value
        return None

    async def _lock_name(self) -> None:
        if self._locking is None or (self._locking.done() and self._locking.exception() is not None):
            self._locking = asyncio.get_running_loop().create_task(self._records.ahold(_HOLDER, "", self._name))
        await asyncio.shield(self._locking)

    async def _sweep(self) -> None:
        """Delete old answers, by the clock of the records, which does not jump when the machine's clock is set."""
        now = self._monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_SECONDS
            await self._records.aexpire(_KIND, self._records.clock() - self._keep)
