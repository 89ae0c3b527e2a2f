"""A call that is sent again while the first is under way is the same call: it runs once, both get the answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from toolyard.model.call import ToolCall, ToolResult
from toolyard.sessions.session import Session


class InflightCall:
    """One call from the moment it was handed in until its batch is over."""

    __slots__ = ("answered_by", "batch", "call", "result", "users")

    def __init__(self, call: ToolCall, batch: InflightCalls) -> None:
        self.call = call
        self.batch = batch
        self.result: ToolResult | None = None
        self.answered_by: InflightCalls | None = None
        self.users: list[InflightCalls] = [batch]
        """The batches that wait for an answer."""


class InflightCalls:
    """The flights of one batch: those it leads, and those of other batches it joined.

    Batches take turns in a session, so by the time this one has its turn, whatever it joined is over: joining
    needs no waiting of its own.
    """

    __slots__ = ("_joined", "_led", "_session")

    def __init__(self, session: Session, calls: Sequence[ToolCall]) -> None:
        self._session = session
        self._led: dict[str, InflightCall] = {}
        self._joined: dict[str, InflightCall] = {}
        for call in calls:
            if call.call_id is None:
                continue
            flight = session.flights.setdefault(call.call_id, InflightCall(call, self))
            if flight.batch is self:
                self._led[call.call_id] = flight
            elif flight.call == call:
                self._joined[call.call_id] = flight
                flight.users.append(self)

    def answered(self, call: ToolCall) -> ToolResult | None:
        """The answer another batch got for this very call; None if it has to be made."""
        if call.call_id is None:
            return None
        flight = self._joined.get(call.call_id) or self._led.get(call.call_id)
        if flight is None or flight.answered_by in (None, self) or flight.call != call:
            return None
        return flight.result

    def landed(self, call: ToolCall, result: ToolResult) -> None:
        """Tell whoever joined."""
        if call.call_id is None:
            return
        # Whoever has its turn first answers, be it the one who was first to ask or not.
        flight = self._led.get(call.call_id) or self._joined.get(call.call_id)
        if flight is not None and flight.answered_by is None and flight.call == call:
            flight.result = result
            flight.answered_by = self

    def over(self) -> None:
        """The batch is done; a flight without an answer stays for whoever else waits for one."""
        for call_id, flight in (self._led | self._joined).items():
            with suppress(ValueError):
                flight.users.remove(self)
            done = not flight.users or (flight.answered_by is not None and flight.batch is self)
            if done and self._session.flights.get(call_id) is flight:
                self._session.flights.pop(call_id, None)
