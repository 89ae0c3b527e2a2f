"""Plain data types and the error tree, shared by every other layer."""

from toolyard.model.bindings import Binding, McpBinding, PythonBinding, RestBinding, ScriptBinding
from toolyard.model.call import ToolCall, ToolContext, ToolResult
from toolyard.model.errors import ErrorInfo
from toolyard.model.report import LoadReport, Rejection, Rewrite, SourceReport
from toolyard.model.tool import Effects, Schema, Tool

__all__ = [
    "Binding",
    "Effects",
    "ErrorInfo",
    "LoadReport",
    "McpBinding",
    "PythonBinding",
    "Rejection",
    "RestBinding",
    "Rewrite",
    "Schema",
    "ScriptBinding",
    "SourceReport",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
]
