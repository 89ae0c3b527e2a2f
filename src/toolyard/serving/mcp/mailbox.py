"""Messages between workers: for a client whose stream or running call is in another process."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping
from typing import Protocol

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.http_fault import make_overloaded
from toolyard.serving.identity import Principal
from toolyard.serving.mcp.json_rpc import Json
from toolyard.sessions.records import Records

_MAIL = "mcp_mail"
_LOST_SECONDS = 60.0
_MOST_MAIL = 256
"""Maximum messages for one session that no worker has taken yet."""


class MailTaker(Protocol):
    """A client or session that receives messages."""

    def wants(self, document: Json) -> bool:
        """True if this process, and no other worker, must take the message."""

    def take(self, document: Json) -> None:
        """Handle a message; the response may be sent later."""


class StreamClient(MailTaker, Protocol):
    """A client that receives responses on a separate stream."""

    def take(self, document: Json, principal: Principal | None = None) -> None:
        """Handle a message. `principal` is its sender; None leaves the client's principal unchanged."""

    @property
    def is_full(self) -> bool:
        """True if no message should be taken until the client has read its responses."""


async def post_mail(records: Records, session_id: str, body: bytes) -> None:
    """Store a message for the worker that has the stream or call it concerns."""
    if len(await records.aall(_MAIL, session_id)) >= _MOST_MAIL:
        raise make_overloaded("many messages of this session were not taken yet; wait, and send it again", 1)
    await records.aput(_MAIL, session_id, f"{time.time_ns():020d}-{secrets.token_hex(4)}", body)


async def collect_mail(takers: Mapping[str, MailTaker], records: Records, seen: int) -> int:
    """Deliver messages that other workers received for `takers` (by session id), in order.

    `seen` is the version of the mail at the last call; returns the current version.
    """
    version = await records.aversion(_MAIL)
    if version != seen:
        for record in await records.aall(_MAIL):
            taker = takers.get(record.owner)
            if taker is None:
                continue
            try:
                # The worker that received it has checked its depth.
                document = parse_json(record.value, what="message", max_depth=sys.maxsize)
            except MalformedSource:
                # A message that cannot be parsed must not hold up the rest.
                await records.aremove(_MAIL, record.owner, record.name)
                continue
            if taker.wants(document) and await records.aremove(_MAIL, record.owner, record.name):
                taker.take(document)
    return version


async def forget_lost(records: Records) -> None:
    """Delete messages for clients that are gone."""
    if records.shared:
        await records.aexpire(_MAIL, records.clock() - _LOST_SECONDS)
