"""`CallTrace`: one call as tracing sees it, from beginning to end."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from toolyard.calls.events import CallEvent, Mode
from toolyard.calls.invocation import Invocation
from toolyard.calls.tracing import Tracer
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import Interrupted
from toolyard.model.tool import Tool
from toolyard.registry.bind import Bound
from toolyard.sessions.session import Session


class CallTrace:
    """Made only where somebody listens."""

    __slots__ = ("_began", "_bound", "_call", "_generation", "_mode", "_session", "_time", "_token", "_tracer")

    def __init__(self, tracer: Tracer, session: Session, call: ToolCall, mode: Mode) -> None:
        self._tracer = tracer
        self._session = session
        self._call = call
        self._mode = mode
        self._bound: Bound | None = None
        self._token: list[object] | None = None
        self._generation = 0
        self._time = time.time()
        self._began = time.perf_counter()

    def begin(self, tool: Tool, bound: Bound, generation: int) -> None:
        """The tool is known: open spans, so that what it does appears inside them."""
        self._bound = bound
        self._generation = generation
        self._token = self._tracer.begin(tool, self._call, self._session.key.session_id, self._mode)

    def end(self, invocation: Invocation | None, result: ToolResult) -> None:
        """Tell the sinks."""
        latency = time.perf_counter() - self._began
        info, bound, key = result.error_info, self._bound, self._session.key
        tool = None if bound is None else bound.tool
        stdout, stderr = (None if invocation is None else invocation.printed) or (None, None)
        event = CallEvent(
            time=self._time,
            latency=latency,
            mode=self._mode,
            session_id=key.session_id,
            name=self._call.name if tool is None else tool.qualified_name,
            call_id=self._call.call_id,
            owner=key.owner or None,
            seq=len(self._session.history),
            engine=None if invocation is None else invocation.engine_name,
            tool_version=None if tool is None else tool.version,
            definition_hash=None if tool is None else tool.definition_hash,
            generation=self._generation,
            result_bytes=None if invocation is None else invocation.result_bytes,
            coercions=0 if bound is None else len(bound.coercions),
            attempts=1 if invocation is None else invocation.attempt,
            code=None if info is None else info.code,
            error=None if info is None else info.message,
            effect=None if info is None else info.effect,
            stdout=stdout or None,
            stderr=stderr or None,
            notes=None if invocation is None else invocation.notes,
            arguments=self._arguments(),
            result=msgspec.UNSET if info is not None else result.result,
        )
        self._tracer.end(self._token, event)

    def _arguments(self) -> Any:
        """As they were sent: the tool may have changed its own."""
        if not self._tracer.tells_arguments:
            return msgspec.UNSET
        return self._call.arguments if self._bound is None else msgspec.json.decode(self._bound.sent)

    def cut(self, invocation: Invocation | None) -> None:
        """The call was cancelled, or could not be recorded."""
        begun = invocation is not None and invocation.begun
        info = Interrupted("the call was cancelled before it was answered", effect=None if begun else "none").info
        self.end(invocation, ToolResult.failed(self._call, info))
