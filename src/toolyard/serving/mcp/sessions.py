"""Sessions of the versions that begin with a handshake, and the requests under way in them.

A session is a record beside those of the service, so any worker can go on with one that another began. Each keeps
what it has seen at hand, believes it for a moment, and then looks again: an ended session is over everywhere within
`BELIEVED`. What is bound to one process are the streams and the requests under way; messages about those go to that
process through the `mailbox`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from toolyard.serving.http_fault import make_overloaded
from toolyard.serving.mcp.approving import ClientQuestions
from toolyard.serving.mcp.event_stream import EventStream
from toolyard.serving.mcp.json_rpc import CHANGED, RANK, Id, Json
from toolyard.sessions.records import Records

Reason = Literal["cancelled", "over"]
"""Its client asked for that, or its session is over."""


class InflightRequest(msgspec.Struct, eq=False):
    """One request. It is in the table of its session, or client, unless it was stopped or is done."""

    task: asyncio.Task[Any]
    reason: Reason | None = None
    """None: it was not stopped here."""

    def stop(self, reason: Reason) -> None:
        """Stop it, if it can be stopped."""
        self.reason = reason
        self.task.cancel()


Running = dict[Id, InflightRequest]


CANCEL = "notifications/cancelled"


def find_cancelled(document: Json) -> Id | None:
    """The id of the request that a message wants cancelled; None if it is no such message, or names none."""
    params = document.get("params") if document.get("method") == CANCEL else None
    number = params.get("requestId") if type(params) is dict else None
    return number if type(number) is str or type(number) is int else None


def cancel_request(running: Running, document: Json) -> None:
    """Stop the request that a message wants cancelled, if it is under way."""
    number = find_cancelled(document)
    # Out of the table first: its id may be used again at once.
    found = None if number is None else running.pop(number, None)
    if found is not None:
        found.stop("cancelled")


def forget_request(running: Running, number: Id, inflight: InflightRequest) -> None:
    """It is over: out of the table, unless another has its id by now."""
    if running.get(number) is inflight:
        del running[number]


KIND = "mcp_session"
BELIEVED = 1.0
_DEFAULT_LEVEL = RANK["info"]


class _Stored(msgspec.Struct, frozen=True):
    version: str
    level: int
    elicits: bool = False


class McpSession(msgspec.Struct, eq=False):
    """One client, from `initialize` to `DELETE`."""

    id: str
    owner: str
    version: str
    level: int
    """The least level of log lines that the client gets."""
    text: bytes
    """As the store has it."""
    used: float
    believed: float
    """Until when it is there without a look at the store."""
    stored: float
    """When the store was last told that it is used."""
    running: Running = {}
    """Calls under way here, by the id of their request."""
    notices: EventStream | None = None
    """What its latest `GET` reads."""
    questions: ClientQuestions | None = None
    """What the person at the client was asked here; None if the client cannot ask."""

    @property
    def is_busy(self) -> bool:
        """True if calls are under way in it, or its notices are read."""
        return bool(self.running) or (self.notices is not None and not self.notices.over)

    def wants(self, document: Json) -> bool:
        """True if a message is about a call that is under way here: its end, or what its client was asked."""
        is_answer = self.questions is not None and self.questions.awaits(document)
        return is_answer or find_cancelled(document) in self.running

    def take(self, document: Json) -> None:
        """A message that is wanted here."""
        cancel_request(self.running, document)
        if self.questions is not None:
            self.questions.take(document)


class McpSessions:
    """All sessions, as far as this process knows. `idle` is in seconds; `most` are those at hand here."""

    def __init__(
        self,
        records: Records,
        *,
        idle: float,
        most: int,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._records = records
        self._idle = idle
        self._most = most
        self._clock = clock
        self._wall = records.clock if wall is None else wall
        self._here: dict[tuple[str, str], McpSession] = {}
        """By owner and id."""

    def __len__(self) -> int:
        return len(self._here)

    async def open(self, owner: str, version: str, *, elicits: bool = False) -> McpSession:
        """A new session. Where there are too many, the longest unused one of the owner with most ends.

        `elicits`: its client shows forms to people.
        """
        await self._make_room(owner)
        session_id = secrets.token_urlsafe(24)
        text = msgspec.msgpack.encode(_Stored(version, _DEFAULT_LEVEL, elicits))
        await self._records.aput(KIND, owner, session_id, text)
        return self._take(owner, session_id, text, self._clock())

    def at_hand(self, owner: str, session_id: str) -> McpSession | None:
        """The session, if it is known here to be there; else `find` may know more."""
        session = self._here.get((owner, session_id))
        now = self._clock()
        if session is None or now >= session.believed:
            return None
        session.used = now
        return session

    async def find(self, owner: str, session_id: str) -> McpSession | None:
        """The session, wherever it began; None if it never did, is over, or has another owner."""
        session = self.at_hand(owner, session_id)
        if session is not None:
            return session
        stored = await self._records.aget(KIND, owner, session_id) if len(session_id) <= 128 else None
        now = self._clock()
        session = self._here.get((owner, session_id))
        # Where others see the same records, it may have been used there.
        idle = session is not None and not self._records.shared and now - session.used > self._idle
        if stored is None or (idle and session is not None and not session.running):
            if session is not None:
                await self.end(owner, session_id)
            return None
        if session is None:
            await self._make_room(owner)
            session = self._take(owner, session_id, stored, float("-inf"))
        session.used, session.believed = now, now + BELIEVED
        session.level, session.text = msgspec.msgpack.decode(stored, type=_Stored).level, stored
        return session if await self._still_stored(session, now) else None

    async def keep(self, session: McpSession, level: int | None = None) -> bool:
        """Have the store know that it is used, and at which level if that is new; False if it was ended meanwhile."""
        known, elicits = session.text, session.questions is not None
        while True:
            stored = _Stored(session.version, level or 0, elicits)
            wanted = msgspec.msgpack.encode(stored) if level is not None else known
            if await self._records.areplace(KIND, session.owner, session.id, known, wanted):
                session.stored, session.text = self._clock(), wanted
                session.level = msgspec.msgpack.decode(wanted, type=_Stored).level
                return True
            found = await self._records.aget(KIND, session.owner, session.id)
            if found is None:
                self._drop(session.owner, session.id)
                return False
            # Another process changed it; what it says there holds.
            known = found

    async def _still_stored(self, session: McpSession, now: float) -> bool:
        return now - session.stored <= self._idle / 4 or await self.keep(session)

    @property
    def busy(self) -> dict[str, McpSession]:
        """Those in which calls are under way here, by their ids."""
        return {session.id: session for session in self._here.values() if session.running}

    async def end(self, owner: str, session_id: str) -> bool:
        """It is over, and so is what runs in it; False if there was none."""
        self._drop(owner, session_id)
        return await self._records.aremove(KIND, owner, session_id)

    async def sweep(self) -> None:
        """Forget sessions that were unused for too long."""
        now = self._clock()
        for session in list(self._here.values()):
            if session.is_busy:
                session.used = now
                await self._still_stored(session, now)
            elif now - session.used > self._idle:
                self._drop(session.owner, session.id)
                if not self._records.shared:
                    await self._records.aremove(KIND, session.owner, session.id)
        await self._records.aexpire(KIND, self._wall() - self._idle * 1.25)

    def notify_all(self) -> None:
        """The catalog has changed: notify every session that has a stream."""
        for session in self._here.values():
            if session.notices is not None:
                session.notices.put(CHANGED)

    def _take(self, owner: str, session_id: str, text: bytes, stored: float) -> McpSession:
        now, facts = self._clock(), msgspec.msgpack.decode(text, type=_Stored)
        made = McpSession(session_id, owner, facts.version, facts.level, text, now, now + BELIEVED, stored)
        made.questions = ClientQuestions() if facts.elicits else None
        return self._here.setdefault((owner, session_id), made)

    def _drop(self, owner: str, session_id: str) -> None:
        session = self._here.pop((owner, session_id), None)
        if session is None:
            return
        if session.notices is not None:
            session.notices.end()
        for inflight in session.running.values():
            inflight.stop("over")

    async def _make_room(self, owner: str) -> None:
        """Where there are too many, end an idle one of an owner who has no fewer than `owner`, or raise 429."""
        if len(self._here) < self._most:
            return
        counts = Counter(whose for whose, _ in self._here)
        idle = [one for one in self._here.values() if not one.is_busy and counts[one.owner] >= counts[owner]]
        if not idle:
            raise make_overloaded("all sessions are in use; end one, or try again", 5)
        oldest = max(idle, key=lambda session: (counts[session.owner], -session.used))
        await self.end(oldest.owner, oldest.id)
