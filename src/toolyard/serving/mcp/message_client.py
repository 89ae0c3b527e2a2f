"""`MessageClient`: a client of a bidirectional wire: standard input and output, or the older SSE transport.

Responses are sent when they are ready, in any order; `initialize` and faults are answered at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from toolyard.dialects.mcp_protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LIST_CHANGED,
    LISTEN,
    PROTOCOL_VERSION,
    REFUSED,
    encode_notification,
)
from toolyard.model.errors import ToolyardError
from toolyard.serving.identity import Caller, Principal
from toolyard.serving.mcp.approving import ClientQuestions, can_elicit
from toolyard.serving.mcp.event_stream import read_subscription
from toolyard.serving.mcp.json_rpc import (
    RANK,
    TOOLS_CHANGED,
    Id,
    Json,
    RpcFault,
    RpcMessage,
    check_envelope,
    check_version,
    encode_error,
    encode_result,
    find_id,
    finish_result,
    read_message,
)
from toolyard.serving.mcp.server import McpEndpoint, RequestContext, negotiate_version
from toolyard.serving.mcp.sessions import InflightRequest, Running, cancel_request, find_cancelled, forget_request

_MOST_RUNNING = 1024
_MOST_SUBSCRIPTIONS = 16
_log = logging.getLogger(__name__)


class MessageClient:
    """The state of one client: protocol settings, running requests, open questions and subscriptions.

    `send` sends responses, which must not be lost; `notify` sends notifications, which may be dropped.
    """

    def __init__(
        self,
        server: McpEndpoint,
        send: Callable[[bytes], None],
        notify: Callable[[bytes], None],
        principal: Principal,
        address: str | None = None,
    ) -> None:
        self._server = server
        self._send = send
        self._notify = notify
        self._principal = principal
        self._find_address = None if address is None else partial(address.rstrip, "/")
        self.level = RANK["info"]
        self.running: Running = {}
        self._is_initialized = self._elicits = False
        self._questions = ClientQuestions()
        self._subscriptions: dict[Id, Json] = {}
        """The tag of each subscription, by the id of its request."""

    def notify_changed(self) -> None:
        """Notify the client of a changed catalog."""
        if self._is_initialized:
            self._notify(TOOLS_CHANGED)
        for tag in self._subscriptions.values():
            self._notify(encode_notification(LIST_CHANGED, {"_meta": tag}))

    @property
    def is_full(self) -> bool:
        """True if no message should be taken until the client has read its responses."""
        return False

    def accepts(self, document: Json) -> bool:
        """True: all messages of its session belong to it."""
        return True

    def receive(self, document: Any, principal: Principal | None = None) -> None:
        """Handle a message; the response may be sent later. `principal` is its sender; None leaves it unchanged."""
        if principal is not None:
            self._principal = principal
        try:
            if self.is_full:
                raise RpcFault(REFUSED, "there are answers that were not read; read them, and ask again")
            if type(document) is not dict:
                raise RpcFault(INVALID_REQUEST, "a message is one JSON object; there are no batches")
            message = read_message(document)
            if message is None:
                self._questions.resolve(document)
                return
            if message.id is None:
                if (number := find_cancelled(document)) is not None and self._subscriptions.pop(number, None) is None:
                    cancel_request(self.running, document)
            elif message.method == "initialize":
                version = negotiate_version(message)
                self._is_initialized, self._elicits = True, can_elicit(message.params.get("capabilities"))
                self._send(encode_result(message.id, self._server.greet(version)))
            else:
                self._begin(message, message.id)
        except RpcFault as fault:
            self._send(encode_error(find_id(document), fault))

    def close(self) -> None:
        """Stop the running requests of a client that is gone."""
        for inflight in list(self.running.values()):
            inflight.stop("over")

    def _begin(self, message: RpcMessage, number: Id) -> None:
        stateless = PROTOCOL_VERSION in message.meta
        if stateless:
            check_envelope(message)
            check_version(message.meta[PROTOCOL_VERSION])
        if number in self.running or number in self._subscriptions:
            raise RpcFault(INVALID_REQUEST, "a request with this id is under way")
        if stateless and message.method == LISTEN:
            self._subscribe(message, number)
            return
        caller = Caller(self._principal)
        if len(self.running) >= _MOST_RUNNING:
            raise RpcFault(REFUSED, f"more than {_MOST_RUNNING} requests are under way; wait for some of them")
        ask = partial(self._questions.ask, self._send) if self._elicits else None
        context = RequestContext(message, caller, client=None if stateless else self, notify=self._notify, ask=ask)
        context.find_address = self._find_address
        inflight = InflightRequest(asyncio.get_running_loop().create_task(self._answer(context, number)))
        self.running[number] = inflight
        inflight.task.add_done_callback(lambda _: forget_request(self.running, number, inflight))

    def _subscribe(self, message: RpcMessage, number: Id) -> None:
        tag, wants_changes, acknowledgement = read_subscription(message)
        if len(self._subscriptions) >= _MOST_SUBSCRIPTIONS:
            raise RpcFault(REFUSED, f"{_MOST_SUBSCRIPTIONS} subscriptions are open; end one of them")
        self._send(acknowledgement)
        if wants_changes:
            self._subscriptions[number] = tag

    def end_subscriptions(self) -> None:
        """End all subscriptions by sending their results."""
        for number, tag in self._subscriptions.items():
            self._send(encode_result(number, finish_result({"_meta": dict(tag)}, stateless=True)))
        self._subscriptions.clear()

    async def _answer(self, context: RequestContext, number: Id) -> None:
        try:
            self._send(encode_result(number, await self._server.answer(context)))
        except RpcFault as fault:
            self._send(encode_error(number, fault))
        except ToolyardError as error:
            self._send(encode_error(number, RpcFault(REFUSED, str(error))))
        except Exception as error:  # noqa: BLE001 - a boundary: an unexpected error must not affect other requests
            _log.error("%s: failed with %s", context.message.method, type(error).__name__, exc_info=error)
            self._send(encode_error(number, RpcFault(INTERNAL_ERROR, "the server failed; its log has it")))
