"""`Invoker`: runs calls from every wire on the engine, by the names of `ServedNames`, and shows their results."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from toolyard.app.toolyard import Toolyard
from toolyard.calls.batch import CallRequest, Listener
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.dialects.wire_names import read_wire_call
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import ApprovalError, Denied, ErrorInfo, Interrupted, UnknownToolError, ViolationFields
from toolyard.model.tool import Effects, Tool
from toolyard.parsing.json_text import json_decoder
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find_overloads
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.idempotency import Idempotency, KeyedRequest
from toolyard.serving.identity import NOBODY, Caller, Principal
from toolyard.serving.monitoring import Metrics
from toolyard.serving.query import digest_off_loop
from toolyard.serving.stored_answers import StoredAnswer

TOOL_ID = "tool_"

Sees = Callable[[Tool], bool]


class ServedNames:
    """The wire names of one snapshot. A tool id is `tool_` followed by the wire name."""

    def __init__(self, snapshot: Snapshot, domains: Iterable[str]) -> None:
        self.snapshot = snapshot
        enabled = set(domains)
        self._bare: dict[str, str] = {}
        self._spelt: dict[str, str] = {}
        for qualified, candidates in snapshot.names.items():
            tool = candidates[0].tool
            # If two domains share a tool name, the first gets the bare name. It must not hide another tool's wire name.
            taken = tool.name in self._bare or tool.name.replace("__", TOOL_NAMESPACE_SEP, 1) in snapshot.names
            if tool.namespace in enabled and not taken and not candidates[0].qualified_only:
                self._bare[tool.name] = qualified
                self._spelt[qualified] = tool.name

    def spell_name(self, qualified: str) -> str:
        """Return the name that listings show."""
        return self._spelt.get(qualified, qualified)

    def qualify_name(self, name: str) -> str:
        """Return the qualified name for the bare name of a domain's tool; any other name unchanged."""
        return self._bare.get(name, name)

    def read_call(self, call: ToolCall) -> ToolCall:
        """Return the call with the tool's qualified name, given any name that a listing has for it."""
        if call.name in self.snapshot.names:
            return call
        qualified = self._bare.get(call.name)
        return read_wire_call(self.snapshot, call) if qualified is None else replace(call, name=qualified)

    def find_name(self, name: str, sees: Sees | None = None) -> str | None:
        """Return the qualified name of the tool with this name in any spelling; None if there is none, or several.

        Tools for which `sees` is false are ignored.
        """
        for spelling in dict.fromkeys((self.read_call(ToolCall(name)).name, name)):
            try:
                return find_overloads(self.snapshot, spelling, sees=sees, hints=False)[0].tool.qualified_name
            except UnknownToolError:
                continue
        return None

    def find_id(self, tool_id: str, sees: Sees | None = None) -> str | None:
        """Return the qualified name for a tool id; None if there is none."""
        return self.find_name(tool_id[len(TOOL_ID) :], sees) if tool_id.startswith(TOOL_ID) else None

    def tool_id(self, qualified: str) -> str:
        """Return the tool id for a qualified name."""
        return TOOL_ID + self.spell_name(qualified)


class CurrentNames:
    """The wire names of the registry's current snapshot, computed again when that changes."""

    def __init__(self, registry: ToolRegistry, domains: Iterable[str]) -> None:
        self._registry = registry
        self._domains = tuple(domains)
        self._names = ServedNames(registry.snapshot, self._domains)

    @property
    def now(self) -> ServedNames:
        """The names of the current snapshot. Thread-safe."""
        # Work on local variables: another thread may replace `_names` with those of another snapshot meanwhile.
        snapshot, names = self._registry.snapshot, self._names
        if names.snapshot is not snapshot:
            names = self._names = ServedNames(snapshot, self._domains)
        return names


_NO_VALUES: Mapping[str, Any] = {}
_MAX_LOGGED_NAME = 200
_decode = json_decoder()
_KEY = re.compile(rb"[!-~]{1,512}")
_WAIT = re.compile(rb'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:[;,]|$)')
_INTERRUPTED = Interrupted(
    "the server stopped while this request was running; whether it took effect is not known",
    hint="check whether it took effect before you repeat it, with another id",
)


class Invoker:
    """Runs calls on the engine, within the server's time limit and the scopes of the caller's key."""

    def __init__(
        self,
        yard: Toolyard,
        names: CurrentNames,
        idempotency: Idempotency,
        metrics: Metrics | None,
        call_timeout: float,
    ) -> None:
        self._yard = yard
        self._names = names
        self._idempotency = idempotency
        self._metrics = metrics
        self._call_timeout = call_timeout
        self._waits: set[asyncio.Task[bool]] = set()

    def resolve_call(self, principal: Principal, call: ToolCall) -> ToolCall:
        """Return the call with its qualified tool name; unchanged if the caller may not see that tool."""
        names = self._names.now
        found = names.read_call(call)
        if principal is NOBODY or found.name == call.name:
            return found
        return found if principal.can_see(names.snapshot.names[found.name][0].tool) else call

    async def run_calls(
        self,
        caller: Caller,
        calls: Sequence[ToolCall],
        *,
        session_id: str | None = None,
        mode: Mode = "execute",
        timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for all together
        context: Mapping[str, Any] = _NO_VALUES,
        trace: Mapping[str, Any] = _NO_VALUES,
        definitions: frozenset[str] | None = None,
        notify: Listener | None = None,
    ) -> list[ToolResult]:
        """Run calls and return their results in order. If `caller.unfinished` is set, run only those that were held."""
        if caller.unfinished:
            calls = await self._list_held(caller, calls)
            if not calls:
                results, caller.unfinished = list(caller.unfinished), ()
                return results
        began = time.perf_counter()
        principal = caller.principal
        results = await self._yard.tool_engine.arun(
            CallRequest(
                calls=calls,
                session_id=session_id,
                mode=mode,
                timeout=timeout,
                at_most=self._call_timeout,
                owner=principal.key_id,
                keys=() if principal is NOBODY else principal.policy_keys,
                context=context,
                trace=trace,
                definitions=definitions,
                scope=None if principal is NOBODY else principal,
                abandoned=caller.abandoned,
                replay=True,
                notify=notify,
                request_id=caller.request_id or None,
            )
        )
        self._count(results, mode, time.perf_counter() - began)
        caller.tool = results[0].name[:_MAX_LOGGED_NAME] if len(results) == 1 else f"{len(results)} calls"
        error = results[0].error_info if len(results) == 1 else None
        caller.code = "" if error is None else error.code
        if caller.unfinished:
            answered = iter(results)
            results = [next(answered) if find_approval_id(result) else result for result in caller.unfinished]
        is_held = any(find_approval_id(result) for result in results if result.error_info is not None)
        caller.unfinished = tuple(results) if is_held else ()
        return results

    def _count(self, results: Sequence[ToolResult], mode: Mode, seconds: float) -> None:
        if self._metrics is not None:
            for result in results:
                code = "ok" if result.error_info is None else result.error_info.code
                self._metrics.count_call(result.name, mode, code, seconds / len(results))

    async def _list_held(self, caller: Caller, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the held calls, to run them again. Where the approval has expired, that becomes the call's result."""
        results, held = list(caller.unfinished), []
        for number, call in enumerate(calls):
            approval_id = find_approval_id(results[number])
            if approval_id is not None:
                try:
                    approval = await self._yard.tool_engine.approvals.aget(approval_id)
                except ApprovalError:  # deleted by now; run the call to get its current result
                    held.append(call)
                    continue
                if approval.state == "expired":
                    shown = {"id": approval_id, "state": "expired"}
                    why = f"{approval.tool} was not approved: {approval.state_words}"
                    hint = "repeat the call in a new request, with a new id if it had one, to ask for approval again"
                    failed = Denied(why, hint=hint, details={"approval": shown}).info
                    results[number] = ToolResult.failed(replace(call, name=results[number].name), failed)
                else:
                    held.append(call)
        caller.unfinished = tuple(results)
        return held

    async def run_idempotent(
        self,
        caller: Caller,
        key: str | None,
        about: Sequence[Any],
        make: Callable[[], Awaitable[Response]],
        interrupted: Callable[[ErrorInfo], Response],
        *,
        tool_name: str | None = None,
    ) -> Response:
        """Answer a request. With an idempotency key, the first answer is stored and replayed for repeats.

        `about` is what a repeat has in common with the first request: another request with the key is a conflict.
        If a process died before it had an answer, a repeat gets `interrupted`, or runs again if `tool_name` is a READ
        tool. An answer with held calls is not final: a repeat runs those again. With `Prefer: wait=N`, wait up to N
        seconds for the held calls to be decided before answering.
        """
        send = make
        if key is not None:
            send = partial(self._run_keyed, caller, key, await digest_off_loop(about), make, interrupted, tool_name)
        elif b"prefer" not in caller.headers:
            return await make()
        response = await send()
        seconds = min(read_wait_seconds(caller), self._call_timeout) if caller.unfinished else 0.0
        if seconds:
            until = time.monotonic() + seconds
            while caller.unfinished and await self._await_decisions(caller, until):
                response = await send()
            response.headers["preference-applied"] = f"wait={int(seconds)}"
        return response

    async def _run_keyed(
        self,
        caller: Caller,
        key: str,
        digest: bytes,
        make: Callable[[], Awaitable[Response]],
        interrupted: Callable[[ErrorInfo], Response],
        tool_name: str | None,
    ) -> Response:
        repeatable = False
        if tool_name is not None:
            tools = self._yard.tool_registry.get(tool_name)
            repeatable = bool(tools) and all(tool.effects is Effects.READ for tool in tools)

        async def make_stored() -> StoredAnswer:
            response = await make()
            unfinished = [result.to_dict() for result in caller.unfinished]
            return StoredAnswer.of(response, msgspec.json.encode(unfinished) if unfinished else b"")

        def resume(unfinished: bytes) -> None:
            caller.unfinished = tuple(map(ToolResult.from_dict, _decode(unfinished or b"[]")))

        answer = await self._idempotency.answer(
            KeyedRequest(
                owner=caller.principal.owner or "",
                key=key,
                digest=digest,
                make=make_stored,
                interrupted=lambda: StoredAnswer.of(interrupted(_INTERRUPTED.info)),
                repeatable=repeatable,
                resume=resume,
            )
        )
        # The answer may be from another request with the key.
        resume(answer.unfinished)
        return answer.to_response()

    async def _await_decisions(self, caller: Caller, until: float) -> bool:
        """Wait for decisions on the held calls, without a place; True if the calls should be sent again."""
        if caller.leave_place is not None:
            caller.leave_place()
        waiting = asyncio.ensure_future(self._await_each(caller.unfinished, until))
        self._waits.add(waiting)
        try:
            await asyncio.wait([waiting])
        finally:
            self._waits.discard(waiting)
            waiting.cancel()
        if waiting.cancelled() or not waiting.result() or (caller.is_gone is not None and await caller.is_gone()):
            return False
        if caller.take_place is not None:
            await caller.take_place()
        return True

    async def _await_each(self, results: Sequence[ToolResult], until: float) -> bool:
        decided = False
        for approval_id in filter(None, map(find_approval_id, results)):
            seconds = max(until - time.monotonic(), 0.0)
            approval = await self._yard.tool_engine.approvals.await_for(approval_id, seconds)
            decided = decided or approval.state != "pending"
        return decided

    def end_waits(self) -> None:
        """Stop waiting for decisions, because the server stops; those requests are answered with their held calls."""
        for waiting in self._waits:
            waiting.cancel()


def read_wait_seconds(caller: Caller) -> float:
    """Return the `wait` of the `Prefer` header in seconds, or 0."""
    found = _WAIT.search(caller.headers.get(b"prefer", b"").lower())
    return 0.0 if found is None else float(found[1])


def read_idempotency_key(caller: Caller) -> str | None:
    """Return the `Idempotency-Key` header, marked as from a header; None if there is none, 400 if it is malformed."""
    key = caller.headers.get(b"idempotency-key")
    if key is None:
        return None
    if _KEY.fullmatch(key) is None:
        raise HttpFault(400, "request.invalid_http", "Idempotency-Key must be 1 to 512 ASCII characters without spaces")
    return f"header:{key.decode()}"


def wrap_result(value: Any) -> dict[str, Any]:
    """Return a result as an object, for wires that need one; other values go under the key `result`."""
    return value if type(value) is dict else {"result": value}


def show_error(info: ErrorInfo, show_violation: Callable[[ViolationFields], Any]) -> dict[str, Any]:
    """Return an error as JSON for wires whose errors have a single field `details`; `issues` in it are the violations
    of a schema.
    """
    error: dict[str, Any] = {"code": info.code, "message": info.message, "retryable": info.retryable}
    violations = info.violations
    details = {key: value for key, value in info.details.items() if key != "violations" or not violations}
    if info.effect != "none":
        details["effect"] = info.effect
    if info.hint is not None:
        details["hint"] = info.hint
    if info.retry_after is not None:
        details["retry_after"] = info.retry_after
    if violations:
        details["issues"] = [show_violation(violation) for violation in violations]
    return {**error, "details": details} if details else error


def find_approval_id(result: ToolResult) -> str | None:
    """Return the id of the approval that a call is held for; None if it is not held."""
    return None if result.error_info is None else result.error_info.approval_id


def add_approval_url(result: ToolResult, find_base_url: Callable[[], str]) -> ToolResult:
    """Return the result of a held call with the absolute URL of its approval; any other result unchanged."""
    approval_id, info = find_approval_id(result), result.error_info
    if approval_id is None or info is None:
        return result
    path, base = f"/v1/approvals/{approval_id}", find_base_url()
    approval = {**info.details["approval"], "url": f"{base}{path}"}
    hint = None if info.hint is None else info.hint.replace(f" {path}", f" {base}{path}")
    return replace(result, error_info=replace(info, hint=hint, details={**info.details, "approval": approval}))


def make_approval_location(root: str, results: Sequence[ToolResult]) -> dict[str, str] | None:
    """Return a `Location` header for the approval of a held call; None if it is not held or there are several calls."""
    approval_id = find_approval_id(results[0]) if len(results) == 1 else None
    return None if approval_id is None else {"location": f"{root}/v1/approvals/{approval_id}"}
