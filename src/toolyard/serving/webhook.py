"""`Webhook`: notifies the operator's endpoint of held calls, with signed requests, without delaying any call."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import threading
import time
from collections import deque
from collections.abc import MutableMapping
from contextlib import suppress

import msgspec

from toolyard.app.blocks import WebhookBlock
from toolyard.calls.approval import Approval
from toolyard.calls.approvals import Approvals
from toolyard.links.http.addresses import Blocked, read_url, with_port
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Outgoing
from toolyard.model.errors import CallError, Unavailable
from toolyard.serving.routes.approvals import write_approval

NAME = "approvals webhook"
"""Its key in `failing`."""
MAX_WAITING = 256
_RETRY_PAUSES = (0.0, 1.0, 5.0)
"""Seconds before each attempt."""
_TIMEOUT = 10.0
_DRAIN_SECONDS = 3.0

_log = logging.getLogger(__name__)


class Webhook:
    """Sends an event for each call that this process holds, one at a time. Calls may be held in any thread."""

    def __init__(self, approvals: Approvals, block: WebhookBlock, failing: MutableMapping[str, str]) -> None:
        self._approvals = approvals
        self._block = block
        self._failing = failing
        target = read_url(block.url)
        # A plain http receiver is on this machine; the guard allows such an address only if it is listed.
        self._named = (with_port(target.host, target.port),) if target.scheme == "http" else ()
        self._waiting: deque[Approval] = deque()
        self._idle = asyncio.Event()
        self._lock = threading.Lock()
        self._unsent = 0
        self._unsent_until = 0.0
        """When the last approval that could not be sent expires; until then the failure is reported."""
        self.clock = time.time
        approvals.listeners.append(self._enqueue)

    async def send_waiting(self) -> None:
        """Send the queued events; those that cannot be sent are counted in `failing` until they have expired."""
        if self._waiting:
            async with GuardedClient(http2=False) as client:
                while self._waiting:
                    try:
                        await self._deliver(client, self._waiting[0])
                    finally:
                        self._waiting.popleft()
        self._forget_expired()
        self._idle.set()

    async def drain(self) -> None:
        """Accept no more events, and wait a short time for `send_waiting` to send the queued ones."""
        with suppress(ValueError):
            self._approvals.listeners.remove(self._enqueue)
        self._idle.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), _DRAIN_SECONDS)
        for approval in list(self._waiting):
            self._report_unsent(approval, "Stopped", "the server stops")

    def _enqueue(self, approval: Approval) -> None:
        if approval.state != "pending":
            return
        with self._lock:
            fits = len(self._waiting) < MAX_WAITING
            if fits:
                self._waiting.append(approval)
        if not fits:
            self._report_unsent(approval, "QueueFull", f"{MAX_WAITING} others wait to be sent")

    def _report_unsent(self, approval: Approval, kind: str, why: str) -> None:
        with self._lock:
            self._unsent += 1
            self._unsent_until = max(self._unsent_until, approval.expires)
            self._failing[NAME] = f"{kind}; {self._unsent:,} not sent"
        _log.warning("%s: approval %s was not sent: %s", NAME, approval.id, why)

    def _forget_expired(self) -> None:
        with self._lock:
            if NAME in self._failing and self.clock() >= self._unsent_until:
                self._unsent = 0
                del self._failing[NAME]

    async def _deliver(self, client: GuardedClient, approval: Approval) -> None:
        body = msgspec.json.encode({"event": "approval.created", "approval": write_approval(approval)})
        for pause in _RETRY_PAUSES:
            await asyncio.sleep(pause)
            try:
                await self._post(client, approval.id, body)
                return
            except CallError as error:
                fault = error
            if isinstance(fault, Blocked):
                break
        self._report_unsent(approval, type(fault).__name__, str(fault))

    async def _post(self, client: GuardedClient, approval_id: str, body: bytes) -> None:
        timestamp = str(int(self.clock()))
        headers = {
            "Content-Type": "application/json",
            "Toolyard-Event-Id": approval_id,
            "Toolyard-Timestamp": timestamp,
            "Toolyard-Signature": f"v1={sign_body(self._block.secret, timestamp, body)}",
        }
        outgoing = Outgoing(
            method="POST",
            url=self._block.url,
            headers=tuple(headers.items()),
            body=body,
            deadline=time.monotonic() + _TIMEOUT,
            named=self._named,
            once=True,
        )
        # The body of the response is not read.
        async with client.astream(outgoing) as answer:
            if answer.status // 100 != 2:
                raise Unavailable(f"the receiver answered {answer.status}")


def sign_body(secret: str, timestamp: str, body: bytes) -> str:
    """Return the hex HMAC-SHA256 of `timestamp.body`; it lets the receiver verify the sender and reject replays."""
    return hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
