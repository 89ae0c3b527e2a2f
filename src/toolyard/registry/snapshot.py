"""The registry at one moment: complete, immutable, and shared by every call that began on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from toolyard.model.errors import DuplicateToolError
from toolyard.model.names import qualify
from toolyard.model.report import LoadReport, Rejection
from toolyard.model.tool import Tool
from toolyard.registry.prepared import PreparedTool

MAX_OVERLOADS = 256
"""A call tries every overload of its name, so their number is a cost on each call."""


class Snapshot:
    """Tools, the overload index, artifacts and a generation number. Never changed."""

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
        """The same tools, about which other things are known."""
        made = Snapshot(
            self.candidates,
            self.names,
            self.aliases,
            artifacts=artifacts,
            report=self.report,
            generation=self.generation,
        )
        made.__dict__["tools"] = self.tools
        return made

    @cached_property
    def bare_names(self) -> dict[str, tuple[str, ...]]:
        """Unqualified names and aliases -> the qualified names they may mean."""
        bare: dict[str, list[str]] = {}
        for name, candidates in self.names.items():
            tool = candidates[0].tool
            bare.setdefault(tool.name, []).append(name)
        for alias, name in self.aliases.items():
            namespace = self.names[name][0].tool.namespace
            bare.setdefault(alias[len(namespace) + 2 :], []).append(name)
        return {key: tuple(dict.fromkeys(names)) for key, names in bare.items()}

    def get(self, name: str) -> list[Tool]:
        """Every overload of a qualified name or alias in registration order; empty if unknown."""
        found = self.names.get(name) or self.names.get(self.aliases.get(name, ""), ())
        return [candidate.tool for candidate in found]


class Index:
    """A snapshot under construction: names and aliases, with duplicates refused as they come."""

    def __init__(self, base: Snapshot | None = None) -> None:
        self.candidates: list[PreparedTool] = list(base.candidates) if base else []
        self.names: dict[str, tuple[PreparedTool, ...]] = dict(base.names) if base else {}
        self.aliases: dict[str, str] = dict(base.aliases) if base else {}

    def add(self, candidates: Sequence[PreparedTool], *, skip_duplicates: bool = False) -> list[Rejection]:
        """Take in candidates; a duplicate raises, or is left out and returned as a rejection."""
        rejected: list[Rejection] = []
        names, aliases = self.names, self.aliases
        for candidate in candidates:
            tool = candidate.tool
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
        """A tool that overloads another, or that aliases are about; False if it was left out."""
        tool = candidate.tool
        known = self.names.get(name, ())
        try:
            _refuse_twin(candidate, known)
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


def renewed(
    names: Mapping[str, tuple[PreparedTool, ...]], old: Sequence[PreparedTool], new: Sequence[PreparedTool]
) -> Mapping[str, tuple[PreparedTool, ...]]:
    """The same names for new candidates, each in the place of an old one."""
    instead = dict(zip(map(id, old), new, strict=True))
    return MappingProxyType({name: tuple([instead[id(one)] for one in found]) for name, found in names.items()})


def _refuse_twin(candidate: PreparedTool, known: Sequence[PreparedTool]) -> None:
    tool = candidate.tool
    if len(known) >= MAX_OVERLOADS:
        raise DuplicateToolError(f"{tool.qualified_name} has more than {MAX_OVERLOADS} overloads; give them names")
    for other in known:
        if other.tool.fingerprint == tool.fingerprint:
            raise DuplicateToolError(
                f"duplicate tool: {tool.qualified_name} with identical input schema registered twice "
                f"({other.origin} and {candidate.origin})"
            )
