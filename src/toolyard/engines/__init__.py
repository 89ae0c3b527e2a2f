"""How calls are answered: one way a file, all behind `ToolEngine`."""

from toolyard.calls.invocation import Invocation
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine, ScriptToolEngine

__all__ = ["Invocation", "MultiToolEngine", "PythonToolEngine", "ScriptToolEngine", "ToolEngine"]
