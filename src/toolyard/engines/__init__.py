"""Engines, one per module or package: each executes the calls of some kind of tool, behind `ToolEngine`."""

from toolyard.calls.invocation import Invocation
from toolyard.engines.base import ToolEngine
from toolyard.engines.multi import MultiToolEngine
from toolyard.engines.python import PythonToolEngine, ScriptToolEngine

__all__ = ["Invocation", "MultiToolEngine", "PythonToolEngine", "ScriptToolEngine", "ToolEngine"]
