"""`Admission`: which requests run now, which are queued, and which are refused with a `Retry-After`.

async with Place(admission, principal):
    ...

Nothing here is thread-safe: use it from one event loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from toolyard.loop.pacing import TokenBucket
from toolyard.serving.http_fault import HttpFault, make_overloaded
from toolyard.serving.identity import KeyLimits, Principal

Clock = Callable[[], float]

_BYTES_PER_REQUEST = 16 * 1024
"""Body bytes that count as one more request against the rate limit."""


class Tenant:
    """The running and queued requests of one principal, with its rate limiter."""

    __slots__ = ("bucket", "concurrency", "limits", "queue", "running")

    def __init__(self) -> None:
        self.limits: KeyLimits | None = None
        self.bucket: TokenBucket | None = None
        self.concurrency = 0
        self.running = 0
        self.queue: deque[asyncio.Future[None]] = deque()


class Admission:
    """Hands out a limited number of places; a request needs one to run.

    Free places go round robin to the principals that have queued requests, so a principal with a thousand of them
    delays another by at most one. When the queue is full, the principal with the most queued requests loses its newest.
    Principals without a key have no rate or concurrency limit: on a server without keys, every caller is one of them.
    """

    def __init__(
        self,
        max_running: int,
        max_waiting: int,
        *,
        rate: float = math.inf,
        burst: float = math.inf,
        concurrency: int | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.max_running = max_running
        self.max_waiting = max_waiting
        self.running = 0
        """Requests that hold a place."""
        self.waiting = 0
        """Requests queued for a place."""
        self.aside = 0
        """Requests answered at their deadline whose work is still running, without a place."""
        self._rate = rate
        self._burst = burst
        self._concurrency = max_running if concurrency is None else concurrency
        self._clock = clock
        self._tenants: dict[str | None, Tenant] = {}
        self._next_tenants: dict[Tenant, None] = {}
        """Principals with queued requests and concurrency to spare, in the order in which they get the next places."""
        self._queued: set[Tenant] = set()
        """Principals with queued requests."""

    def check_rate(self, principal: Principal) -> None:
        """Count a request, once, against the principal's rate; raise `HttpFault` 429 if that is exceeded."""
        tenant = self._find_tenant(principal)
        if tenant.bucket is not None:
            pause = tenant.bucket.try_take(self._clock())
            if pause:
                raise HttpFault(
                    429,
                    "request.rate_limited",
                    "this key exceeds its request rate",
                    details={"retry_after": round(pause, 3)},
                    retry_after=max(1, math.ceil(pause)),
                )

    def _find_tenant(self, principal: Principal) -> Tenant:
        tenant = self._tenants.get(principal.key_id)
        # The limits of a key may change while it is in use; `limits` is then a different object.
        return tenant if tenant is not None and tenant.limits is principal.limits else self._update_tenant(principal)

    def charge(self, principal: Principal, size: int) -> None:
        """Charge the principal's rate for the size of a body: reading a large one delays all other requests."""
        tenant = self._tenants.get(principal.key_id)
        if tenant is not None and tenant.bucket is not None:
            tenant.bucket.charge(size / _BYTES_PER_REQUEST)

    def try_place(self, principal: Principal) -> bool:
        """True if the request got a place, False if it must `wait`; raises `HttpFault` 429 if the queue is full."""
        tenant = self._find_tenant(principal)
        # Queued requests come first, those of the same principal included.
        if self.running < self.max_running and tenant.running < tenant.concurrency and not tenant.queue:
            self.running += 1
            tenant.running += 1
            return True
        if self.waiting >= self.max_waiting:
            self._make_room(tenant)
        return False

    async def wait(self, principal: Principal) -> None:
        """After `try_place` returned False: return once the request has a place, or raise `HttpFault` 429."""
        tenant = self._find_tenant(principal)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tenant.queue.append(turn)
        self.waiting += 1
        self._queued.add(tenant)
        self._enlist(tenant)
        self._hand_out_places()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._withdraw(tenant, turn)
            elif turn.exception() is None:
                # The place was handed out at the same moment; return it, since the request is gone.
                self.leave(principal)
            raise

    def leave(self, principal: Principal) -> None:
        """Give the place back."""
        tenant = self._tenants[principal.key_id]
        self.running -= 1
        tenant.running -= 1
        self._offer_places(tenant)

    def leave_later(self, principal: Principal, abandoned: Iterable[Future[Any]]) -> None:
        """Give the place back for a request that was answered at its deadline while its work (`abandoned`) still runs.

        That work may never end, so it gives up its place and is counted in `aside`. At most `max_running` requests may
        be aside; further ones keep their places until their work ends. All along, the work counts against the
        concurrency limit of its key.
        """
        left = [work for work in abandoned if not work.done()]
        if not left:
            self.leave(principal)
            return
        loop = asyncio.get_running_loop()
        release = self.leave
        if self.aside < self.max_running:
            self._step_aside(principal)
            release = self._leave_aside

        def count_down() -> None:
            left.pop()
            if not left:
                release(principal)

        def on_done(_: Future[Any]) -> None:
            with suppress(RuntimeError):  # the loop is closed, so no request waits for a place
                loop.call_soon_threadsafe(count_down)

        for work in list(left):
            work.add_done_callback(on_done)

    def _step_aside(self, principal: Principal) -> None:
        tenant = self._tenants[principal.key_id]
        self.aside += 1
        self.running -= 1
        if principal.key_id is None:
            tenant.running -= 1
        self._offer_places(tenant)

    def _leave_aside(self, principal: Principal) -> None:
        self.aside -= 1
        if principal.key_id is not None:
            tenant = self._tenants[principal.key_id]
            tenant.running -= 1
            self._offer_places(tenant)

    def _withdraw(self, tenant: Tenant, turn: asyncio.Future[None]) -> None:
        # It may have been removed already: `_hand_out_places` drops cancelled ones.
        if turn in tenant.queue:
            tenant.queue.remove(turn)
            self.waiting -= 1
            if not tenant.queue:
                self._queued.discard(tenant)
                self._next_tenants.pop(tenant, None)

    def _offer_places(self, tenant: Tenant) -> None:
        """Hand out places after one became free or the principal may hold another."""
        if self.waiting:
            self._enlist(tenant)
            self._hand_out_places()

    def _enlist(self, tenant: Tenant) -> None:
        if tenant.queue and tenant.running < tenant.concurrency:
            self._next_tenants.setdefault(tenant)

    def _hand_out_places(self) -> None:
        ready = self._next_tenants
        while ready and self.running < self.max_running:
            tenant = next(iter(ready))
            del ready[tenant]
            while tenant.queue:
                turn = tenant.queue.popleft()
                self.waiting -= 1
                if not turn.done():
                    self.running += 1
                    tenant.running += 1
                    turn.set_result(None)
                    break
            self._enlist(tenant)
            if not tenant.queue:
                self._queued.discard(tenant)

    def _make_room(self, tenant: Tenant) -> None:
        """Drop the newest request of the principal with the longest queue; raise if that is this principal."""
        mine = len(tenant.queue) + 1
        # Fast path for a flood: a principal that has most of the queue is refused without comparing all the others.
        if self.waiting - len(tenant.queue) <= mine:
            raise _make_overloaded()
        largest = max(self._queued, key=lambda other: len(other.queue))
        if len(largest.queue) <= mine:
            raise _make_overloaded()
        turn = largest.queue.pop()
        self.waiting -= 1
        if not turn.done():
            turn.set_exception(_make_overloaded())

    def _update_tenant(self, principal: Principal) -> Tenant:
        tenant = self._tenants.get(principal.key_id)
        if tenant is None:
            tenant = self._tenants[principal.key_id] = Tenant()
        limits = tenant.limits = principal.limits
        if principal.key_id is None:
            tenant.concurrency = self.max_running
            return tenant
        tenant.concurrency = self._concurrency if limits.concurrency is None else limits.concurrency
        rate = self._rate if limits.rate is None else limits.rate
        burst = self._burst if limits.burst is None else limits.burst
        if rate == math.inf:
            tenant.bucket = None
        elif tenant.bucket is None or (tenant.bucket.rate, tenant.bucket.burst) != (rate, burst):
            tenant.bucket = TokenBucket(rate, burst, self._clock())
        return tenant


class Place:
    """`async with`: the place of one request. It can be given back and taken again, for instance while the request
    waits for an approval.
    """

    __slots__ = ("_abandoned", "_held", "_places", "_principal")

    def __init__(self, places: Admission, principal: Principal, abandoned: list[Future[Any]] | None = None) -> None:
        self._places = places
        self._principal = principal
        self._abandoned = abandoned
        """Work that is still running past its deadline."""
        self._held = False

    async def take(self) -> None:
        """Take a place, waiting for one if necessary. Does not count against the rate."""
        if not self._places.try_place(self._principal):
            await self._places.wait(self._principal)
        self._held = True

    def leave(self) -> None:
        """Give the place back, if it is held."""
        if not self._held:
            return
        self._held = False
        if self._abandoned:
            self._places.leave_later(self._principal, self._abandoned)
            self._abandoned.clear()
        else:
            self._places.leave(self._principal)

    async def __aenter__(self) -> None:
        await self.take()

    async def __aexit__(self, *_error: object) -> None:
        self.leave()


def _make_overloaded() -> HttpFault:
    words = "the server is at its limit of requests; this one was not processed"
    return make_overloaded(words, 1, details={"retry_after": 1})
