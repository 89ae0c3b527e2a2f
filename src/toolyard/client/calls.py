"""The calls of a server: its log of them, their live events, and those that wait for approval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from toolyard.calls.approval import TIMES, Approval, WantedState
from toolyard.calls.approvals import ApprovalPage
from toolyard.calls.journal import QUERY_NAMES, CallFilter, CallRow
from toolyard.client.wire import API, ServerWire, make_refusal_error, quote_segment
from toolyard.links.http.bodies import EventReader
from toolyard.links.http.messages import Incoming
from toolyard.loop.home import home_loop
from toolyard.loop.pacing import backoff_delay
from toolyard.model.errors import ToolFailed, Unavailable

_LONGEST_EVENT = 1024 * 1024
_READ_AHEAD = 100
"""Events buffered for a thread that reads them."""


class RemoteCallPage(NamedTuple):
    """Calls, newest first, and the next cursor; a page may be short or empty although more follow."""

    rows: list[CallRow]
    next_cursor: str | None


class RemoteEvent(msgspec.Struct, frozen=True):
    """An event on a server."""

    id: str
    """Pass it as `after` to continue after this event."""
    kind: str
    """Such as `call.ended`; `events.missed` means that some events were lost."""
    about: dict[str, Any]


class RemoteJournal:
    """The calls and events that the API key may see."""

    def __init__(self, wire: ServerWire) -> None:
        self._wire = wire

    async def acalls(
        self, wanted: CallFilter | None = None, limit: int = 100, cursor: str | None = None
    ) -> RemoteCallPage:
        """A page of the matching calls; `cursor` is the `next_cursor` of the previous page with the same filter."""
        query = (*_write_filter(wanted or CallFilter()), ("limit", str(limit)))
        body = await self._wire.ask(
            "GET", f"/{API}/calls", query=query if cursor is None else (*query, ("cursor", cursor))
        )
        try:
            return RemoteCallPage(list(map(CallRow.from_dict, body["calls"])), body.get("next_cursor"))
        except (msgspec.ValidationError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise self._wire.make_garbled_error("something other than a list of calls") from None

    calls = home_loop.sync_twin(acalls)

    async def aevents(self, after: str | None = None) -> AsyncGenerator[RemoteEvent, None]:
        """Events from now on, or after a given event, without end. Reconnects after a lost connection and continues
        there; raises `Unavailable` only if the server can no longer be reached.
        """
        failures, reader = 0, EventReader(_LONGEST_EVENT)
        reader.last_id = after or ""
        while True:
            try:
                async with aclosing(self._read_stream(reader)) as events:
                    async for event in events:
                        # Connected: an idle stream that a proxy closes is not a failure.
                        failures = 0
                        if event is not None:
                            yield event
                fault = Unavailable(f"{self._wire.url} ended the stream of events")
            except Unavailable as error:
                fault = error
            except ToolFailed:
                fault = Unavailable(f"the stream of events of {self._wire.url} broke off")
            failures += 1
            if failures > self._wire.retries or not fault.info.retryable:
                raise fault
            await asyncio.sleep(backoff_delay(failures, reader.retry or self._wire.retry_delay))
            reader.restart()

    def events(self, after: str | None = None) -> Iterator[RemoteEvent]:
        """`aevents` for threads; blocks until the next event."""
        queue: asyncio.Queue[RemoteEvent | BaseException] = asyncio.Queue(_READ_AHEAD)

        async def read_events() -> None:
            try:
                async for event in self.aevents(after):
                    await queue.put(event)
            except Exception as error:  # noqa: BLE001 - raised again in the waiting thread
                await queue.put(error)

        reading = home_loop.submit(read_events())
        try:
            while not isinstance(item := home_loop.run(queue.get(), twin="aevents"), BaseException):
                yield item
            raise item
        finally:
            reading.cancel()

    async def _read_stream(self, reader: EventReader) -> AsyncGenerator[RemoteEvent | None, None]:
        """The events of one connection; yields None once when the stream is open."""
        headers = {"accept": "text/event-stream"} | ({"last-event-id": reader.last_id} if reader.last_id else {})
        async with self._wire.link.astream(f"/{API}/events", headers=headers) as answer:
            if answer.status != 200:
                body = await answer.read_all(_LONGEST_EVENT)
                refused = Incoming(status=answer.status, headers=answer.headers, body=body, url=answer.url)
                raise make_refusal_error(refused, self._wire.url, "none")
            if dict(answer.headers).get("content-type", "").startswith("text/event-stream"):
                yield None
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    for event in reader.feed(chunk):
                        yield RemoteEvent(event.id, event.name, self._read_about(event.data))

    def _read_about(self, data: bytes) -> dict[str, Any]:
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError:
            raise self._wire.make_garbled_error("an event that is not a JSON object") from None


def _write_filter(wanted: CallFilter) -> Iterator[tuple[str, str]]:
    for name in wanted.__struct_fields__:
        value = getattr(wanted, name)
        if isinstance(value, float | int) and not isinstance(value, bool):
            yield name, datetime.fromtimestamp(value, UTC).isoformat()
        elif value:
            yield QUERY_NAMES.get(name, name), "true" if value is True else value


class _Page(msgspec.Struct):
    approvals: list[Any]
    next_cursor: str | None = None


class RemoteApprovals:
    """Calls that wait for approval on a server, as far as the API key may see them."""

    def __init__(self, wire: ServerWire) -> None:
        self._wire = wire

    async def alist(
        self,
        *,
        state: WantedState | None = None,
        tool: str | None = None,
        session_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ApprovalPage:
        """A page of the matching approvals, newest first."""
        wanted = {"state": state, "tool": tool, "session": session_id, "limit": str(limit), "cursor": cursor}
        query = tuple((name, value) for name, value in wanted.items() if value is not None)
        body = await self._wire.ask("GET", f"/{API}/approvals", query=query)
        page = self._wire.read(body, _Page, "something other than a list of approvals")
        return ApprovalPage(tuple(map(self._read_approval, page.approvals)), page.next_cursor)

    list = home_loop.sync_twin(alist)

    async def aget(self, approval_id: str) -> Approval:
        """A single approval; raises `UnknownApprovalError` if there is none that the key may see."""
        return self._read_approval(await self._wire.ask("GET", _path(approval_id)))

    get = home_loop.sync_twin(aget)

    async def aapprove(self, approval_id: str, reason: str | None = None) -> Approval:
        """Allow the call to run once: a waiting caller continues, any other repeats the call."""
        return await self._decide(f"{_path(approval_id)}:approve", reason)

    approve = home_loop.sync_twin(aapprove)

    async def adeny(self, approval_id: str, reason: str | None = None) -> Approval:
        """Refuse the call."""
        return await self._decide(f"{_path(approval_id)}:deny", reason)

    deny = home_loop.sync_twin(adeny)

    async def _decide(self, path: str, reason: str | None) -> Approval:
        body = {} if reason is None else {"reason": reason}
        return self._read_approval(await self._wire.ask("POST", path, body=body))

    def _read_approval(self, shown: Any) -> Approval:
        try:
            times = {name: datetime.fromisoformat(shown[name]).timestamp() for name in TIMES if name in shown}
            return msgspec.convert({**shown, **times, "owner": "", "self_allowed": shown["self"]}, Approval)
        except (msgspec.ValidationError, KeyError, TypeError, ValueError):
            raise self._wire.make_garbled_error("something other than an approval") from None


def _path(approval_id: str) -> str:
    return f"/{API}/approvals/{quote_segment(approval_id)}"
