"""`CallPath`: the one way a call takes, in the order in which it is written here.

    bind -> policy -> engine -> output check -> record -> trace

The only place where an exception becomes a `ToolResult`. `invoke` and `ainvoke` are the same steps; one waits in
the caller's thread, the other lets the loop go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from toolyard.calls.answer import Answerer, aanswer, answer, awaited
from toolyard.calls.batch import Batch, Root, check_calls, check_thread
from toolyard.calls.discretion import is_own_exception, told_discreetly
from toolyard.calls.faults.plan import FaultPlan
from toolyard.calls.invocation import Invocation
from toolyard.calls.outcome import check_output, kept_changes, plain_answer, plain_content
from toolyard.calls.policy import Policy
from toolyard.calls.quick import QuickAnswers
from toolyard.calls.recorder import Recorder
from toolyard.calls.redact import Redactor
from toolyard.calls.scope import bind_within, check_known
from toolyard.calls.tracing import Tracer
from toolyard.calls.trail import Trail
from toolyard.calls.writable import bounded_info, check_writable, writable_call, writable_info
from toolyard.loop.threads import Threads, wrapped
from toolyard.model.bindings import ScriptBinding
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.content import Content
from toolyard.model.errors import CallError, ErrorInfo, SessionError, Unavailable
from toolyard.model.tool import Effects, Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import Bound, bind
from toolyard.registry.invoke import failure_of
from toolyard.sessions.entry import any_call_text, call_text, entry_text, interrupted, read_entry, result_text
from toolyard.sessions.session import Session
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.state import Changes

_log = logging.getLogger(__name__)

_CANCELLED = "the call was cancelled before it was answered"
_NO_CHANGES: Changes = {}
_ASKED_AT_ONCE = 64


def _who_answers(batch: Batch, tool: Tool) -> Answerer:
    engine = batch.root.route(tool)
    return engine.simulator(tool) if batch.mode == "simulate" else engine


def _faults(batch: Batch, engine: Answerer, tool: Tool) -> FaultPlan | None:
    """The plan of whoever would execute the call, also where another simulates it; else that of all of them."""
    planned = engine if batch.mode == "execute" else batch.root.route(tool)
    return planned.settings.faults or batch.root.settings.faults


class CallPath:
    """Registry, sessions, policy and tracing of one application, in the order calls meet them."""

    def __init__(
        self,
        registry: ToolRegistry,
        sessions: Sessions,
        *,
        policy: Policy | None = None,
        tracer: Tracer | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.registry = registry
        self.sessions = sessions
        self.policy = policy if policy is not None and not policy.trivial else None
        self.tracer = tracer if tracer is not None and tracer.active else None
        self.redactor = redactor or Redactor()
        self.quiet = self.policy is None and self.tracer is None and sessions.ttl is None
        """True if a call in memory needs nothing but to be answered and appended."""
        self.discreet = False
        """True: what a tool's own exception says goes to the log, and callers are told where to find it there."""
        self.quick_answers = QuickAnswers(self, None, None)
        # Threads of their own: people who think it over must not keep tools from running.
        self._asking = Threads(_ASKED_AT_ONCE, "toolyard-approver")
        self.recorder = Recorder(sessions, counting=policy is not None and policy.counts_calls)

    def close(self) -> None:
        """Let go of threads."""
        self._asking.close()

    def invoke(self, batch: Batch, call: ToolCall) -> ToolResult:
        """Answer one call in a session whose turn the caller has; a failure is a result too."""
        session, invocation, announced = batch.session, None, False
        trail = None if self.tracer is None else Trail(self.tracer, batch.session, call, batch.mode)
        try:
            invocation = self._begin(batch, call, trail)
            engine = _who_answers(batch, invocation.tool)
            if session.durable and invocation.tool.effects is not Effects.READ:
                self.recorder.announce(session, call_text(call, invocation.bound.sent))
                announced = True
            value = answer(engine, invocation, _faults(batch, engine, invocation.tool))
            result, entry, changes = self._success(engine, invocation, value)
        except CallError as error:
            result, entry = self._failure(call, batch.bound, invocation, error)
            changes = _NO_CHANGES
        except BaseException:
            if invocation is not None and invocation.begun:
                self._interrupted(batch, invocation, trail)
            else:
                _cut(trail, invocation)
                if announced:
                    self.recorder.withdraw(session)
            raise
        if invocation is not None and invocation.left_behind is not None:
            self._leave_behind(batch, invocation)
        try:
            self.recorder.record(session, entry, changes, invocation)
        except BaseException:
            _cut(trail, invocation)
            raise
        if trail is not None:
            trail.end(invocation, result)
        return result

    def renew_quick_answers(self, root: Root) -> QuickAnswers:
        """Begin to find short ways anew: the registry has changed."""
        self.quick_answers = answers = QuickAnswers(self, self.registry.snapshot, root)
        return answers

    def invoke_here(self, root: Root, session: Session, call: ToolCall) -> ToolResult:
        """`invoke` for a call that cannot go the short way after all."""
        check_calls((call,))
        check_thread(session.mode)
        batch = Batch(session, (call,), session.mode, None, {})
        batch.root, batch.snapshot = root, self.quick_answers.snapshot or self.registry.snapshot
        return self.invoke(batch, call)

    def finish(
        self, root: Root, session: Session, call: ToolCall, bound: Bound, outcome: Any, *, failed: bool = False
    ) -> ToolResult:
        """The rest of `invoke` for a call that the short way began: `outcome` is what it returned, or raised."""
        engine: Answerer = root.route(bound.tool)
        invocation = Invocation(
            bound.tool, bound.arguments, call, session.mode, None, 1, engine.name, bound, session, begun=True
        )
        try:
            if failed:
                raise failure_of(bound.tool, outcome)
            result, entry, changes = self._success(engine, invocation, awaited(invocation, outcome))
        except CallError as error:
            result, entry = self._failure(call, bound, invocation, error)
            changes = _NO_CHANGES
        except BaseException:
            batch = Batch(session, (call,), session.mode, None, {})
            self._interrupted(batch, invocation, None)
            raise
        self.recorder.record(session, entry, changes, invocation)
        return result

    async def ainvoke(self, batch: Batch, call: ToolCall) -> ToolResult:
        """`invoke` for a task. Cancelled, it records what was begun before it lets go."""
        session, invocation, announced = batch.session, None, False
        trail = None if self.tracer is None else Trail(self.tracer, batch.session, call, batch.mode)
        try:
            asks = self.policy is not None and self.policy.asks
            invocation = await self._abegin(batch, call, trail) if asks else self._begin(batch, call, trail)
            engine = _who_answers(batch, invocation.tool)
            if session.durable and invocation.tool.effects is not Effects.READ:
                await self.recorder.aannounce(session, call_text(call, invocation.bound.sent))
                announced = True
            value = await aanswer(engine, invocation, _faults(batch, engine, invocation.tool))
            result, entry, changes = self._success(engine, invocation, value)
        except CallError as error:
            result, entry = self._failure(call, batch.bound, invocation, error)
            changes = _NO_CHANGES
        except BaseException:
            if invocation is not None and invocation.begun:
                await self._ainterrupted(batch, invocation, trail)
            else:
                _cut(trail, invocation)
                if announced:
                    await self.recorder.awithdraw(session)
            raise
        if invocation is not None and invocation.left_behind is not None:
            self._leave_behind(batch, invocation)
        cancelled: BaseException | None = None
        if session.kept:
            try:
                cancelled = await self.recorder.arecord(session, entry, changes, invocation)
            except BaseException:
                _cut(trail, invocation)
                raise
        if trail is not None:
            trail.end(invocation, result)
        if cancelled is not None:
            raise cancelled
        return result

    def _leave_behind(self, batch: Batch, invocation: Invocation) -> None:
        """Work that goes on keeps the session, unless the engine it belongs to lets it go."""
        if batch.abandoned is not None and invocation.left_behind is not None:
            batch.abandoned.append(invocation.left_behind)
        if invocation.held:
            batch.left_behind = invocation.left_behind

    def _begin(self, batch: Batch, call: ToolCall, trail: Trail | None) -> Invocation:
        """Bind, route and ask the policy."""
        if batch.left_behind is not None and not batch.left_behind.done():
            raise Unavailable(
                "an earlier call of this session is still running past its deadline, so this one was not begun",
                hint="send it again later, or use another session",
            )
        session, batch.bound = batch.session, None
        if call.call_id is not None:
            check_writable(call.call_id)
        batch.bound = bound = (
            bind(batch.snapshot, call) if batch.scope is None else bind_within(batch, call, batch.scope)
        )
        tool = bound.tool
        if trail is not None:
            trail.begin(tool, bound, batch.snapshot.generation)
        if batch.definitions is not None:
            check_known(tool, batch.definitions)
        engine = _who_answers(batch, tool)
        if self.policy is not None:
            self.policy.check(
                tool,
                session_id=session.key.session_id,
                arguments=bound.arguments,
                counts=self.recorder.counts(session, self.registry.snapshot),
                mode=batch.mode,
            )
        timeout = engine.settings.timeout if batch.timeout is None else batch.timeout
        if type(tool.binding) is ScriptBinding and tool.binding.timeout is not None:
            # A script says itself how long it may take; others may only shorten that.
            timeout = tool.binding.timeout if timeout is None else min(timeout, tool.binding.timeout)
        timeout = batch.within(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        return Invocation(
            tool,
            bound.arguments,
            call,
            batch.mode,
            deadline,
            1,
            engine.name,
            bound,
            session,
            batch.context,
            batch.trace,
            None if batch.notify is None else partial(batch.notify, call),
            held=engine.settings.abandoned == "hold",
        )

    async def _abegin(self, batch: Batch, call: ToolCall, trail: Trail | None) -> Invocation:
        # Somebody will be asked, and takes the time people take.
        return await wrapped(self._asking.submit(lambda: self._begin(batch, call, trail)))

    def _success(self, engine: Answerer, invocation: Invocation, value: Any) -> tuple[ToolResult, bytes, Changes]:
        settings, call, bound = engine.settings, invocation.call, invocation.bound
        metadata: dict[str, Any] = {}
        if type(value) is Content:
            value, metadata = plain_content(value, invocation, settings.max_result_bytes)
        plain, text = plain_answer(value, invocation, settings.max_result_bytes)
        invocation.result_bytes = len(text)
        if bound.coercions:
            metadata["coercions"] = [coercion.to_dict() for coercion in bound.coercions]
        if invocation.attempt > 1:
            metadata["attempts"] = invocation.attempt
        if invocation.fault is not None:
            metadata["fault"] = invocation.fault.told
        if invocation.tool.output_parameters:
            violations = check_output(plain, invocation, settings)
            if violations:
                metadata["output_violations"] = violations
        changes = _NO_CHANGES if invocation.kept is None else kept_changes(invocation)
        result = ToolResult(call.call_id, bound.tool.qualified_name, plain, None, metadata, None, call.overload)
        if not invocation.session.kept:
            return result, b"", changes
        return result, entry_text(call_text(call, bound.sent), result_text(result, text)), changes

    def _failure(
        self, call: ToolCall, bound: Bound | None, invocation: Invocation | None, error: CallError
    ) -> tuple[ToolResult, bytes]:
        info = error.info
        if self.discreet and bound is not None and is_own_exception(error):
            info = told_discreetly(error, bound.tool, self.redactor)
        info = self._redacted(bounded_info(info))
        if invocation is not None and invocation.tool.effects is Effects.READ:
            # What only reads has changed nothing, however it failed.
            info = msgspec.structs.replace(info, effect="none")
        metadata: dict[str, Any] = {}
        if bound is not None and bound.coercions:
            metadata["coercions"] = [coercion.to_dict() for coercion in bound.coercions]
        if invocation is not None and invocation.attempt > 1:
            metadata["attempts"] = invocation.attempt
        if invocation is not None and invocation.fault is not None:
            metadata["fault"] = invocation.fault.told
        try:
            result = ToolResult.failed(call, info, **metadata)
            if bound is not None:
                # Whatever it was called, this is the tool that was meant.
                result = msgspec.structs.replace(result, name=bound.tool.qualified_name)
            sent = any_call_text(call) if bound is None else call_text(call, bound.sent)
            return result, entry_text(sent, result_text(result, b"null"))
        except (TypeError, ValueError, RecursionError):
            # Half of a surrogate pair, or details of a tool's own that are no JSON: no store can keep that.
            result = ToolResult.failed(writable_call(call), writable_info(info), **metadata)
            return result, entry_text(any_call_text(writable_call(call)), result_text(result, b"null"))

    def _redacted(self, info: ErrorInfo) -> ErrorInfo:
        text, value = self.redactor.text, self.redactor.value
        return msgspec.structs.replace(
            info,
            message=text(info.message),
            hint=None if info.hint is None else text(info.hint),
            details=value(info.details) if info.details else info.details,
        )

    def _interruption(self, batch: Batch, invocation: Invocation) -> bytes:
        self._leave_behind(batch, invocation)
        entry = interrupted(call_text(invocation.call, invocation.bound.sent), _CANCELLED)
        batch.cut_off = (invocation.call, read_entry(entry).tool_output)
        return entry

    def _interrupted(self, batch: Batch, invocation: Invocation, trail: Trail | None) -> None:
        entry = self._interruption(batch, invocation)
        with self._not_losing_the_interruption(batch):
            self.recorder.record(batch.session, entry, _NO_CHANGES, invocation)
        _cut(trail, invocation)

    @contextmanager
    def _not_losing_the_interruption(self, batch: Batch) -> Iterator[None]:
        """A store that fails now must not take the place of what stops the caller; the intent is in it already."""
        try:
            yield
        except SessionError as error:
            _log.warning("session %s: a cancelled call could not be recorded: %s", batch.session.key.session_id, error)

    async def _ainterrupted(self, batch: Batch, invocation: Invocation, trail: Trail | None) -> None:
        entry = self._interruption(batch, invocation)
        with self._not_losing_the_interruption(batch):
            await self.recorder.arecord(batch.session, entry, _NO_CHANGES, invocation)
        _cut(trail, invocation)


def _cut(trail: Trail | None, invocation: Invocation | None) -> None:
    """No result came of the call; whoever listens must hear of its end all the same."""
    if trail is not None:
        trail.cut(invocation)
