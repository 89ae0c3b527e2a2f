"""`InflightRequest`: a request that is being answered, and why it was stopped, if it was."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from toolyard.serving.mcp.json_rpc import Id, RpcMessage

Reason = Literal["cancelled", "over"]
"""Its client asked for that, or its session is over."""


class InflightRequest:
    """One request. It is in the table of its session, or client, unless it was stopped or is done."""

    __slots__ = ("reason", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.reason: Reason | None = None
        """None: nobody here stopped it."""

    def stop(self, reason: Reason) -> None:
        """Stop it, if it can be stopped."""
        self.reason = reason
        self.task.cancel()


Running = dict[Id, InflightRequest]


def cancel_request(running: Running, message: RpcMessage) -> Id | None:
    """Stop the request that a notification names, if it is under way; its id if it is not."""
    number = message.params.get("requestId")
    if type(number) is not str and type(number) is not int:
        return None
    # Out of the table first: its id may be used again at once.
    found = running.pop(number, None)
    if found is None:
        return number
    found.stop("cancelled")
    return None


def forget_request(running: Running, number: Id, inflight: InflightRequest) -> None:
    """It is over: out of the table, unless another has its id by now."""
    if running.get(number) is inflight:
        del running[number]
