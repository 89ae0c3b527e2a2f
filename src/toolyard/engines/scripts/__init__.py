"""Handlers of script files, in worker processes or in this one."""

from toolyard.engines.scripts.engine import ScriptToolEngine

__all__ = ["ScriptToolEngine"]
