"""`MultiToolEngine`: routes calls to several engines that share one history."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import chain, count
from typing import Any, TypeVar

from toolyard.calls.call_path import Answerer
from toolyard.calls.invocation import Invocation
from toolyard.engines.base import ToolEngine
from toolyard.engines.execute_override import OverridingEngine
from toolyard.model.errors import ConfigError, NoEngine, SessionError
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.sessions.session import Session
from toolyard.sessions.store.base import Key

K = TypeVar("K")


@register_tool_engine("multi")
class MultiToolEngine(ToolEngine):
    """Routes each call to the engine of the tool's namespace, its source, its binding, or to the default.

    `MultiToolEngine({namespace: engine})` answers with the tools that its engines have in these namespaces.
    Sessions belong to this engine: all engines share their history, batches keep their order, and each call obeys the
    limits of the engine that answers it.
    """

    type_name = "multi"

    def __init__(
        self,
        registry: ToolRegistry | Mapping[str, ToolEngine] | None = None,
        engines: Mapping[str, ToolEngine] | None = None,
        *,
        sources: Mapping[str, ToolEngine] | None = None,
        bindings: Mapping[type, ToolEngine] | None = None,
        default: ToolEngine | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(registry, Mapping):
            if engines is not None:
                raise ConfigError("engines are given twice: as the first argument and by name; give a registry first")
            registry, engines = None, registry
        self.engines = _check_engines(engines, "engines", str)
        self.sources = _check_engines(sources, "sources", str)
        self.bindings = _check_engines(bindings, "bindings", type)
        self.default = default
        _check_engines({"default": default} if default is not None else None, "default", str)
        super().__init__(_registry_of(self.engines) if registry is None else registry, **settings)
        named = [*self.engines.values(), *self.sources.values(), *self.bindings.values()]
        self._parts = _distinct_engines([*named, *([default] if default else [])])
        _number_names(self._answering_engines())
        for engine in self._parts:
            own = [part for part in engine.brought if part != "sessions" or engine.sessions is not self.sessions]
            if own:
                raise ConfigError(
                    f"engine {engine.name!r} has its own {' and '.join(own)}, which would not be used here; "
                    "give that to the multi engine"
                )
        for engine in self._answering_engines():
            self._take_in(engine)
        self._adapters = {id(e): OverridingEngine(e) for e in self._answering_engines() if e.overrides.answers_batches}
        self._some_need_sessions = any(engine._needs_sessions for engine in self._answering_engines())

    @property
    def _needs_sessions(self) -> bool:
        return self._some_need_sessions

    def first_states(self) -> dict[str, dict[str, Any]]:
        """The initial states of all engines."""
        return {name: state for engine in self._answering_engines() for name, state in engine.first_states().items()}

    def route(self, tool: Tool) -> Answerer:
        """The engine of the tool's namespace, else of its source, else of its binding, else the default."""
        engine = self._engine_of(tool)
        return self._adapters.get(id(engine), engine)

    def _engine_of(self, tool: Tool) -> ToolEngine:
        engine = (
            self.engines.get(tool.namespace)
            or self.sources.get(tool.source or "")
            or self.bindings.get(type(tool.binding))
            or self._engine_for(type(tool.binding))
            or self.default
        )
        if engine is None:
            known = ", ".join(sorted(self.engines)) or "none"
            raise NoEngine(
                f"no engine answers {tool.qualified_name}",
                hint=f"give its source an engine; routed namespaces: {known}",
            )
        return engine._engine_of(tool) if isinstance(engine, MultiToolEngine) else engine

    def takes(self, tool: Tool) -> bool:
        """True if the engine that the tool is routed to can execute it."""
        try:
            return self._engine_of(tool).takes(tool)
        except NoEngine:
            return False

    def _begin_own_sessions(self, session: Session, fork_of: str | None, at: int | None) -> None:
        """Begin sessions in the engines that keep their own, undoing all if one fails."""
        owner = session.key.owner or None
        with ExitStack() as undo:
            undo.callback(super().teardown, session.key.session_id, owner=owner)
            if at is not None and self._adapters:
                names = ", ".join(sorted(adapter.name for adapter in self._adapters.values()))
                raise SessionError(
                    f"sessions that {names} keeps by itself have no entries to go back to; fork without at"
                )
            for adapter in self._adapters.values():
                adapter.setup(session, None if fork_of is None else self.sessions.find(fork_of, owner))
                undo.callback(adapter.teardown, session.key)
            undo.pop_all()

    def teardown(self, session_id: str, *, owner: str | None = None) -> None:
        """End the shared session and those in engines that keep their own."""
        super().teardown(session_id, owner=owner)
        for adapter in self._adapters.values():
            adapter.teardown(Key(owner or "", session_id))

    def answer(self, invocation: Invocation) -> Any:
        """Route the call. Used only if this engine is called directly as part of another one."""
        return self.route(invocation.tool).answer(invocation)

    def _answering_engines(self) -> list[ToolEngine]:
        """The engines that calls are routed to, with nested multi engines replaced by theirs."""
        inside = [e._answering_engines() if isinstance(e, MultiToolEngine) else [e] for e in self._parts]
        return _distinct_engines([engine for engines in inside for engine in engines])


def _check_engines(given: Any, what: str, keyed_by: type[K]) -> dict[K, ToolEngine]:
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{what} must map {_KEYS[what]} to engines, not be {type(given).__name__}")
    for key, engine in (given or {}).items():
        if not isinstance(key, keyed_by) or not isinstance(engine, ToolEngine):
            raise ConfigError(f"{what}[{key!r}] must be an engine under {_KEYS[what]}, not {type(engine).__name__}")
    return dict(given or {})


_KEYS = {"engines": "namespaces", "sources": "sources", "bindings": "types of bindings", "default": "its name"}


def _registry_of(engines: Mapping[str, ToolEngine]) -> ToolRegistry:
    """The registry that all engines share; else a new one of each engine's current tools in its namespace."""
    registries = list({id(engine.tool_registry): engine.tool_registry for engine in engines.values()}.values())
    if len(registries) == 1:
        return registries[0]
    return ToolRegistry(
        tool for name, engine in engines.items() for tool in engine.tool_registry if tool.namespace == name
    )


def _distinct_engines(engines: list[ToolEngine]) -> list[ToolEngine]:
    return list({id(engine): engine for engine in engines}.values())


def _number_names(engines: list[ToolEngine]) -> None:
    """Number engines without an explicit name, in order, since names are the keys of their session state."""
    taken = {engine.name for engine in engines if engine.is_named}
    if len(taken) < sum(engine.is_named for engine in engines):
        names = [engine.name for engine in engines if engine.is_named]
        twin = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"two engines are both called {twin!r}; their state in a session would mix. Give them other names"
        )
    for engine in engines:
        if not engine.is_named:
            numbered = (f"{engine.type_name}-{number}" for number in count(2))
            engine.name = next(name for name in chain([engine.name], numbered) if name not in taken)
            taken.add(engine.name)
