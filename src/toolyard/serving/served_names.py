"""`ServedNames`: the names that tools have on the wires.

A tool of an enabled domain goes by its bare name, any other by its qualified name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.dialects.wire_names import read_wire_call
from toolyard.model.call import ToolCall
from toolyard.model.errors import UnknownToolError
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import find_overloads
from toolyard.registry.snapshot import Snapshot

TOOL_ID = "tool_"

Sees = Callable[[Tool], bool]


class ServedNames:
    """The wire names of one snapshot. A tool id is `tool_` followed by the wire name."""

    def __init__(self, snapshot: Snapshot, domains: Iterable[str]) -> None:
        self.snapshot = snapshot
        enabled = set(domains)
        self._bare: dict[str, str] = {}
        self._spelt: dict[str, str] = {}
        for qualified, candidates in snapshot.names.items():
            tool = candidates[0].tool
            # If two domains share a tool name, the first gets the bare name. It must not hide another tool's wire name.
            taken = tool.name in self._bare or tool.name.replace("__", TOOL_NAMESPACE_SEP, 1) in snapshot.names
            if tool.namespace in enabled and not taken and not candidates[0].qualified_only:
                self._bare[tool.name] = qualified
                self._spelt[qualified] = tool.name

    def spell_name(self, qualified: str) -> str:
        """Return the name that listings show."""
        return self._spelt.get(qualified, qualified)

    def qualify_name(self, name: str) -> str:
        """Return the qualified name for the bare name of a domain's tool; any other name unchanged."""
        return self._bare.get(name, name)

    def read_call(self, call: ToolCall) -> ToolCall:
        """Return the call with the tool's qualified name, given any name that a listing has for it."""
        if call.name in self.snapshot.names:
            return call
        qualified = self._bare.get(call.name)
        return read_wire_call(self.snapshot, call) if qualified is None else replace(call, name=qualified)

    def find_name(self, name: str, sees: Sees | None = None) -> str | None:
        """Return the qualified name of the tool with this name in any spelling; None if there is none, or several.

        Tools for which `can_see` is false are ignored.
        """
        for spelling in dict.fromkeys((self.read_call(ToolCall(name)).name, name)):
            try:
                return find_overloads(self.snapshot, spelling, sees=sees, hints=False)[0].tool.qualified_name
            except UnknownToolError:
                continue
        return None

    def find_id(self, tool_id: str, sees: Sees | None = None) -> str | None:
        """Return the qualified name for a tool id; None if there is none."""
        return self.find_name(tool_id[len(TOOL_ID) :], sees) if tool_id.startswith(TOOL_ID) else None

    def tool_id(self, qualified: str) -> str:
        """Return the tool id for a qualified name."""
        return TOOL_ID + self.spell_name(qualified)


class CurrentNames:
    """The wire names of the registry's current snapshot, computed again when that changes."""

    def __init__(self, registry: ToolRegistry, domains: Iterable[str]) -> None:
        self._registry = registry
        self._domains = tuple(domains)
        self._names = ServedNames(registry.snapshot, self._domains)

    @property
    def now(self) -> ServedNames:
        """The names of the current snapshot. Thread-safe."""
        # Work on local variables: another thread may replace `_names` with those of another snapshot meanwhile.
        snapshot, names = self._registry.snapshot, self._names
        if names.snapshot is not snapshot:
            names = self._names = ServedNames(snapshot, self._domains)
        return names
