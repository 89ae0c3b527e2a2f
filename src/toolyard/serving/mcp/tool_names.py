"""How tools are called here, and what must be known of one before it is called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from toolyard.dialects.mcp import wraps
from toolyard.dialects.wire_names import WireNames
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.identity import NOBODY, KeyScope, Principal
from toolyard.serving.mcp.header_params import HeaderParam, find_header_params
from toolyard.serving.served_names import ServedNames

_ALLOWED = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class McpTool:
    """One wire name: whom it calls, and under which conditions."""

    __slots__ = ("header_params", "name", "overload", "requires", "tool", "wraps")

    def __init__(self, name: str, overload: str | None, tool: Tool) -> None:
        self.name = name
        self.overload = overload
        self.tool = tool
        self.wraps = wraps(tool)
        """True if a result is structured as `{"result": ...}` even when it is an object."""
        self.header_params: tuple[HeaderParam, ...] = find_header_params(tool.parameters)
        self.requires = _find_required(tool)


class McpNames:
    """The wire names of one snapshot: bare for tools of domains, as on the other wires, else those of the dialects.

    With `bare`, bare for every tool whose name no other tool has. A bare name that would pass for another tool's name
    is not used.
    """

    def __init__(
        self, snapshot: Snapshot, names: ServedNames, reserved: Iterable[str] = (), *, bare: bool = False
    ) -> None:
        self.snapshot = snapshot
        self._names = names
        self.wire = WireNames(snapshot.tools)
        taken = set(reserved)
        self._bare: dict[str, str] = {}
        """Wire name by qualified name, where it is a bare one."""
        self._qualified: dict[str, str] = {}
        counts = Counter(candidates[0].tool.name for candidates in snapshot.names.values()) if bare else {}
        for qualified, candidates in snapshot.names.items():
            short = names.spell_name(qualified)
            if counts and counts[candidates[0].tool.name] == 1:
                short = candidates[0].tool.name
            usable = short != qualified and short not in taken and _ALLOWED.fullmatch(short)
            if usable and self.wire.known(short) is None:
                self._bare[qualified] = short
                self._qualified[short] = qualified
        self._known: dict[str, McpTool] = {}

    def spell_tool(self, tool: Tool) -> str:
        """The name a list shows; each overload has its own."""
        qualified = tool.qualified_name
        bare = self._bare.get(qualified)
        if bare is not None and self.snapshot.names[qualified][0].tool is tool:
            return bare
        return self.wire.encode(tool)

    def find_listed(self, wire: str) -> McpTool | None:
        """The tool that a list shows under that name; None for whatever else a request may call it by."""
        found = self._known.get(wire)
        if found is None:
            qualified = self._qualified.get(wire)
            decoded = self.wire.known(wire) if qualified is None else (qualified, None)
            tool = None if decoded is None else self.wire.tool(decoded)
            if decoded is None or tool is None:
                return None
            found = self._known[wire] = McpTool(*decoded, tool)
        return found

    def resolve_tool(self, name: str, principal: Principal) -> McpTool | None:
        """The tool that a caller means by any of its names, among those that they see."""
        scope = None if principal is NOBODY else KeyScope(principal)
        known = self.find_listed(name)
        if known is None:
            qualified = self._names.find_name(name, None if scope is None else scope.sees)
            known = (
                None if qualified is None else self.find_listed(self.spell_tool(self.snapshot.names[qualified][0].tool))
            )
        return known if known is None or scope is None or scope.sees(known.tool) else None


def _find_required(tool: Tool) -> dict[str, Any] | None:
    """What a client must be able to do for the tool to be called: `metadata: {mcp: {requires: {sampling: {}}}}`."""
    mcp = tool.metadata.get("mcp")
    required = mcp.get("requires") if isinstance(mcp, dict) else None
    return required if isinstance(required, dict) and required else None
