"""`CassetteFixture`: the cassette to which the calls of one test are recorded, or from which they are played."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from toolyard.app.toolyard import Toolyard
from toolyard.calls.call_path import CallPath
from toolyard.engines import base
from toolyard.engines.base import ToolEngine
from toolyard.engines.cassette import Drift
from toolyard.engines.replay import ReplayMatch, ReplayMode, ReplayToolEngine
from toolyard.model.errors import ConfigError
from toolyard.model.tool import digest
from toolyard.pytest_plugin import MARK, install_recording
from toolyard.registry import ToolRegistry

T = TypeVar("T")

_UNFIT = re.compile(r"[^\w.-]+")
_SUFFIXES = (".jsonl", ".ndjson", ".yaml", ".yml")
_LONGEST = 100
"""Most bytes of a test's name in its cassette's file name."""


class MarkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the marker."""

    name: str | None = None
    config: str | None = None
    match: ReplayMatch = "arguments"
    repeat: bool = True


class CassetteFixture:
    """The cassette of one test. `mode` is "replay", or "record" with `--toolyard-record`."""

    def __init__(self, item: pytest.Item, config: pytest.Config) -> None:
        self.options = _read_options(item)
        self.mode: ReplayMode = "record" if config.getoption("--toolyard-record") else "replay"
        self.path = _cassette_path(item, str(config.getini("toolyard_cassettes")), self.options.name)
        self._config = config
        self._engines: list[ReplayToolEngine] = []
        self._replayers: dict[int, tuple[ToolEngine, ReplayToolEngine]] = {}
        """Engines that the test called directly, by `id`, with the replay engines that answer for them."""
        # The old cassette stays until the test has passed.
        self._recording = self.path.with_name(f".{self.path.stem}.{os.getpid()}.new{self.path.suffix}")
        if self.mode == "record":
            self._recording.unlink(missing_ok=True)

    def engine(self, engine: ToolEngine | None = None, registry: ToolRegistry | None = None) -> ReplayToolEngine:
        """An engine that records the given one, or plays the cassette instead; closed when the test ends."""
        if engine is None and registry is None:
            raise ConfigError("give the engine that is to be recorded, or a registry to play its calls for")
        tools = registry or (ToolRegistry() if engine is None else engine.tool_registry)
        shared: dict[str, Any] = {}
        if engine is not None:
            shared = {"policy": engine._path.policy, "redactor": engine._path.redactor}
        if self.mode == "record" and engine is None:
            pytest.fail("--toolyard-record needs an engine to record: toolyard_cassette.engine(engine)", pytrace=False)
        self._check_cassette()
        made = self._make_replayer(tools, engine, shared)
        self._engines.append(made)
        return made

    def _make_replayer(
        self, tools: ToolRegistry, engine: ToolEngine | None, shared: dict[str, Any]
    ) -> ReplayToolEngine:
        return ReplayToolEngine(
            tools,
            cassette=self._recording if self.mode == "record" else self.path,
            mode=self.mode,
            engine=engine if self.mode == "record" else None,
            match=self.options.match,
            repeat=self.options.repeat,
            **shared,
        )

    @contextmanager
    def route_all_engines(self) -> Iterator[None]:
        """Route the calls of all engines through the cassette within the block."""
        functions = {name: getattr(base, name) for name in _CALL_FUNCTIONS}
        for name, function in functions.items():
            setattr(base, name, partial(_CALL_FUNCTIONS[name], self, function))
        try:
            yield
        finally:
            for name, function in functions.items():
                setattr(base, name, function)

    @property
    def unused(self) -> bool:
        """True if no calls could have gone through the cassette so far."""
        return not self._engines and not self._replayers

    def divert_path(self, path: CallPath) -> CallPath:
        """The call path that sends an engine's calls through the cassette."""
        engine = path.root
        if not isinstance(engine, ToolEngine) or isinstance(engine, ReplayToolEngine):
            return path
        if id(engine) not in self._replayers:
            self._check_cassette()
            shared: dict[str, Any] = {"policy": path.policy, "redactor": path.redactor, "tracer": path.tracer}
            shared |= {"sessions": engine.sessions, "timeout": engine.settings.timeout}
            self._replayers[id(engine)] = (engine, self._make_replayer(engine.tool_registry, engine, shared))
        return self._replayers[id(engine)][1]._path

    def _check_cassette(self) -> None:
        if self.mode == "replay" and not self.path.exists():
            pytest.fail(f"no cassette {self.path}; record it with: pytest --toolyard-record", pytrace=False)

    @contextmanager
    def yard(self, config: str | Path | dict[str, Any]) -> Iterator[Toolyard]:
        """The yard of a config; its calls go through the cassette."""
        with Toolyard.from_config(config) as yard:
            yield Toolyard(yard.tool_registry, self.engine(yard.tool_engine))

    def describe_misses(self) -> list[str]:
        """Lines on calls so far that the cassette lacks or has for another definition of the tool."""
        return _drift_lines([msgspec.structs.replace(drift, never_played=[]) for drift in self._list_drifts()])

    def _list_drifts(self) -> list[Drift]:
        return [engine.drift() for engine in (*self._engines, *(replayer for _, replayer in self._replayers.values()))]

    def close(self, *, keep: bool) -> list[str]:
        """Close the engines, install the new cassette if `keep`, and return the lines about drift."""
        drifts = self._list_drifts()
        for made in self._engines:
            made.close()
        for engine, replayer in self._replayers.values():
            # The engine belongs to the test, which may go on using it: release it without closing it.
            engine.joined(engine)
            replayer.threads.close()
        if self.mode == "record":
            if keep and self._recording.exists():
                install_recording(self._recording, self.path, self._config)
            self._recording.unlink(missing_ok=True)
            return []
        return _drift_lines(drifts)


_IN_CASSETTE: ContextVar[bool] = ContextVar("toolyard_cassette", default=False)
"""True inside a call that goes through the cassette; nested calls are part of its result and are not diverted."""


@contextmanager
def _route_calls(fixture: CassetteFixture, path: CallPath) -> Iterator[CallPath]:
    if _IN_CASSETTE.get():
        yield path
        return
    token = _IN_CASSETTE.set(True)
    try:
        yield fixture.divert_path(path)
    finally:
        _IN_CASSETTE.reset(token)


def _divert_call(fixture: CassetteFixture, function: Callable[..., T], path: CallPath, *rest: Any) -> T:
    with _route_calls(fixture, path) as chosen:
        return function(chosen, *rest)


async def _adivert_call(
    fixture: CassetteFixture, function: Callable[..., Awaitable[T]], path: CallPath, *rest: Any
) -> T:
    with _route_calls(fixture, path) as chosen:
        return await function(chosen, *rest)


_CALL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "run_batch": _divert_call,
    "arun_batch": _adivert_call,
    "arun_request": _adivert_call,
}
"""The functions of `engines.base` through which every engine sends its calls to the call path."""


def _drift_lines(drifts: list[Drift]) -> list[str]:
    """Distinct lines; a recorded call counts as never played only if no engine of the test played it."""
    unplayed: list[list[Any]] = [drift.never_played for drift in drifts]
    never = [item for item in unplayed[0] if all(item in other for other in unplayed)] if unplayed else []
    found = [
        line
        for drift in drifts
        for line in msgspec.structs.replace(drift, never_played=never if drift is drifts[0] else []).lines()
    ]
    return list(dict.fromkeys(found))


def _read_options(item: pytest.Item) -> MarkOptions:
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return MarkOptions()
    given = {**dict(zip(("name",), mark.args, strict=False)), **mark.kwargs}
    if len(mark.args) > 1 or not given.keys() <= set(MarkOptions.__struct_fields__):
        raise pytest.UsageError(f"{item.nodeid}: {MARK} takes a name, config, match and repeat, not {given}")
    try:
        return msgspec.convert(given, MarkOptions)
    except msgspec.ValidationError as error:
        raise pytest.UsageError(f"{item.nodeid}: {MARK}: {error}") from None


def _cassette_path(item: pytest.Item, folder: str, name: str | None) -> Path:
    """The cassette's path beside the test file, named by the marker or the test."""
    if name is None:
        name = f"{item.path.stem}/{_file_name(item)}"
    suffix = "" if name.endswith(_SUFFIXES) else ".jsonl"
    return item.path.parent / folder / f"{name}{suffix}"


def _file_name(item: pytest.Item) -> str:
    """The test's name with its classes; a hash is added if it is too long or has characters unfit for file names."""
    name = ".".join([node.name for node in item.listchain() if isinstance(node, pytest.Class)] + [item.name])
    usual = _UNFIT.sub("-", name).strip("-")
    short = usual.encode()[:_LONGEST].decode(errors="ignore")
    if short == name.replace("[", "-").removesuffix("]") and not name.endswith(_SUFFIXES):
        return short
    return f"{short}-{digest(name)[:8]}"
