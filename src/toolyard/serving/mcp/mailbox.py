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
from toolyard.serving.mcp.json_rpc import Json
from toolyard.sessions.records import Records

_MAIL = "mcp_mail"
_EXPIRY_SECONDS = 60.0
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


async def expire_mail(records: Records) -> None:
    """Delete messages for clients that are gone."""
    if records.shared:
        await records.aexpire(_MAIL, records.clock() - _EXPIRY_SECONDS)
