"""The registry and the engine of a program whose tools are served elsewhere.

from toolyard.client import RemoteToolEngine, RemoteToolRegistry

registry = RemoteToolRegistry("http://127.0.0.1:8000")      # for ToolRegistry.from_file("tools.yaml")
engine = RemoteToolEngine(registry)                         # for PythonToolEngine(registry)
"""

from toolyard.client.engine import RemoteToolEngine
from toolyard.client.registry import RemoteToolRegistry

__all__ = ["RemoteToolEngine", "RemoteToolRegistry"]
