"""What exists: the registry, its snapshots, and how a call is bound to a tool."""

from toolyard.registry.bind import Bound, bind
from toolyard.registry.registry import ToolRegistry
from toolyard.registry.snapshot import Snapshot

__all__ = ["Bound", "Snapshot", "ToolRegistry", "bind"]
