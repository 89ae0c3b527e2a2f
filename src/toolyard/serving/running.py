"""The one way from any wire to the call path, and what the wires have in common on the way back."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from toolyard.calls.events import Mode
from toolyard.calls.request import CallRequest, Listener
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import ErrorInfo, Interrupted
from toolyard.model.tool import Effects, Tool
from toolyard.serving.faults import HttpFault
from toolyard.serving.principal import NOBODY, Principal
from toolyard.serving.request import Request
from toolyard.serving.response import Response
from toolyard.serving.service import Service

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = {}
_LOGGED = 200
_KEY = re.compile(rb"[!-~]{1,512}")


class Caller(Protocol):
    """Whoever has something run, over HTTP or not."""

    principal: Principal
    abandoned: list[Future[Any]]
    """Work of its calls that goes on past its deadline."""
    tool: str
    """The tool that was called, for the log."""


class KeyScope(msgspec.Struct, frozen=True):
    """A key's scopes, as the call path asks about them."""

    principal: Principal

    @property
    def sees_all(self) -> bool:
        """True if the whole catalog is shown to the key."""
        return self.principal.scopes.everywhere("list")

    def lists(self, tool: Tool) -> bool:
        """True if the catalog shows it to the key."""
        return self.principal.scopes.allows("list", tool.namespace)

    def sees(self, tool: Tool) -> bool:
        """True if the key may know of the tool: who may call it may see it."""
        scopes, namespace = self.principal.scopes, tool.namespace
        return (
            scopes.allows("list", namespace)
            or scopes.allows("execute", namespace)
            or scopes.allows("simulate", namespace)
        )

    def may(self, mode: Mode, tool: Tool) -> bool:
        """True if the key may have it called; who may execute may also simulate."""
        scopes = self.principal.scopes
        return scopes.allows(mode, tool.namespace) or scopes.allows("execute", tool.namespace)


def scope_of(principal: Principal) -> KeyScope | None:
    """None for whoever may do everything."""
    return None if principal is NOBODY else KeyScope(principal)


def meant(service: Service, request: Request, name: str) -> str:
    """The tool that a caller means by a name. What a bare name stands for is told only to who sees that tool."""
    names = service.names
    qualified = names.qualified(name)
    if request.principal is NOBODY or qualified == name:
        return qualified
    if KeyScope(request.principal).sees(names.snapshot.names[qualified][0].tool):
        return qualified
    return name


def given(value: T | UnsetType, default: T) -> T:
    """A field that may have been left out."""
    return default if value is UNSET else value


async def run_calls(
    service: Service,
    request: Caller,
    calls: Sequence[ToolCall],
    *,
    session_id: str | None = None,
    mode: Mode = "execute",
    timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for the whole
    context: Mapping[str, Any] = _NOTHING,
    trace: Mapping[str, Any] = _NOTHING,
    definitions: frozenset[str] | None = None,
    notify: Listener | None = None,
) -> list[ToolResult]:
    """Answer calls within the server's time limit and what the caller's key allows."""
    most = service.block.call_timeout
    began = time.perf_counter()
    results = await service.yard.tool_engine.arun(
        CallRequest(
            calls=calls,
            session_id=session_id,
            mode=mode,
            timeout=timeout,
            at_most=most,
            owner=request.principal.owner,
            context=context,
            trace=trace,
            definitions=definitions,
            scope=scope_of(request.principal),
            abandoned=request.abandoned,
            replay=True,
            notify=notify,
        )
    )
    _noted(service, request, mode, results, began)
    return results


def run_now(service: Service, request: Caller, call: ToolCall) -> ToolResult | None:
    """`run_calls` of one call for which nobody has to wait; None, and nothing was begun, for any other."""
    began = time.perf_counter()
    asked = CallRequest(
        calls=(call,),
        at_most=service.block.call_timeout,
        owner=request.principal.owner,
        scope=scope_of(request.principal),
        replay=True,
    )
    results = service.yard.tool_engine.run_now(asked)
    if results is None:
        return None
    _noted(service, request, "execute", results, began)
    return results[0]


def _noted(service: Service, request: Caller, mode: Mode, results: list[ToolResult], began: float) -> None:
    metrics = service.metrics
    if metrics is not None:
        seconds = (time.perf_counter() - began) / len(results)
        for result in results:
            metrics.call(result.name, mode, "ok" if result.error_info is None else result.error_info.code, seconds)
    request.tool = results[0].name[:_LOGGED] if len(results) == 1 else f"{len(results)} calls"


def as_object(value: Any) -> dict[str, Any]:
    """A result where a wire wants an object."""
    return value if type(value) is dict else {"result": value}


def details_of(info: ErrorInfo) -> dict[str, Any]:
    """All that an error says beyond code and message, for wires that have one place for it."""
    details = {key: value for key, value in info.details.items() if key != "violations"}
    if info.effect != "none":
        details["effect"] = info.effect
    if info.hint is not None:
        details["hint"] = info.hint
    if info.retry_after is not None:
        details["retry_after"] = info.retry_after
    return details


async def once(
    service: Service,
    request: Caller,
    key: str | None,
    digest: bytes,
    make: Callable[[], Awaitable[Response]],
    interrupted: Callable[[ErrorInfo], Response],
    *,
    tool_name: str | None = None,
) -> Response:
    """Answer a request that may come again: the first answer is kept, and given again.

    If the process died before it had an answer, a repeat is told so; only a tool that just reads is called again.
    """
    if key is None:
        return await make()
    repeatable = False
    if tool_name is not None:
        tools = service.yard.tool_registry.get(tool_name)
        repeatable = bool(tools) and all(tool.effects is Effects.READ for tool in tools)
    return await service.once.answer(
        request.principal.owner or "",
        key,
        digest,
        make,
        repeatable=repeatable,
        interrupted=lambda: interrupted(INTERRUPTED.info),
    )


INTERRUPTED = Interrupted(
    "the server stopped while this was under way; whether it took effect is not known",
    hint="find out before you ask for it again, with another id",
)


def idempotency_key(request: Request) -> str | None:
    """The header of that name, if it is given."""
    key = request.headers.get(b"idempotency-key")
    if key is None:
        return None
    if _KEY.fullmatch(key) is None:
        raise HttpFault(400, "request.invalid_http", "Idempotency-Key must be 1 to 512 ASCII characters without spaces")
    return f"header:{key.decode()}"
