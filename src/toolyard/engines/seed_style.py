"""An engine that overrides `execute` itself, made to answer one call at a time among others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from toolyard.calls.invocation import Invocation
from toolyard.engines.base import ToolEngine
from toolyard.model.call import ToolResult
from toolyard.model.errors import CallError, ToolFailed
from toolyard.model.tool import Tool
from toolyard.sessions.store import Key


class SeedStyle:
    """Stands in for such an engine on the call path: same limits, its own way of answering."""

    idempotent = False

    def __init__(self, engine: ToolEngine) -> None:
        self.engine = engine
        self.name = engine.name
        self.settings = engine.settings
        self.gates = engine.gates
        self.threads = engine.threads
        self._begun: set[Key] = set()

    def setup(self, key: Key, fork_of: Key | None) -> None:
        """Begin the engine's own session; a fork of its own too, if it knows what that is."""
        if fork_of is not None and type(self.engine).setup is ToolEngine.setup:
            self._begin(fork_of)
            self.engine.setup(_own_id(key), fork_of=_own_id(fork_of))
        else:
            self.engine.setup(_own_id(key))
        self._begun.add(key)

    def teardown(self, key: Key) -> None:
        """End it."""
        self._begun.discard(key)
        self.engine.teardown(_own_id(key))

    def _begin(self, key: Key) -> None:
        """A session that a store kept, and this engine did not, begins anew for it."""
        if key not in self._begun:
            with suppress(ValueError):  # it is there already
                self.engine.setup(_own_id(key))
            self._begun.add(key)

    def answer(self, invocation: Invocation) -> Any:
        """What the engine's own `execute`, or `simulate`, gives for this one call."""
        engine = self.engine
        self._begin(invocation.session.key)
        if engine._own_aexecute and not engine._own_execute:
            return self._awaited(invocation)
        ask = engine.execute if invocation.mode == "execute" else engine.simulate
        return _value(invocation, ask(_own_id(invocation.session.key), [invocation.call]))

    async def _awaited(self, invocation: Invocation) -> Any:
        ask = self.engine.aexecute if invocation.mode == "execute" else self.engine.asimulate
        return _value(invocation, await ask(_own_id(invocation.session.key), [invocation.call]))

    def simulator(self, tool: Tool) -> SeedStyle:
        """Its own `simulate` knows what to do."""
        return self

    def blocks(self, tool: Tool) -> bool:
        """A sync `execute` does."""
        return self.engine._own_execute


def _own_id(key: Key) -> str:
    """What the session is called in an engine that knows of no owners."""
    return f"{key.owner}::{key.session_id}" if key.owner else key.session_id


def _value(invocation: Invocation, results: Sequence[ToolResult]) -> Any:
    if len(results) != 1:
        raise ToolFailed(f"{invocation.engine_name} gave {len(results)} results for one call")
    result = results[0]
    if not result.is_error:
        return result.result
    error = CallError(result.error or "failed") if result.error_info is None else CallError(result.error_info.message)
    if result.error_info is not None:
        error.info = result.error_info
    raise error
