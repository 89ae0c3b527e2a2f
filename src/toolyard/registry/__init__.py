"""The tool registry, its snapshots, and binding a call to a tool."""

from toolyard.registry.bind import Bound, bind
from toolyard.registry.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot

__all__ = ["Bound", "Snapshot", "ToolRegistry", "bind"]
