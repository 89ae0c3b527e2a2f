"""`Approvals`: calls that wait for a person's decision, and what became of them.

    pending -> approved -> used        claimed once, by compare-and-swap, before the call runs
            -> denied                  until it expires, the same call is refused and not held again
    pending | approved -> expired      follows from the clock; a server stores it, to notify listeners once

Records are kept next to the sessions, in memory or in their database, so they last as long. A record is stored under a
hash of what it is bound to (caller, session, tool, definition, arguments) and a number. So two processes that hold the
same call at once share one record, and a call that differs in any of these matches none.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from heapq import nlargest
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from toolyard.calls.approval import (
    OPERATOR,
    Approval,
    ApprovalState,
    Decider,
    Outcome,
    WantedState,
    check_decider,
    may_see,
)
from toolyard.loop.threads import Threads, await_future
from toolyard.model.errors import (
    ApprovalError,
    ApprovalExpiredError,
    DefinitionError,
    Unavailable,
    UnknownApprovalError,
)
from toolyard.model.names import show
from toolyard.parsing.json_text import json_decoder
from toolyard.schema.options import option_type, read_value
from toolyard.sessions.records import Records, async_twin

KEEP = 30 * 86400.0
"""Seconds that a record is kept after its last change, and the maximum for `expires` in a rule."""
MOST_PENDING = 1_000
"""Maximum pending calls of one caller."""
MOST_KEPT = 10_000
"""Maximum records in total; of those that are settled, the oldest are removed first."""

_KIND = "approval"
_POLL = 0.25
_LOOK_EACH = 100
_LOOK_SECONDS = 60.0
_ID = re.compile(r"([0-9a-f]{24})-([1-9][0-9]{0,8})")
_CURSOR = re.compile(rf"([0-9]{{1,12}}(?:\.[0-9]{{1,17}})?)~({_ID.pattern})", re.ASCII)
_T = TypeVar("_T")

log = logging.getLogger(__name__)


class ApprovalPage(NamedTuple):
    """A page of approvals, newest first, and the cursor of the next page; None on the last."""

    approvals: tuple[Approval, ...]
    cursor: str | None


_encode = msgspec.json.encode
_decode: Callable[[bytes], Approval] = json_decoder(Approval)


class Approvals:
    """The approvals of one policy, or of several processes that share a store. Safe for threads and tasks."""

    def __init__(self, records: Records, definitions: Callable[[str], Collection[str]] | None = None) -> None:
        self._records = records
        self._definitions = definitions
        """Returns the current definition hashes of a tool, by qualified name."""
        self._threads = Threads(1, "toolyard-approvals")
        self._waiters: dict[str, list[Future[None]]] = {}
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._holds = 0
        """Number of holds since `_make_room` last counted records."""
        self._crowded: frozenset[str] = frozenset()
        """Owners that had reached `MOST_PENDING` then."""
        self.listeners: list[Callable[[Approval], None]] = []
        """Called with each change made in this process, in the thread that makes it; must not block."""

    def get(self, approval_id: str, by: Decider = OPERATOR) -> Approval:
        """The approval; `UnknownApprovalError` if it does not exist or `by` may not see it."""
        approval = self._read(approval_id)[1]
        if not may_see(approval, by):
            raise _unknown(approval_id)
        return approval

    def list(
        self,
        *,
        by: Decider = OPERATOR,
        state: WantedState | None = None,
        tool: str | None = None,
        session_id: str | None = None,
        owner: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ApprovalPage:
        """The matching approvals that `by` may see, newest first."""
        if state is not None:
            read_value(option_type(WantedState), state, "state")
        wanted = {"state": None if state == "all" else state, "tool": tool, "session_id": session_id, "owner": owner}
        asked = [(name, value) for name, value in wanted.items() if value is not None]
        below = None if cursor is None else _read_cursor(cursor)
        fitting = (
            one
            for one in self._read_all()
            if may_see(one, by)
            and all(getattr(one, name) == value for name, value in asked)
            and (below is None or (one.created, one.id) < below)
        )
        most = max(limit, 1)
        # Approvals hold the arguments of their calls; `nlargest` keeps only one page, and one more, in memory.
        found = nlargest(most + 1, fitting, key=lambda one: (one.created, one.id))
        page = found[:most]
        cursor = f"{page[-1].created!r}~{page[-1].id}" if len(page) < len(found) else None
        return ApprovalPage(tuple(page), cursor)

    def approve(self, approval_id: str, reason: str | None = None, *, by: Decider = OPERATOR) -> Approval:
        """Let the call run once, within the same period that there was to decide.

        This does not run it: a waiting caller continues, or the caller sends the same call again.
        """
        return self._decide(approval_id, "approved", by, reason)

    def deny(
        self, approval_id: str, reason: str | None = None, *, by: Decider = OPERATOR, lasts: bool = True
    ) -> Approval:
        """Refuse the call and, with `lasts`, the same call sent again, until the approval would have expired."""
        return self._decide(approval_id, "denied", by, reason, lasts=lasts)

    def obstacle(self, approval: Approval) -> str | None:
        """Why a pending or approved approval can no longer be used; else None."""
        if self._definitions is None or approval.state not in ("pending", "approved"):
            return None
        known = self._definitions(approval.tool)
        if approval.definition_hash in known:
            return None
        what = "has another definition since it was held" if known else "no longer exists"
        return f"{approval.tool} {what}; the call is held anew when it is sent again"

    def _decide(
        self, approval_id: str, state: ApprovalState, by: Decider, reason: str | None, *, lasts: bool = True
    ) -> Approval:
        def decide(approval: Approval) -> Approval:
            if not may_see(approval, by):
                raise _unknown(approval_id)
            check_decider(approval, by)
            if approval.state == "expired":
                raise ApprovalExpiredError(f"{approval_id} has {approval.state_words}; send the call again")
            if approval.state != "pending":
                raise ApprovalError(f"{approval_id} is decided already: {approval.state_words}")
            obstacle = self.obstacle(approval) if state == "approved" else None
            if obstacle is not None:
                raise ApprovalError(f"{approval_id} cannot be used: {obstacle}")
            now = self._records.clock()
            # Approval restarts the period, so that one given in the last second is not too late.
            good_until = now + approval.expires - approval.created if state == "approved" else approval.expires
            expires = good_until if lasts else now
            decision = {"decided_at": now, "decided_by": by.name, "reason": reason or None}
            return replace(approval, state=state, expires=expires, **decision)

        return self._change(approval_id, decide)

    def claim(self, draft: Approval) -> Approval | None:
        """The approval for this call, which becomes `used`; or the pending or denied one; None if it must be held."""
        while True:
            latest = self._latest(draft.binding)
            if latest is None or not self._is_in_force(latest):
                return None
            if latest.state != "approved":
                return latest
            with suppress(ApprovalError):  # another caller claimed it first, or it has just expired
                return self._change(latest.id, self._use, notify=False)

    def _use(self, approval: Approval) -> Approval:
        if approval.state != "approved":
            raise ApprovalError(f"{approval.id} cannot be used: {approval.state_words}")
        return replace(approval, state="used", used_at=self._records.clock())

    def release(self, claimed: Approval) -> None:
        """Undo the caller's own `claim` of a call that never began. Listeners were not notified of the claim."""
        if claimed.state == "used" and claimed.outcome is None:
            self._change(claimed.id, lambda one: replace(one, state="approved", used_at=None), notify=False)

    def finish(self, claimed: Approval, outcome: Outcome) -> Approval:
        """Store the outcome of the call, and notify listeners that its approval was used."""
        return self._change(claimed.id, lambda approval: replace(approval, outcome=outcome))

    def hold(self, draft: Approval, seconds: float) -> Approval:
        """Store a pending approval for the call; returns an existing one if another caller was first."""
        self._make_room(draft.owner)
        while True:
            latest = self._latest(draft.binding)
            if latest is not None and self._is_in_force(latest):
                return latest
            number = 1 if latest is None else int(latest.id.partition("-")[2]) + 1
            now = self._records.clock()
            held = replace(draft, id=f"{draft.binding}-{number}", created=now, expires=now + seconds)
            if self._records.put(_KIND, held.binding, str(number), _encode(held), new=True):
                self._notify(held)
                return held

    def _is_in_force(self, approval: Approval) -> bool:
        """True if this approval still decides the call: it is pending, approved, or denied and not expired."""
        if approval.state == "denied":
            return self._records.clock() < approval.expires
        return approval.state in ("pending", "approved")

    def wait_for(self, approval_id: str, timeout: float, by: Decider = OPERATOR) -> Approval:
        """Block until the approval is decided or has expired; on timeout, return it as it is."""
        until = time.monotonic() + timeout
        with self._add_waiter(approval_id) as waiter:
            while True:
                approval = self.get(approval_id, by)
                seconds = self._pause(approval, until)
                if seconds <= 0:
                    return approval
                with suppress(TimeoutError):
                    waiter.result(seconds)

    async def await_for(self, approval_id: str, timeout: float, by: Decider = OPERATOR) -> Approval:  # noqa: ASYNC109 - running out is an answer
        """`wait_for` for a task."""
        import asyncio

        until = time.monotonic() + timeout
        with self._add_waiter(approval_id) as waiter:
            decided = asyncio.wrap_future(waiter)
            while True:
                approval = await self.aget(approval_id, by)
                seconds = self._pause(approval, until)
                if seconds <= 0:
                    return approval
                await asyncio.wait([decided], timeout=seconds)

    def _pause(self, approval: Approval, until: float) -> float:
        """Seconds until the approval must be read again, since another process may decide; 0 or less to stop."""
        if approval.state != "pending":
            return 0.0
        return min(until - time.monotonic(), _POLL, max(approval.expires - self._records.clock(), 0.001))

    @contextmanager
    def _add_waiter(self, approval_id: str) -> Iterator[Future[None]]:
        waiter: Future[None] = Future()
        with self._lock:
            self._waiters.setdefault(approval_id, []).append(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters[approval_id].remove(waiter)
                if not self._waiters[approval_id]:
                    del self._waiters[approval_id]

    def _notify(self, approval: Approval) -> None:
        if approval.state != "pending":
            with self._lock:
                waiters = list(self._waiters.get(approval.id, ()))
            for waiter in waiters:
                with suppress(InvalidStateError):
                    waiter.set_result(None)
        for listener in list(self.listeners):
            try:
                listener(approval)
            except Exception:
                # The change is stored already; a failing listener must not make it look failed.
                log.exception("a listener failed at approval %s", approval.id)

    def _change(self, approval_id: str, change: Callable[[Approval], Approval], *, notify: bool = True) -> Approval:
        while True:
            old, approval = self._read(approval_id)
            changed = change(approval)
            if self._records.replace(_KIND, *_place(approval_id), old, _encode(changed)):
                if notify:
                    self._notify(changed)
                return changed

    def settle_expired(self) -> float:
        """Store expirations and notify listeners, each in one process only. Returns seconds until the next run."""
        now = self._records.clock()
        look = now + _LOOK_SECONDS
        for record in self._records.all(_KIND):
            expired = self._with_expiry(one := _decode(record.value))
            if expired is one:
                look = min(look, one.expires) if one.state in ("pending", "approved") else look
            elif self._records.replace(_KIND, record.owner, record.name, record.value, _encode(expired)):
                self._notify(expired)
        return look - now

    def _read(self, approval_id: str) -> tuple[bytes, Approval]:
        """The stored text, and the approval as of now, possibly expired."""
        text = self._records.get(_KIND, *_place(approval_id))
        if text is None:
            raise _unknown(approval_id)
        return text, self._with_expiry(_decode(text))

    def _latest(self, binding: str) -> Approval | None:
        found = self._records.all(_KIND, binding)
        return self._with_expiry(_decode(max(found, key=lambda record: int(record.name)).value)) if found else None

    def _read_all(self) -> Iterator[Approval]:
        return (self._with_expiry(_decode(record.value)) for record in self._records.all(_KIND))

    def _with_expiry(self, approval: Approval) -> Approval:
        if approval.state in ("pending", "approved") and self._records.clock() >= approval.expires:
            return replace(approval, state="expired")
        return approval

    def _make_room(self, owner: str) -> None:
        """Remove old records; `Unavailable` if the owner has too many pending. Costly, so not done on every hold."""
        now = self._records.clock()
        self._holds += 1
        if self._holds < _LOOK_EACH and self._looked <= now < self._looked + _LOOK_SECONDS and not self._crowded:
            return
        self._holds, self._looked = 0, now
        self._records.expire(_KIND, now - KEEP)
        # Drop arguments and previews, which may be large.
        kept = sorted(
            (replace(one, arguments={}, preview=None) for one in self._read_all()), key=lambda one: one.created
        )
        over = [one for one in kept if not self._is_in_force(one)]
        for one in over[: max(len(kept) + _LOOK_EACH - MOST_KEPT, 0)]:
            self._records.remove(_KIND, *_place(one.id))
        pending = Counter(one.owner for one in kept if one.state == "pending")
        self._crowded = frozenset(whose for whose, count in pending.items() if count >= MOST_PENDING)
        if owner in self._crowded:
            raise Unavailable(
                f"{pending[owner]:,} calls of this caller wait for approval, which is the limit",
                hint="have some of them decided, or wait until they expire",
            )

    async def run_off_loop(self, work: Callable[[], _T], *, writes: bool) -> _T:
        """Run work that waits for a store, or reads all records, outside of the event loop."""
        if writes and not self._records.shared:
            return await await_future(self._threads.submit(work))
        return await self._records.run_off_loop(work, writes=writes)

    aget = async_twin(get)
    alist = async_twin(list, writes=True)  # noqa: A003 - the method above
    aapprove = async_twin(approve, writes=True)
    adeny = async_twin(deny, writes=True)

    def close(self) -> None:
        """Close threads and records."""
        self._threads.close()
        self._records.close()


def _place(approval_id: str) -> tuple[str, str]:
    parts = _ID.fullmatch(approval_id)
    if parts is None:
        raise _unknown(approval_id)
    return parts[1], parts[2]


def _unknown(approval_id: str) -> UnknownApprovalError:
    return UnknownApprovalError(f"no approval has the id {show(approval_id)}")


def _read_cursor(cursor: str) -> tuple[float, str]:
    parts = _CURSOR.fullmatch(cursor)
    if parts is None:
        raise DefinitionError("cursor is not one of a list of approvals: give that of the page before")
    return float(parts[1]), parts[2]
