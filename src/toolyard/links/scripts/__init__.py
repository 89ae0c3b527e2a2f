"""Worker processes that run scripts: kept warm, isolated from each other, and ended if they do not exit.

This package knows nothing of tools. `sandbox` describes what each level denies.
"""

from toolyard.links.scripts.pool import ScriptPool
from toolyard.links.scripts.sandbox import LEVELS, probe_level, why_not
from toolyard.links.scripts.settings import Code, Declared, ScriptFault
from toolyard.links.scripts.worker import ScriptFailed, ScriptTimeout
from toolyard.schema.common_options import WorkerSettings

__all__ = ["LEVELS", "Code", "Declared", "ScriptFailed", "ScriptFault", "ScriptPool", "ScriptTimeout", "WorkerSettings"]
__all__ += ["probe_level", "why_not"]
