"""Mail between workers: messages for a client whose stream, or whose call, is in another process."""

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
"""Messages for one session that no worker has taken yet."""


class MailTaker(Protocol):
    """A client, or a session, that messages for it can be handed to."""

    def wants(self, document: Json) -> bool:
        """True if a message is to be taken here, and by no other worker."""

    def take(self, document: Json) -> None:
        """One message, which is answered now or later."""


class StreamClient(MailTaker, Protocol):
    """A client whose answers come on a separate stream."""

    def take(self, document: Json, principal: Principal | None = None) -> None:
        """`principal` is who sent it, if that is known better now."""

    @property
    def is_full(self) -> bool:
        """True if nothing more should be taken until the peer has read what it was sent."""


async def post_mail(records: Records, session_id: str, body: bytes) -> None:
    """Leave a message for whichever worker has the stream, or the call, that it is about."""
    if len(await records.aall(_MAIL, session_id)) >= _MOST_MAIL:
        raise make_overloaded("many messages of this session were not taken yet; wait, and send it again", 1)
    await records.aput(_MAIL, session_id, f"{time.time_ns():020d}-{secrets.token_hex(4)}", body)


async def collect_mail(takers: Mapping[str, MailTaker], records: Records, seen: int) -> int:
    """Take what other workers were sent for those who are here, by their session's id, in order.

    Returns the version of it.
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
