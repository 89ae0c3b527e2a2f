"""What one worker is told and another has to do: records beside the sessions, each taken by whoever it is for."""

from __future__ import annotations

import hashlib
import secrets
import time

import msgspec

from toolyard.serving.mcp.json_rpc import Id
from toolyard.serving.mcp.state import McpState
from toolyard.sessions.records import Records

_CANCEL, _MAIL = "mcp_cancel", "mcp_mail"
_LOST_SECONDS = 60.0
_MOST_CANCELS = 64
"""Of one session, that nobody has heeded yet."""


async def pass_on_cancel(records: Records, session_id: str, number: Id) -> None:
    """A request is to be cancelled that is not under way here."""
    if records.shared and len(await records.aall(_CANCEL, session_id)) < _MOST_CANCELS:
        await records.aput(_CANCEL, session_id, _digest_id(number), b"")


async def heed_cancelled(state: McpState, seen: int) -> int:
    """Cancel what other workers were told to; returns the version that was looked at."""
    records = state.records
    version = await records.aversion(_CANCEL)
    if version != seen:
        for record in await records.aall(_CANCEL):
            running = state.sessions.running(record.owner)
            for number in [number for number in running if _digest_id(number) == record.name]:
                running.pop(number).stop("cancelled")
                await records.aremove(_CANCEL, record.owner, record.name)
    return version


def _digest_id(number: Id) -> str:
    """An id in few characters, however long it is."""
    return hashlib.blake2b(msgspec.json.encode(number), digest_size=16).hexdigest()


async def post_mail(records: Records, session_id: str, body: bytes) -> None:
    """Leave a message for a client whose stream another worker has."""
    await records.aput(_MAIL, session_id, f"{time.time_ns():020d}-{secrets.token_hex(4)}", body)


async def collect_mail(state: McpState, seen: int) -> int:
    """Take what other workers were sent for clients whose streams are here, in order; returns the version of it."""
    records = state.records
    version = await records.aversion(_MAIL)
    if version != seen:
        here = {session_id: client for (_, session_id), client in state.sse_clients.items()}
        for record in await records.aall(_MAIL):
            client = here.get(record.owner)
            if client is not None and await records.aremove(_MAIL, record.owner, record.name):
                client.take(msgspec.json.decode(record.value))
    return version


async def forget_lost(records: Records) -> None:
    """Throw away what was meant for somebody who is gone."""
    if records.shared:
        for kind in (_CANCEL, _MAIL):
            await records.aexpire(kind, time.time() - _LOST_SECONDS)
