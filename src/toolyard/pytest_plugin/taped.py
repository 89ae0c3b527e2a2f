"""`Taped`: where one test's calls are recorded to, or played from."""

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
from toolyard.engines.replay import ReplayMatch, ReplayMode, ReplayToolEngine
from toolyard.engines.replay.cassette import Drift
from toolyard.model.errors import ConfigError
from toolyard.model.tool import digest
from toolyard.pytest_plugin import MARK, put_in_place
from toolyard.registry import ToolRegistry

T = TypeVar("T")

_UNUSUAL = re.compile(r"[^\w.-]+")
_SUFFIXES = (".jsonl", ".ndjson", ".yaml", ".yml")
_LONGEST = 100
"""Bytes of a name that a file takes over from its test."""


class MarkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the marker says."""

    name: str | None = None
    config: str | None = None
    match: ReplayMatch = "arguments"
    repeat: bool = True


class Taped:
    """The cassette of one test. `mode` is "replay", or "record" with `--toolyard-record`."""

    def __init__(self, item: pytest.Item, config: pytest.Config) -> None:
        self.options = _read_options(item)
        self.mode: ReplayMode = "record" if config.getoption("--toolyard-record") else "replay"
        self.path = _cassette_path(item, str(config.getini("toolyard_cassettes")), self.options.name)
        self._config = config
        self._engines: list[ReplayToolEngine] = []
        self._fronts: dict[int, tuple[ToolEngine, ReplayToolEngine]] = {}
        """Engines that the test called by themselves, by their identity, and what answers in their place."""
        # The old one stays until the test has gone well.
        self._tape = self.path.with_name(f".{self.path.stem}.{os.getpid()}.new{self.path.suffix}")
        if self.mode == "record":
            self._tape.unlink(missing_ok=True)

    def engine(self, engine: ToolEngine | None = None, registry: ToolRegistry | None = None) -> ReplayToolEngine:
        """An engine that records the given one, or plays the cassette in its place; closed when the test ends."""
        if engine is None and registry is None:
            raise ConfigError("give the engine that is to be recorded, or a registry to play its calls for")
        tools = registry or (ToolRegistry() if engine is None else engine.tool_registry)
        shared: dict[str, Any] = {}
        if engine is not None:
            shared = {"policy": engine._path.policy, "redactor": engine._path.redactor}
        if self.mode == "record" and engine is None:
            pytest.fail("--toolyard-record needs an engine to record: toolyard_cassette.engine(engine)", pytrace=False)
        self._check_cassette()
        made = self._make_front(tools, engine, shared)
        self._engines.append(made)
        return made

    def _make_front(self, tools: ToolRegistry, engine: ToolEngine | None, shared: dict[str, Any]) -> ReplayToolEngine:
        return ReplayToolEngine(
            tools,
            cassette=self._tape if self.mode == "record" else self.path,
            mode=self.mode,
            engine=engine if self.mode == "record" else None,
            match=self.options.match,
            repeat=self.options.repeat,
            **shared,
        )

    @contextmanager
    def every_engine(self) -> Iterator[None]:
        """Within it, the calls of all engines go through the cassette, whoever made them."""
        doors = {name: getattr(base, name) for name in _DOORS}
        for name, door in doors.items():
            setattr(base, name, partial(_DOORS[name], self, door))
        try:
            yield
        finally:
            for name, door in doors.items():
                setattr(base, name, door)

    @property
    def unused(self) -> bool:
        """True if no engine's calls could go through the cassette so far."""
        return not self._engines and not self._fronts

    def divert_path(self, path: CallPath) -> CallPath:
        """The way through the cassette for the calls of an engine."""
        engine = path.root
        if not isinstance(engine, ToolEngine) or isinstance(engine, ReplayToolEngine):
            return path
        if id(engine) not in self._fronts:
            self._check_cassette()
            shared: dict[str, Any] = {"policy": path.policy, "redactor": path.redactor, "tracer": path.tracer}
            shared |= {"sessions": engine.sessions, "timeout": engine.settings.timeout}
            self._fronts[id(engine)] = (engine, self._make_front(engine.tool_registry, engine, shared))
        return self._fronts[id(engine)][1]._path

    def _check_cassette(self) -> None:
        if self.mode == "replay" and not self.path.exists():
            pytest.fail(f"no cassette {self.path}; record it with: pytest --toolyard-record", pytrace=False)

    @contextmanager
    def yard(self, config: str | Path | dict[str, Any]) -> Iterator[Toolyard]:
        """The yard of a config, its calls going through the cassette."""
        with Toolyard.from_config(config) as yard:
            yield Toolyard(yard.tool_registry, self.engine(yard.tool_engine))

    def find_moved(self) -> list[str]:
        """What was asked so far that the cassette does not have, or has of another definition."""
        return _drift_lines([msgspec.structs.replace(drift, never_played=[]) for drift in self._list_drifts()])

    def _list_drifts(self) -> list[Drift]:
        return [engine.drift() for engine in (*self._engines, *(front for _, front in self._fronts.values()))]

    def close(self, *, keep: bool) -> list[str]:
        """Close the engines, put the new cassette in its place if it is to be kept, and tell what has drifted."""
        drifts = self._list_drifts()
        for made in self._engines:
            made.close()
        for engine, front in self._fronts.values():
            # The engine is the test's own and may go on: it is let go of, and not closed.
            engine.joined(engine)
            front.threads.close()
        if self.mode == "record":
            if keep and self._tape.exists():
                put_in_place(self._tape, self.path, self._config)
            self._tape.unlink(missing_ok=True)
            return []
        return _drift_lines(drifts)


_ANSWERING: ContextVar[bool] = ContextVar("toolyard_taped", default=False)
"""True for what runs on behalf of a call that goes through the cassette: it is part of that call's answer."""


@contextmanager
def _choose_path(taped: Taped, path: CallPath) -> Iterator[CallPath]:
    if _ANSWERING.get():
        yield path
        return
    token = _ANSWERING.set(True)
    try:
        yield taped.divert_path(path)
    finally:
        _ANSWERING.reset(token)


def _divert_call(taped: Taped, door: Callable[..., T], path: CallPath, *rest: Any) -> T:
    with _choose_path(taped, path) as chosen:
        return door(chosen, *rest)


async def _adivert_call(taped: Taped, door: Callable[..., Awaitable[T]], path: CallPath, *rest: Any) -> T:
    with _choose_path(taped, path) as chosen:
        return await door(chosen, *rest)


_DOORS: dict[str, Callable[..., Any]] = {
    "run_batch": _divert_call,
    "arun_batch": _adivert_call,
    "arun_request": _adivert_call,
}
"""By these, and no other way, engines send their calls along the call path."""


def _drift_lines(drifts: list[Drift]) -> list[str]:
    """Every line once; what one engine of the test has played, another need not."""
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
    """Beside the test file, under the name that the marker gives or the test has."""
    if name is None:
        name = f"{item.path.stem}/{_file_name(item)}"
    suffix = "" if name.endswith(_SUFFIXES) else ".jsonl"
    return item.path.parent / folder / f"{name}{suffix}"


def _file_name(item: pytest.Item) -> str:
    """The test's own, with its classes; what a file's name cannot carry is told apart by a hash."""
    name = ".".join([node.name for node in item.listchain() if isinstance(node, pytest.Class)] + [item.name])
    usual = _UNUSUAL.sub("-", name).strip("-")
    short = usual.encode()[:_LONGEST].decode(errors="ignore")
    if short == name.replace("[", "-").removesuffix("]") and not name.endswith(_SUFFIXES):
        return short
    return f"{short}-{digest(name)[:8]}"
