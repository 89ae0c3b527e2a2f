"""The registry and the engine of a program whose tools are served elsewhere.

from toolyard.client import RemoteToolEngine, RemoteToolRegistry

registry = RemoteToolRegistry("http://127.0.0.1:8000")      # for ToolRegistry.from_file("tools.yaml")
engine = RemoteToolEngine(registry)                         # for PythonToolEngine(registry)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["RemoteToolEngine", "RemoteToolRegistry"]

if TYPE_CHECKING:
    from toolyard.client.engine import RemoteToolEngine as RemoteToolEngine
    from toolyard.client.registry import RemoteToolRegistry as RemoteToolRegistry
else:

    def __getattr__(name: str) -> object:
        """Import an exported name on first use and keep it."""
        homes = {"RemoteToolEngine": "toolyard.client.engine", "RemoteToolRegistry": "toolyard.client.registry"}
        if name not in homes:
            raise AttributeError(f"module 'toolyard.client' has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(homes[name]), name)
        globals()[name] = value
        return value
