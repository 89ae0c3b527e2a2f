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
from typing import Any, NamedTuple, TypeVar

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

KEEP = 24 * 3600.0
"""Seconds that an answer is kept."""

_KIND, _HOLDER = "answer", "holder"
_POLL = 0.02
_POLL_MOST = 0.25
_PROBE = 1.0
"""Seconds between checks whether the process that holds a claim is still alive."""
_MOST_UNSETTLED = 10_000
_SWEEP = 600.0

log = logging.getLogger(__name__)
_T = TypeVar("_T")


# Errors that guarantee that nothing has run; after any other error, something may have.
_NOTHING_RAN = (
    *(HttpFault, SessionBusyError, SessionExistsError, SessionFullError),
    *(UnknownEntryError, UnknownSessionError),
)


class KeySlot(NamedTuple):
    """Where the entry of an idempotency key is stored."""

    owner: str
    name: str


class KeyedRequest(NamedTuple):
    """One request with an idempotency key; the fields are the arguments of `Idempotency.answer`."""

    slot: KeySlot
    digest: bytes
    make: Callable[[], Awaitable[StoredAnswer]]
    repeatable: bool
    interrupted: Callable[[], StoredAnswer]
    resume: Callable[[bytes], None] | None = None


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


async def carry_out(job: KeyedRequest, claim: bytes) -> tuple[StoredAnswer, bytes | None, BaseException | None]:
    """Run the request. Return the answer, the entry to store (None to withdraw the claim), and the error, if any."""
    earlier = read_entry(claim).unfinished
    if earlier and job.resume is not None:
        job.resume(earlier)
    try:
        response = await job.make()
    except _NOTHING_RAN as error:
        return StoredAnswer(), None, error
    except asyncio.CancelledError:
        if job.repeatable:
            return StoredAnswer(), None, make_stopping()
        response = job.interrupted()
    except Exception as error:  # noqa: BLE001 - raised again, once the store knows that something may have run
        if job.repeatable:
            return StoredAnswer(), None, error
        return StoredAnswer(), encode_entry(replace(job.interrupted(), digest=job.digest)), error
    return response, encode_entry(replace(response, digest=job.digest)), None


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
        keep: float = KEEP,
        patience: float = 90.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._keep = keep
        self._patience = patience
        self._monotonic = monotonic
        self._running: dict[KeySlot, KeyedWork] = {}
        self._unsettled: dict[KeySlot, tuple[bytes, bytes | None]] = {}
        """Finished requests whose outcome is not stored yet: the claim, and the entry to replace it (None: delete)."""
        self._name = secrets.token_hex(12)
        self._signing_on: asyncio.Task[None] | None = None
        self._claims = 0
        self._sweep_at = monotonic() + _SWEEP
        self._closing = False

    async def answer(
        self,
        owner: str,
        key: str,
        digest: bytes,
        make: Callable[[], Awaitable[StoredAnswer]],
        *,
        repeatable: bool,
        interrupted: Callable[[], StoredAnswer],
        resume: Callable[[bytes], None] | None = None,
    ) -> StoredAnswer:
        """Return the answer of `make`, which is called only if it was not called for this key before.

        `digest` identifies the request: a different one under the same key is a 409. `repeatable` says that the request
        may run twice without harm; one that may not, and may have been cut short, gets `interrupted()` as its permanent
        answer. If `make` raises an error which says that nothing ran, the key stays unused. If this task is cancelled,
        the work goes on, and its answer is kept for the next request with the key. An `unfinished` answer is not
        replayed: it is passed to `resume`, and `make` is called again.
        """
        slot = KeySlot(owner, stored_name(key))
        work = self._running.get(slot)
        first = work is None
        if work is None:
            work = self._begin(KeyedRequest(slot, digest, make, repeatable, interrupted, resume))
        elif work.digest != digest:
            raise make_key_conflict()
        response = await work.wait()
        return response if first else mark_replayed(response)

    async def poll(self) -> None:
        """Keep the lock of this process, retry outcomes that could not be stored, and delete old answers."""
        if self._signing_on is not None and not await self._records.aholds(_HOLDER, "", self._name):
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
        if self._signing_on is not None:
            with suppress(SessionError):  # released with the process at the latest
                await self._records.arelease(_HOLDER, "", self._name)

    @property
    def running(self) -> int:
        """The number of running requests."""
        return len(self._running)

    def _begin(self, job: KeyedRequest) -> KeyedWork:
        if self._closing:
            raise make_stopping()
        # A separate task, so that it continues when no request waits for it any more.
        work = KeyedWork(job.digest, asyncio.get_running_loop().create_task(self._run(job)))
        self._running[job.slot] = work
        # Without a waiting request its exception is never retrieved; `_run` has logged what matters.
        work.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return work

    async def _run(self, job: KeyedRequest) -> StoredAnswer:
        try:
            return await self._carry_out_once(job)
        except Exception as failure:
            if not self._running[job.slot].waiting and not isinstance(failure, HttpFault):
                log.exception("a request failed after its client had gone")
            raise
        finally:
            del self._running[job.slot]

    async def _carry_out_once(self, job: KeyedRequest) -> StoredAnswer:
        claim, cancelled = await finish_uncancelled(self._claim(job))
        if isinstance(claim, StoredAnswer):
            return claim
        is_stopping = cancelled is not None or self._closing
        carried_out = (StoredAnswer(), None, make_stopping()) if is_stopping else await carry_out(job, claim)
        response, entry, error = carried_out
        self._unsettled[job.slot] = (claim, entry or withdraw_claim(claim))
        try:
            stored, _ = await finish_uncancelled(self._settle(job.slot))
        except SessionError as failure:
            log.warning("what came of a request cannot be stored yet: %s", failure)
            raise (make_unrecorded() if error is None else error) from failure
        if error is not None:
            raise error
        # Another process may have stored an answer already; that one counts.
        return response if stored is None else mark_replayed(stored)

    async def _claim(self, job: KeyedRequest) -> bytes | StoredAnswer:
        """Store a claim and return it, or return the stored answer. Waits while another process has the claim."""
        _, entry = self._unsettled.get(job.slot, (b"", None))
        self._claims += 1
        who = f"{self._name}.{self._claims}"
        try:
            if job.slot in self._unsettled:
                # Store the outcome of an earlier request with the key first.
                await self._settle(job.slot)
                entry = None
            await self._sign_on()
            return await self._put_claim(job, who)
        except SessionError as error:
            # A commit whose reply was lost may have stored the claim, and no process will act on it: withdraw it later.
            if len(self._unsettled) < _MOST_UNSETTLED:
                self._unsettled.setdefault(job.slot, (encode_entry(StoredAnswer(job.digest, who)), None))
            raise (make_store_unavailable() if entry is None else make_unrecorded()) from error

    async def _put_claim(self, job: KeyedRequest, who: str) -> bytes | StoredAnswer:
        mine = encode_entry(StoredAnswer(job.digest, who))
        give_up = self._monotonic() + self._patience
        probe_at, pause = float("-inf"), _POLL
        value: bytes | None = None
        while True:
            # Write only if there was no entry: this loop may run often.
            if value is None and await self._records.aput(_KIND, *job.slot, mine, new=True):
                return mine
            value = await self._records.aget(_KIND, *job.slot)
            if value is None:
                continue
            entry = read_entry(value)
            if entry.claim is None and entry.unfinished and entry.digest == job.digest:
                over = await self._claim_over(job, value, entry, who)
                if over is not None:
                    return over
                continue
            if entry.claim is None or entry.digest != job.digest:
                return replay_answer(entry, job.digest)
            now = self._monotonic()
            if now >= probe_at:
                probe_at = now + _PROBE
                taken = await self._take_over(job, value, entry, who)
                if taken is not None:
                    return taken
            if self._closing:
                raise make_stopping()
            if now >= give_up:
                raise make_in_progress()
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _POLL_MOST)

    async def _take_over(
        self, job: KeyedRequest, value: bytes, found: StoredAnswer, who: str
    ) -> bytes | StoredAnswer | None:
        """Take over a claim whose process has died: return a new claim, or the `interrupted` answer.

        None if the holder may still be alive, or another process was faster.
        """
        holder = (found.claim or "").partition(".")[0]
        # Requests of this process are running or unsettled. This is neither, so its claim was never acted on.
        again = holder == self._name
        if not again and not await self._is_dead(holder):
            return None
        if again or job.repeatable:
            return await self._claim_over(job, value, found, who)
        response = job.interrupted()
        entry = encode_entry(replace(response, digest=job.digest, guess=True))
        return mark_replayed(response) if await self._records.areplace(_KIND, *job.slot, value, entry) else None

    async def _claim_over(self, job: KeyedRequest, value: bytes, found: StoredAnswer, who: str) -> bytes | None:
        """Replace the entry found with a claim that keeps its results so far; None if another process was faster."""
        mine = encode_entry(replace(found, digest=job.digest, claim=who))
        try:
            return mine if await self._records.areplace(_KIND, *job.slot, value, mine) else None
        except SessionError:
            self._unsettled[job.slot] = (mine, withdraw_claim(mine))
            raise

    async def _is_dead(self, holder: str) -> bool:
        if not await self._records.ahold(_HOLDER, "", holder):
            return False
        await self._records.arelease(_HOLDER, "", holder)
        return True

    async def _settle(self, slot: KeySlot) -> StoredAnswer | None:
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

    async def _store(self, slot: KeySlot, claim: bytes, entry: bytes) -> StoredAnswer | None:
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

    async def _sign_on(self) -> None:
        if self._signing_on is None or (self._signing_on.done() and self._signing_on.exception() is not None):
            self._signing_on = asyncio.get_running_loop().create_task(self._hold_name())
        await asyncio.shield(self._signing_on)

    async def _hold_name(self) -> None:
        await self._records.ahold(_HOLDER, "", self._name)

    async def _sweep(self) -> None:
        """Delete old answers, by the clock of the records, which does not jump when the machine's clock is set."""
        now = self._monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP
            await self._records.aexpire(_KIND, self._records.clock() - self._keep)
