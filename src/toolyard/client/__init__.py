"""Registry and engine for programs whose tools are served by a toolyard server.

from toolyard.client import RemoteToolEngine, RemoteToolRegistry

registry = RemoteToolRegistry("http://127.0.0.1:8000")      # for ToolRegistry.from_file("tools.yaml")
engine = RemoteToolEngine(registry)                         # for PythonToolEngine(registry)
"""

from toolyard.client.engine import RemoteToolEngine
from toolyard.client.registry import RemoteToolRegistry

__all__ = ["RemoteToolEngine", "RemoteToolRegistry"]
