"""Worker processes that run scripts: kept warm, isolated from each other, and ended if they do not exit.

This package knows nothing of tools. `sandbox` describes what each level denies.
"""

from toolyard.links.scripts.pool import Code, DeclaredTools, ScriptFault, ScriptPool
from toolyard.links.scripts.sandbox import LEVELS, find_obstacle, probe_level
from toolyard.links.scripts.worker import ScriptFailed, ScriptTimeout
from toolyard.schema.common_options import WorkerSettings

__all__ = [
    "LEVELS",
    "Code",
    "DeclaredTools",
    "ScriptFailed",
    "ScriptFault",
    "ScriptPool",
    "ScriptTimeout",
    "WorkerSettings",
    "find_obstacle",
    "probe_level",
]
