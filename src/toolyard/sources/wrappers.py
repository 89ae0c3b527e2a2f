"""Wrappers around any source that filter its tools, rename them, or move them to another namespace.

FilterToolLoader(FileToolLoader("all.yaml"), include=["weather_api::*"], exclude=["*::delete_*"])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from toolyard.model.errors import ConfigError
from toolyard.model.names import describe_idle
from toolyard.model.report import SourceReport, Warnings
from toolyard.model.tool import Tool
from toolyard.plugins import check_loader
from toolyard.schema.admission import AdmittedTool
from toolyard.sources.base import ToolLoader

_log = logging.getLogger(__name__)


class WrappedToolLoader(ToolLoader):
    """A source that changes the tools of another one, and has the policies and connections of that one."""

    def __init__(self, inner: ToolLoader) -> None:
        check_loader(inner)
        self.inner = inner
        self.on_error = inner.on_error
        self.on_duplicate = inner.on_duplicate

    def load(self) -> list[Tool]:
        """The changed tools of the inner source."""
        return self._changed(self.inner.load())

    async def aload(self) -> list[Tool]:
        """The changed tools of the inner source."""
        return self._changed(await self.inner.aload())

    def change(self, tool: Tool) -> Tool | None:
        """Return the changed tool, or None to leave it out. Subclasses override it."""
        return tool

    def check(self, tools: list[Tool]) -> None:
        """Check options that name tools; called with all tools before they are changed."""

    def _changed(self, tools: list[Tool]) -> list[Tool]:
        self.check(tools)
        pairs = [(tool, new) for tool in tools if (new := self.change(tool)) is not None]
        names = {old.qualified_name: new.qualified_name for old, new in pairs}
        rewrites = tuple(
            msgspec.structs.replace(rewrite, tool=names[rewrite.tool])
            for rewrite in self.inner.report.rewrites
            if rewrite.tool in names
        )
        warned = getattr(self.inner.report.warnings, "given", ())
        warnings = tuple(
            msgspec.structs.replace(warning, tool=names[warning.tool]) for warning in warned if warning.tool in names
        )
        self._report = SourceReport(
            self.source, len(pairs), rewrites, self.inner.report.rejected, warnings=Warnings(warnings, ())
        )
        return [new for _, new in pairs]

    @property
    def source(self) -> str:
        """The inner source's name."""
        return self.inner.source

    @property
    def admitted(self) -> Sequence[AdmittedTool]:  # type: ignore[override]
        """The inner source's admitted tools; tools this wrapper left unchanged need no second check."""
        return self.inner.admitted

    @property
    def comes_back(self) -> bool:
        """The same as for the inner source."""
        return self.inner.comes_back

    def prepare(self) -> None:
        """Prepare the inner source."""
        self.inner.prepare()

    def watch(self, changed: Callable[[], None]) -> None:
        """Watch the inner source."""
        self.inner.watch(changed)

    def close(self) -> None:
        """Close the inner source."""
        self.inner.close()


class FilterToolLoader(WrappedToolLoader):
    """Keeps the tools whose qualified name matches a glob. The others are not reported as rejected."""

    def __init__(self, inner: ToolLoader, *, include: Sequence[str] = ("*",), exclude: Sequence[str] = ()) -> None:
        super().__init__(inner)
        self.include = _read_globs(include, "include")
        self.exclude = _read_globs(exclude, "exclude")

    def check(self, tools: list[Tool]) -> None:
        """Warn of globs that match none of the tools, which are usually misspelt."""
        names = {tool.qualified_name for tool in tools}
        for option, globs in (("include", self.include), ("exclude", self.exclude)) if names else ():
            for text in describe_idle(f"{self.source}: {option}", globs, names):
                _log.warning("%s", text)

    def change(self, tool: Tool) -> Tool | None:
        """The tool, if it matches `include` and not `exclude`."""
        name = tool.qualified_name
        kept = any(fnmatchcase(name, glob) for glob in self.include)
        return tool if kept and not any(fnmatchcase(name, glob) for glob in self.exclude) else None


class RenameToolLoader(WrappedToolLoader):
    """Renames tools: `{"old": "new"}`, by qualified or bare name. An unknown name is an error."""

    def __init__(self, inner: ToolLoader, names: Mapping[str, str]) -> None:
        super().__init__(inner)
        if not isinstance(names, Mapping):
            raise ConfigError("names must be a mapping of old to new names, such as {'old': 'new'}")
        self.names = dict(names)

    def check(self, tools: list[Tool]) -> None:
        """Raise unless every tool to rename exists."""
        known = {name for tool in tools for name in (tool.name, tool.qualified_name)}
        unknown = sorted(set(self.names) - known)
        if unknown:
            raise ConfigError(f"cannot rename {unknown[0]!r}: {self.source} has no such tool")

    def change(self, tool: Tool) -> Tool:
        """The tool with its new name."""
        new = self.names.get(tool.qualified_name) or self.names.get(tool.name)
        return tool if new is None else tool.replace(name=new)


class RenamespaceToolLoader(WrappedToolLoader):
    """Moves tools to another namespace: one for all, or `{"old": "new"}`."""

    def __init__(self, inner: ToolLoader, namespace: str | Mapping[str, str]) -> None:
        super().__init__(inner)
        self.namespace = namespace

    def change(self, tool: Tool) -> Tool:
        """The tool in its new namespace."""
        moved = self.namespace
        target = moved if isinstance(moved, str) else moved.get(tool.namespace, tool.namespace)
        return tool if target == tool.namespace else tool.replace(namespace=target)


def _read_globs(patterns: Sequence[str], option: str) -> tuple[str, ...]:
    if isinstance(patterns, str):
        raise ConfigError(f"{option} must be a list of globs, not one text; write [{patterns!r}]")
    return tuple(patterns)
