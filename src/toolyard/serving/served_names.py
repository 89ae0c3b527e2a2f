"""How tools are called on the wires: bare if they belong to an enabled domain, qualified otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolyard.model.errors import UnknownToolError
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find
from toolyard.registry.snapshot import Snapshot

TOOL_ID = "tool_"

Sees = Callable[[Tool], bool]


class ServedNames:
    """The wire names of one snapshot. A tool id is `tool_` and the name."""

    def __init__(self, snapshot: Snapshot, domains: Iterable[str]) -> None:
        self.snapshot = snapshot
        enabled = set(domains)
        self._bare: dict[str, str] = {}
        self._spelt: dict[str, str] = {}
        for qualified, candidates in snapshot.names.items():
            tool = candidates[0].tool
            if tool.namespace in enabled and tool.name not in self._bare:
                # Of two domains with one name the first may be called by it alone.
                self._bare[tool.name] = qualified
                self._spelt[qualified] = tool.name

    def spell_name(self, qualified: str) -> str:
        """The name lists show."""
        return self._spelt.get(qualified, qualified)

    def qualify_name(self, name: str) -> str:
        """What a request means by a name: a domain's tool by its bare name, everything else as it stands."""
        return self._bare.get(name, name)

    def find_name(self, name: str, sees: Sees | None = None) -> str | None:
        """The qualified name of a tool that is there, by any of its names; None if there is none, or several.

        With `sees`, tools for which it is False are not there.
        """
        for spelling in dict.fromkeys((self.qualify_name(name), name)):
            try:
                return find(self.snapshot, spelling, sees=sees, hints=False)[0].tool.qualified_name
            except UnknownToolError:
                continue
        return None

    def find_id(self, tool_id: str, sees: Sees | None = None) -> str | None:
        """The qualified name behind a tool id."""
        return self.find_name(tool_id[len(TOOL_ID) :], sees) if tool_id.startswith(TOOL_ID) else None

    def tool_id(self, qualified: str) -> str:
        """The tool id of a tool."""
        return TOOL_ID + self.spell_name(qualified)


class CurrentNames:
    """The wire names of the registry as it now is, made anew when it has changed."""

    def __init__(self, registry: ToolRegistry, domains: Iterable[str]) -> None:
        self._registry = registry
        self._domains = tuple(domains)
        self._names = ServedNames(registry.snapshot, self._domains)

    @property
    def now(self) -> ServedNames:
        """Those of the snapshot of this moment."""
        snapshot = self._registry.snapshot
        if self._names.snapshot is not snapshot:
            self._names = ServedNames(snapshot, self._domains)
        return self._names
