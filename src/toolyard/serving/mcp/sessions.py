"""Sessions of the protocol versions with a handshake, the requests that run in them, and the mail between workers.

A session is a stored record, so any worker can continue a session that another one began. Each worker caches sessions,
and reads the record again after `CACHE_SECONDS`, so an ended session is over in all workers within that time.
Streams and running requests belong to one process; messages about those reach it by mail.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.http_fault import make_overloaded
from toolyard.serving.mcp.approving import ClientQuestions
from toolyard.serving.mcp.event_stream import EventStream
from toolyard.serving.mcp.json_rpc import RANK, TOOLS_CHANGED, Id, Json
from toolyard.sessions.records import Records

Reason = Literal["cancelled", "over"]
"""Why a request was stopped: its client cancelled it, or its session ended."""


class InflightRequest(msgspec.Struct, eq=False):
    """A running request. It is removed from the table of its session or client when it is stopped or done."""

    task: asyncio.Task[Any]
    reason: Reason | None = None
    """None unless `stop` was called."""

    def stop(self, reason: Reason) -> None:
        """Cancel the task of the request."""
        self.reason = reason
        self.task.cancel()


Running = dict[Id, InflightRequest]


CANCEL = "notifications/cancelled"


def find_cancelled(document: Json) -> Id | None:
    """The id of the request that a message cancels; None if it cancels none."""
    params = document.get("params") if document.get("method") == CANCEL else None
    number = params.get("requestId") if type(params) is dict else None
    return number if type(number) is str or type(number) is int else None


def cancel_request(running: Running, document: Json) -> None:
    """Stop the request that a message cancels, if it is running."""
    number = find_cancelled(document)
    # Remove it from the table first, since the client may reuse its id at once.
    found = None if number is None else running.pop(number, None)
    if found is not None:
        found.stop("cancelled")


def forget_request(running: Running, number: Id, inflight: InflightRequest) -> None:
    """Remove a finished request from the table, unless another request has its id by now."""
    if running.get(number) is inflight:
        del running[number]


KIND = "mcp_session"
CACHE_SECONDS = 1.0
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
    """Rank of the lowest level of log lines that the client receives."""
    record: bytes
    """The stored record, as last read or written."""
    last_used: float
    cached_until: float
    """Until when it is assumed to exist without checking the store."""
    stored_at: float
    """When its last use was written to the store."""
    running: Running = {}
    """Calls running in this process, by request id."""
    notices: EventStream | None = None
    """The stream that its latest `GET` reads."""
    questions: ClientQuestions | None = None
    """Open questions to the person at the client; None if the client does not support elicitation."""

    @property
    def is_busy(self) -> bool:
        """True if calls are running in it, or its stream of notices is open."""
        return bool(self.running) or (self.notices is not None and not self.notices.is_over)

    def accepts(self, document: Json) -> bool:
        """True if a message concerns a call running in this process: it cancels it, or answers a question about it."""
        is_answer = self.questions is not None and self.questions.is_awaited(document)
        return is_answer or find_cancelled(document) in self.running

    def receive(self, document: Json) -> None:
        """Handle a message for which `accepts` is true."""
        cancel_request(self.running, document)
        if self.questions is not None:
            self.questions.resolve(document)


class McpSessions:
    """The sessions known to this process. `idle` is in seconds; `most` limits those cached in this process."""

    def __init__(
        self, records: Records, *, idle: float, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = records
        self._idle = idle
        self._most = most
        self._clock = clock
        self._sessions: dict[tuple[str, str], McpSession] = {}
        """Cached sessions, by owner and id."""

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, owner: str, version: str, *, elicits: bool = False) -> McpSession:
        """Create a session. If there are too many, the longest unused one of the owner with the most is ended.

        `elicits`: the client supports elicitation, that is, shows forms to people.
        """
        await self._make_room(owner)
        session_id = secrets.token_urlsafe(24)
        record = msgspec.msgpack.encode(_Stored(version, _DEFAULT_LEVEL, elicits))
        await self._records.aput(KIND, owner, session_id, record)
        return self._add(owner, session_id, record, self._clock())

    def find_cached(self, owner: str, session_id: str) -> McpSession | None:
        """The session if it is cached and needs no check of the store; else use `find`."""
        session = self._sessions.get((owner, session_id))
        now = self._clock()
        if session is None or now >= session.cached_until:
            return None
        session.last_used = now
        return session

    async def find(self, owner: str, session_id: str) -> McpSession | None:
        """The session, whichever worker began it; None if it does not exist, is over, or has another owner."""
        session = self.find_cached(owner, session_id)
        if session is not None:
            return session
        stored = await self._records.aget(KIND, owner, session_id) if len(session_id) <= 128 else None
        now = self._clock()
        session = self._sessions.get((owner, session_id))
        # With shared records, another worker may have used it.
        idle = session is not None and not self._records.shared and now - session.last_used > self._idle
        if stored is None or (idle and session is not None and not session.running):
            if session is not None:
                await self.end(owner, session_id)
            return None
        if session is None:
            await self._make_room(owner)
            session = self._add(owner, session_id, stored, float("-inf"))
        session.last_used, session.cached_until = now, now + CACHE_SECONDS
        session.level, session.record = msgspec.msgpack.decode(stored, type=_Stored).level, stored
        return session if await self._still_stored(session, now) else None

    async def keep(self, session: McpSession, level: int | None = None) -> bool:
        """Store that the session is used, and a new `level` if given; False if it was ended in the meantime."""
        known = session.record
        while True:
            wanted = known
            if level is not None:
                wanted = msgspec.msgpack.encode(_Stored(session.version, level, session.questions is not None))
            if await self._records.areplace(KIND, session.owner, session.id, known, wanted):
                session.stored_at, session.record = self._clock(), wanted
                session.level = msgspec.msgpack.decode(wanted, type=_Stored).level
                return True
            found = await self._records.aget(KIND, session.owner, session.id)
            if found is None:
                self._drop(session.owner, session.id)
                return False
            # Another process changed the record, which takes precedence.
            known = found

    async def _still_stored(self, session: McpSession, now: float) -> bool:
        return now - session.stored_at <= self._idle / 4 or await self.keep(session)

    @property
    def busy(self) -> dict[str, McpSession]:
        """The sessions with calls running in this process, by id."""
        return {session.id: session for session in self._sessions.values() if session.running}

    async def end(self, owner: str, session_id: str) -> bool:
        """End a session and stop its requests; False if it did not exist."""
        self._drop(owner, session_id)
        return await self._records.aremove(KIND, owner, session_id)

    async def sweep(self) -> None:
        """End sessions that were unused for too long, renew the records of busy ones, and delete mail nobody took."""
        now = self._clock()
        for session in list(self._sessions.values()):
            if session.is_busy:
                session.last_used = now
                await self._still_stored(session, now)
            elif now - session.last_used > self._idle:
                self._drop(session.owner, session.id)
                if not self._records.shared:
                    await self._records.aremove(KIND, session.owner, session.id)
        await self._records.aexpire(KIND, self._records.clock() - self._idle * 1.25)
        if self._records.shared:
            await self._records.aexpire(_MAIL, self._records.clock() - _MAIL_SECONDS)

    def notify_all(self) -> None:
        """Notify every session that has a stream of a changed catalog."""
        for session in self._sessions.values():
            if session.notices is not None:
                session.notices.put(TOOLS_CHANGED)

    def _add(self, owner: str, session_id: str, record: bytes, stored_at: float) -> McpSession:
        now, facts = self._clock(), msgspec.msgpack.decode(record, type=_Stored)
        made = McpSession(session_id, owner, facts.version, facts.level, record, now, now + CACHE_SECONDS, stored_at)
        made.questions = ClientQuestions() if facts.elicits else None
        return self._sessions.setdefault((owner, session_id), made)

    def _drop(self, owner: str, session_id: str) -> None:
        session = self._sessions.pop((owner, session_id), None)
        if session is None:
            return
        if session.notices is not None:
            session.notices.end()
        for inflight in session.running.values():
            inflight.stop("over")

    async def _make_room(self, owner: str) -> None:
        """If there are too many, end an idle session of an owner with at least as many as `owner`, or raise 429."""
        if len(self._sessions) < self._most:
            return
        counts = Counter(whose for whose, _ in self._sessions)
        idle = [one for one in self._sessions.values() if not one.is_busy and counts[one.owner] >= counts[owner]]
        if not idle:
            raise make_overloaded("all sessions are in use; end one, or try again", 5)
        oldest = max(idle, key=lambda session: (counts[session.owner], -session.last_used))
        await self.end(oldest.owner, oldest.id)


_MAIL = "mcp_mail"
_MAIL_SECONDS = 60.0
_MOST_MAIL = 256
"""Maximum messages for one session that no worker has taken yet."""


class MessageReceiver(Protocol):
    """A client or session that receives messages."""

    def accepts(self, document: Json) -> bool:
        """True if this process, and no other worker, must take the message."""

    def receive(self, document: Json) -> None:
        """Handle a message; the response may be sent later."""


async def post_mail(records: Records, session_id: str, body: bytes) -> None:
    """Store a message for the worker that has the stream or call it concerns."""
    if len(await records.aall(_MAIL, session_id)) >= _MOST_MAIL:
        raise make_overloaded("many messages of this session were not taken yet; wait, and send it again", 1)
    await records.aput(_MAIL, session_id, f"{time.time_ns():020d}-{secrets.token_hex(4)}", body)


async def collect_mail(receivers: Mapping[str, MessageReceiver], records: Records, last_version: int) -> int:
    """Deliver messages that other workers received for `receivers` (by session id), in order.

    `last_version` is the version of the mail at the last call; returns the current version.
    """
    version = await records.aversion(_MAIL)
    if version != last_version:
        for record in await records.aall(_MAIL):
            receiver = receivers.get(record.owner)
            if receiver is None:
                continue
            try:
                # The worker that received it has checked its depth.
                document = parse_json(record.value, what="message", max_depth=sys.maxsize)
            except MalformedSource:
                # A message that cannot be parsed must not hold up the rest.
                await records.aremove(_MAIL, record.owner, record.name)
                continue
            if receiver.accepts(document) and await records.aremove(_MAIL, record.owner, record.name):
                receiver.receive(document)
    return version
