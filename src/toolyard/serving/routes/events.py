"""`GET /v1/events`: a live stream of events. A key sees its own events; one with `*:admin` sees all."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Send

from toolyard.serving.event_feed import EventFeed
from toolyard.serving.query import QueryParameter, query_str
from toolyard.serving.routing import caller_of, operation
from toolyard.serving.streams import (
    HEARTBEAT_SECONDS,
    RETRY_MS,
    STREAM_HEADERS,
    Subscriber,
    Subscribers,
    no_op,
    watch_disconnect,
    write_event,
)

_AFTER = QueryParameter(
    "after", {"type": "string", "maxLength": 64}, "Id of the last event received, in place of `Last-Event-ID`."
)
_MISSED = b'{"message":"some events are no longer kept; GET /v1/calls and GET /v1/approvals show what they were about"}'


class EventRoutes:
    """The operation that streams events."""

    def __init__(self, feed: EventFeed, subscribers: Subscribers) -> None:
        self._feed = feed
        self._subscribers = subscribers

    @operation(
        *("GET /v1/events", "Stream events of calls, approvals and sources"),
        answers={200: "text/event-stream"},
        query=(_AFTER,),
        streams=True,
    )
    async def open_stream(self, request: Request, send: Send) -> None:
        """Open until the client disconnects, its key expires or is revoked, or the server stops.

        Events are not queued per client: a slow or late client receives `events.missed`.
        """
        feed, caller, over = self._feed, caller_of(request), [False]

        def end() -> None:
            over[0] = True
            feed.wake()

        subscriber = Subscriber(caller.principal.owner or "", no_op, end)
        self._subscribers.join(subscriber)
        try:
            await feed.join()
            async with watch_disconnect(request.receive, end):
                await send({"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)})
                last = caller.headers.get(b"last-event-id")
                place = feed.find_place(query_str(request, "after") if last is None else last.decode("latin-1"))
                await self._send_events(request, send, place, over)
                await send({"type": "http.response.body", "body": b""})
        finally:
            feed.leave()
            self._subscribers.leave(subscriber)

    async def _send_events(self, request: Request, send: Send, place: int | None, over: list[bool]) -> None:
        feed, principal = self._feed, caller_of(request).principal
        body = write_event(retry=RETRY_MS)
        while not over[0]:
            if place is None or not feed.is_available(place):
                # Continue with the newest: sending the rest would hide the gap.
                place = feed.newest
                body += write_event(_MISSED, kind="events.missed", id=feed.write_id(place))
            chunk, reached = feed.read_chunk(principal, place)
            # Send the id without an event, so that a client that reconnects does not get `events.missed` because of
            # events it may not see.
            body += chunk or (write_event(id=feed.write_id(reached)) if body else b"")
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            is_current, place, body = reached == place, reached, b""
            if is_current:
                await feed.wait(HEARTBEAT_SECONDS)
                body = b"" if over[0] or feed.newest > place else write_event(id=feed.write_id(place))
