"""Small wrappers around any source: leave tools out, rename them, move them to another namespace.

FilterToolLoader(FileToolLoader("all.yaml"), include=["weather_api::*"], exclude=["*::delete_*"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from toolyard.model.errors import ConfigError
from toolyard.model.report import SourceReport
from toolyard.model.tool import Tool
from toolyard.registry.candidate import Candidate
from toolyard.sources.base import ToolLoader


class WrappedToolLoader(ToolLoader):
    """A source that changes what another one gives; policies and connections stay the inner one's."""

    def __init__(self, inner: ToolLoader) -> None:
        self.inner = inner
        self.on_error = inner.on_error
        self.on_duplicate = inner.on_duplicate

    def load(self) -> list[Tool]:
        """The inner source's tools, changed."""
        return self.change(self.inner.load())

    async def aload(self) -> list[Tool]:
        """The inner source's tools, changed."""
        return self.change(await self.inner.aload())

    def change(self, tools: list[Tool]) -> list[Tool]:
        """What this wrapper does; override it."""
        return tools

    @property
    def source(self) -> str:
        """The inner source's name."""
        return self.inner.source

    @property
    def report(self) -> SourceReport:
        """The inner source's report."""
        return self.inner.report

    @property
    def admitted(self) -> Sequence[Candidate]:  # type: ignore[override]
        """The inner source's; tools this wrapper left alone need no second check."""
        return self.inner.admitted

    def close(self) -> None:
        """Close the inner source."""
        self.inner.close()


class FilterToolLoader(WrappedToolLoader):
    """Keeps the tools whose qualified name matches, by glob; a choice, so nothing is reported as lost."""

    def __init__(self, inner: ToolLoader, *, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()) -> None:
        super().__init__(inner)
        self.include = _globs(include, "include")
        self.exclude = _globs(exclude, "exclude")

    def change(self, tools: list[Tool]) -> list[Tool]:
        """The tools that match `include` and not `exclude`."""
        return [tool for tool in tools if self._keeps(tool.qualified_name)]

    def _keeps(self, name: str) -> bool:
        return any(fnmatchcase(name, g) for g in self.include) and not any(fnmatchcase(name, g) for g in self.exclude)


class RenameToolLoader(WrappedToolLoader):
    """Gives tools other names: `{"old": "new"}`, by qualified or bare name; an unknown name is an error."""

    def __init__(self, inner: ToolLoader, names: Mapping[str, str]) -> None:
        super().__init__(inner)
        self.names = dict(names)

    def change(self, tools: list[Tool]) -> list[Tool]:
        """The tools under their new names."""
        known = {name for tool in tools for name in (tool.name, tool.qualified_name)}
        unknown = sorted(set(self.names) - known)
        if unknown:
            raise ConfigError(f"cannot rename {unknown[0]!r}: {self.source} has no such tool")
        return [self._renamed(tool) for tool in tools]

    def _renamed(self, tool: Tool) -> Tool:
        new = self.names.get(tool.qualified_name) or self.names.get(tool.name)
        return tool if new is None else tool.replace(name=new)


class RenamespaceToolLoader(WrappedToolLoader):
    """Moves tools to another namespace: one for all, or `{"old": "new"}`."""

    def __init__(self, inner: ToolLoader, namespace: str | Mapping[str, str]) -> None:
        super().__init__(inner)
        self.namespace = namespace

    def change(self, tools: list[Tool]) -> list[Tool]:
        """The tools in their new namespaces."""
        return [tool.replace(namespace=self._target(tool.namespace)) for tool in tools]

    def _target(self, namespace: str) -> str:
        return self.namespace if isinstance(self.namespace, str) else self.namespace.get(namespace, namespace)


def _globs(patterns: Sequence[str], option: str) -> tuple[str, ...]:
    if isinstance(patterns, str):
        raise ConfigError(f"{option} must be a list of globs, not one text; write [{patterns!r}]")
    return tuple(patterns)
