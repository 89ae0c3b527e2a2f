"""Processes that run scripts: kept warm, kept apart, and ended when they do not end by themselves.

They know nothing of tools. `sandbox` says what each level denies.
"""

from toolyard.links.scripts.pool import ScriptPool
from toolyard.links.scripts.sandbox import LEVELS, probe_level, why_not
from toolyard.links.scripts.settings import Code, Declared, ScriptFault
from toolyard.links.scripts.worker import ScriptFailed, ScriptTimeout
from toolyard.schema.common_options import WorkerSettings

__all__ = ["LEVELS", "Code", "Declared", "ScriptFailed", "ScriptFault", "ScriptPool", "ScriptTimeout", "WorkerSettings"]
__all__ += ["probe_level", "why_not"]
