"""Tools from a directory of Python files, gated by the allow-list in its `_manifest.json`.

from toolyard import ToolRegistry
from toolyard.scripts import append_tool_manifest, load_tools

registry = ToolRegistry()
append_tool_manifest("foo.py", "tools")
load_tools("tools", registry)
"""

from toolyard.scripts.api import append_tool_manifest, load_tool_manifest_allowlist, load_tools
from toolyard.sources.scripts.loader import ScriptToolLoader

__all__ = ["ScriptToolLoader", "append_tool_manifest", "load_tool_manifest_allowlist", "load_tools"]
