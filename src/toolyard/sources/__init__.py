"""Where tools come from, one origin a file."""

from toolyard.sources.base import ToolLoader
from toolyard.sources.domains import DomainToolLoader
from toolyard.sources.file import FileToolLoader, InlineToolLoader
from toolyard.sources.mcp.config import MCPConfigToolLoader
from toolyard.sources.mcp.loader import MCPToolLoader
from toolyard.sources.python import PythonToolLoader
from toolyard.sources.rest.loader import RESTToolLoader
from toolyard.sources.scripts.loader import ScriptToolLoader
from toolyard.sources.wrappers import FilterToolLoader, RenamespaceToolLoader, RenameToolLoader

__all__ = [
    "DomainToolLoader",
    "FileToolLoader",
    "FilterToolLoader",
    "InlineToolLoader",
    "MCPConfigToolLoader",
    "MCPToolLoader",
    "PythonToolLoader",
    "RESTToolLoader",
    "RenameToolLoader",
    "RenamespaceToolLoader",
    "ScriptToolLoader",
    "ToolLoader",
]
