"""Immutable snapshots of a registry, shared by all calls that began on them, and how they are built.

A `Part` holds the tools of one loader, or of `add`; an `Index` assembles parts in registration order.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from operator import is_
from types import MappingProxyType
from typing import Any

import msgspec

from toolyard.model.errors import (
    DefinitionError,
    DuplicateToolError,
    MalformedSource,
    SourceError,
    SourceUnavailable,
    ToolyardError,
)
from toolyard.model.names import qualify
from toolyard.model.report import LoadReport, Rejection, Rewrite, SourceReport, State, Warnings
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc
from toolyard.plugins import Loader
from toolyard.registry.prepared import PreparedTool
from toolyard.schema.admission import AdmittedTool, admit_tool

MAX_OVERLOADS = 256
"""Most overloads of one name. A call tries all of them, so each adds to the cost of every call."""


class Snapshot:
    """Tools, the overload index, artifacts, report and generation number. Immutable."""

    __slots__ = ("__dict__", "__weakref__", "names")

    def __init__(
        self,
        candidates: tuple[PreparedTool, ...] = (),
        names: Mapping[str, tuple[PreparedTool, ...]] | None = None,
        aliases: Mapping[str, str] | None = None,
        *,
        artifacts: Mapping[str, Any] | None = None,
        report: LoadReport | None = None,
        generation: int = 0,
    ) -> None:
        self.candidates = candidates
        self.names = names if names is not None else {}
        self.aliases = aliases if aliases is not None else {}
        self.artifacts: Mapping[str, Any] = MappingProxyType(dict(artifacts or {}))
        self.report = report or LoadReport()
        self.generation = generation

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool in registration order."""
        return tuple([candidate.tool for candidate in self.candidates])

    def with_artifacts(self, artifacts: Mapping[str, Any]) -> Snapshot:
        """A copy with other artifacts."""
        made = copy.copy(self)
        made.artifacts = MappingProxyType(dict(artifacts))
        return made

    @cached_property
    def bare_names(self) -> dict[str, tuple[str, ...]]:
        """Unqualified names and aliases to the qualified names they match."""
        bare: dict[str, list[str]] = {}
        for name, candidates in self.names.items():
            if not candidates[0].qualified_only:
                bare.setdefault(candidates[0].tool.name, []).append(name)
        for alias, name in self.aliases.items():
            owner = self.names[name][0]
            if not owner.qualified_only:
                bare.setdefault(alias[len(owner.tool.namespace) + 2 :], []).append(name)
        return {key: tuple(dict.fromkeys(names)) for key, names in bare.items()}

    def get(self, name: str) -> list[Tool]:
        """Every overload of a qualified name or alias in registration order; empty if unknown."""
        found = self.names.get(name) or self.names.get(self.aliases.get(name, ""), ())
        return [candidate.tool for candidate in found]


class Index:
    """A snapshot under construction. Rejects duplicates as they are added."""

    def __init__(self, base: Snapshot | None = None) -> None:
        self.candidates: list[PreparedTool] = list(base.candidates) if base else []
        self.names: dict[str, tuple[PreparedTool, ...]] = dict(base.names) if base else {}
        self.aliases: dict[str, str] = dict(base.aliases) if base else {}
        self._sources = self.candidates[-1].source_number + 1 if self.candidates else 0

    def add(self, candidates: Sequence[PreparedTool], *, skip_duplicates: bool = False) -> list[Rejection]:
        """Add candidates; a duplicate raises, or with `skip_duplicates` is left out and returned as a rejection."""
        rejected: list[Rejection] = []
        names, aliases, number = self.names, self.aliases, self._sources
        self._sources += 1
        for candidate in candidates:
            tool, candidate.source_number = candidate.tool, number
            name = f"{tool.namespace}::{tool.name}"
            if name not in names and not tool.aliases and name not in aliases:
                names[name] = (candidate,)
            elif not self._add_special(candidate, name, rejected, skip_duplicates):
                continue
            self.candidates.append(candidate)
        return rejected

    def _add_special(
        self, candidate: PreparedTool, name: str, rejected: list[Rejection], skip_duplicates: bool
    ) -> bool:
        """Add a tool that overloads another or involves aliases; False if it was left out."""
        tool = candidate.tool
        known = self.names.get(name, ())
        try:
            _refuse_duplicate(candidate, known, skip_duplicates)
            self._claim_aliases(tool, name)
        except DuplicateToolError as error:
            if not skip_duplicates:
                raise
            rejected.append(Rejection(candidate.origin, str(error), name, type(error).__name__))
            return False
        self.names[name] = (*known, candidate)
        return True

    def _claim_aliases(self, tool: Tool, name: str) -> None:
        if name in self.aliases:
            raise DuplicateToolError(f"duplicate tool: {name} is already an alias of {self.aliases[name]}")
        claims: dict[str, str] = {}
        for alias in tool.aliases:
            qualified = qualify(tool.namespace, alias)
            owner = self.aliases.get(qualified)
            if qualified in self.names or qualified == name:
                raise DuplicateToolError(f"alias {qualified} of {name} hides the tool of that name")
            if owner is not None and owner != name:
                raise DuplicateToolError(f"alias {qualified} of {name} already belongs to {owner}")
            claims[qualified] = name
        self.aliases.update(claims)

    def freeze(self, *, artifacts: Mapping[str, Any], report: LoadReport, generation: int) -> Snapshot:
        """The finished snapshot."""
        return Snapshot(
            tuple(self.candidates),
            MappingProxyType(self.names),
            MappingProxyType(self.aliases),
            artifacts=artifacts,
            report=report,
            generation=generation,
        )


def replace_candidates(
    names: Mapping[str, tuple[PreparedTool, ...]], old: Sequence[PreparedTool], new: Sequence[PreparedTool]
) -> Mapping[str, tuple[PreparedTool, ...]]:
    """The name index with each candidate of `old` replaced by the one at the same position in `new`."""
    instead = dict(zip(map(id, old), new, strict=True))
    return MappingProxyType({name: tuple([instead[id(one)] for one in found]) for name, found in names.items()})


def _refuse_duplicate(candidate: PreparedTool, known: Sequence[PreparedTool], skips: bool) -> None:
    tool = candidate.tool
    if len(known) >= MAX_OVERLOADS:
        raise DuplicateToolError(f"{tool.qualified_name} has more than {MAX_OVERLOADS} overloads; give them names")
    for other in known:
        if other.tool.fingerprint == tool.fingerprint:
            remedy = "give one source another namespace, or leave out what comes later by `on_duplicate: skip`"
            if other.origin != candidate.origin:
                origins = f"{other.origin} and {candidate.origin}"
            elif tool.source is not None and other.source_number != candidate.source_number:
                origins = f"{tool.source}: sources [{other.source_number}] and [{candidate.source_number}]"
            else:
                origins, remedy = f"both {candidate.origin}", "give one of them another name"
            raise DuplicateToolError(
                f"duplicate tool: {tool.qualified_name} with identical input schema registered twice ({origins}); "
                f"{'the first is kept' if skips else remedy}"
            )


DIRECT = "added in code"
_log = logging.getLogger(__name__)


class Part(msgspec.Struct, frozen=True):
    """The tools of one loader, or of consecutive `add`s."""

    candidates: tuple[PreparedTool, ...]
    report: SourceReport
    loader: Loader | None = None


def read_tools(tools: Iterable[Tool]) -> Part:
    """A part for tools passed from code; any invalid one raises."""
    candidates: list[PreparedTool] = []
    rewrites: list[Rewrite] = []
    with paused_gc():
        for tool in tools:
            admitted, changes = admit_tool(tool, copied=True)
            candidates.append(PreparedTool(admitted))
            rewrites.extend(changes)
    return _direct_part(candidates, rewrites)


def _direct_part(candidates: Sequence[PreparedTool], rewrites: Sequence[Rewrite]) -> Part:
    warnings = Warnings((), [candidate.tool for candidate in candidates])
    return Part(tuple(candidates), SourceReport(DIRECT, len(candidates), tuple(rewrites), warnings=warnings))


def join_parts(first: Part, second: Part) -> Part:
    """Merge two parts made by `read_tools`."""
    return _direct_part((*first.candidates, *second.candidates), (*first.report.rewrites, *second.report.rewrites))


def prepare_loaders(loaders: Iterable[Loader]) -> None:
    """Let all sources start to connect concurrently, so that one that hangs does not delay the others."""
    for loader in loaders:
        prepare = getattr(loader, "prepare", None)
        if prepare is not None:
            prepare()


def read_loaders(loaders: Sequence[Loader]) -> list[Part]:
    """Run every loader. One that cannot reach its server, and will retry by itself, does not stop the others.

    It is listed as failed. Its error is raised only if no other source could be loaded either.
    """
    parts: list[Part] = []
    unreached: list[SourceUnavailable] = []
    for loader in loaders:
        try:
            parts.append(read_loader(loader))
        except SourceUnavailable as error:
            if not getattr(loader, "comes_back", False):
                raise
            unreached.append(error)
            parts.append(failed_part(loader, error))
    if unreached and len(unreached) == len(parts):
        raise unreached[0]
    for missing in unreached:
        _log.warning("a source cannot be reached and is left out for now: %s", missing)
    return parts


def read_loader(loader: Loader, before: Part | None = None) -> Part:
    """Run a loader and admit its tools under its `on_error` policy. Unexpected exceptions become `SourceError`.

    Prepared data of tools that are unchanged since `before` is kept.
    """
    try:
        tools = list(loader.load())
    except (ToolyardError, OSError):
        raise
    except (Exception, SystemExit) as error:
        # A module may call sys.exit() on import; that fails the source, not the program.
        raise SourceError(f"{loader.source}: {type(error).__name__} while loading: {error}") from error
    admitted, rewrites, rejected = _admit_all(loader, tools)
    known = {} if before is None else {id(candidate.tool): candidate for candidate in before.candidates}
    candidates = [known.get(id(entry.tool)) or PreparedTool(entry) for entry in admitted]
    report = loader.report
    full = SourceReport(
        source=loader.source,
        loaded=len(candidates),
        rewrites=(*report.rewrites, *rewrites),
        rejected=(*report.rejected, *rejected),
        warnings=_warn_about(report, candidates),
    )
    return Part(tuple(candidates), full, loader)


def _warn_about(report: SourceReport, candidates: Iterable[PreparedTool]) -> Warnings:
    """The source's own warnings, and those about its tools, computed on first access."""
    given = report.warnings.given if isinstance(report.warnings, Warnings) else report.warnings
    return Warnings(given, [candidate.tool for candidate in candidates])


def _admit_all(loader: Loader, tools: list[Tool]) -> tuple[list[AdmittedTool], list[Rewrite], list[Rejection]]:
    # Loaders that admit entries themselves have done this already.
    checked: Sequence[AdmittedTool] = getattr(loader, "admitted", ())
    if len(checked) == len(tools) and all(map(is_, tools, [entry.tool for entry in checked])):
        return list(checked), [], []
    known = {id(entry.tool): entry for entry in checked}
    admitted: list[AdmittedTool] = []
    rewrites: list[Rewrite] = []
    rejected: list[Rejection] = []
    for tool in tools:
        entry = known.get(id(tool))
        changes: tuple[Rewrite, ...] = ()
        try:
            if entry is None:
                if isinstance(tool, Tool) and tool.source is None:
                    tool = tool.replace(source=loader.source)
                entry, changes = admit_tool(tool)
        except DefinitionError as error:
            if getattr(loader, "on_error", "raise") != "skip":
                raise MalformedSource(str(error), where=loader.source) from error
            name = tool.name if isinstance(tool, Tool) else None
            rejected.append(Rejection(loader.source, str(error), name, type(error).__name__))
            continue
        admitted.append(entry)
        rewrites.extend(changes)
    return admitted, rewrites, rejected


def failed_part(loader: Loader, error: ToolyardError | OSError) -> Part:
    """The empty part of a source that never loaded; `refresh` tries it again."""
    return Part((), SourceReport(loader.source, state="failed", error=str(error)), loader)


def mark_stale(part: Part, error: ToolyardError | OSError) -> Part:
    """The part with its last good tools, marked as stale; as failed if it never loaded."""
    state: State = "failed" if part.report.state == "failed" else "stale"
    report = msgspec.structs.replace(part.report, state=state, error=str(error))
    return msgspec.structs.replace(part, report=report)


def remove_tools(part: Part, names: Set[str]) -> Part:
    """The part without the tools of these qualified names."""
    kept = tuple(c for c in part.candidates if c.tool.qualified_name not in names)
    if len(kept) == len(part.candidates):
        return part
    report = msgspec.structs.replace(part.report, loaded=len(kept), warnings=_warn_about(part.report, kept))
    return msgspec.structs.replace(part, candidates=kept, report=report)
