"""toolyard: one definition, one name and one call path for every tool an agent can call.

Names are imported on first use, so `import toolyard` costs next to nothing.
"""

TYPE_CHECKING = False  # typing itself would triple the import time

_EXPORTS = {
    "toolyard.constants": "TOOL_DEFAULT_NAMESPACE TOOL_NAMESPACE_SEP",
    "toolyard.app.toolyard": "Toolyard",
    "toolyard.calls.budgets": "Budget",
    "toolyard.calls.sinks": "CallEvent",
    "toolyard.calls.invocation": "Invocation",
    "toolyard.calls.policy": "Policy Rule",
    "toolyard.calls.tracer": "Tracer",
    "toolyard.words.redactor": "Redactor",
    "toolyard.engines": "MultiToolEngine PythonToolEngine ScriptToolEngine ToolEngine",
    "toolyard.engines.lm": "LMToolEngine",
    "toolyard.engines.mcp": "MCPToolEngine",
    "toolyard.engines.replay": "ReplayToolEngine",
    "toolyard.engines.rest": "RESTToolEngine",
    "toolyard.insight.base": "Edge Feed Sample ToolEnrichment",
    "toolyard.insight.dataflow.enrichment": "DataflowEnrichment",
    "toolyard.insight.embeddings.vectors": "EmbeddingsEnrichment",
    "toolyard.insight.neighbors": "NeighborsEnrichment",
    "toolyard.insight.outputs.enrichment": "OutputParametersEnrichment",
    "toolyard.insight.samplers.base": "ToolSampler",
    "toolyard.sessions.store.postgres": "PostgresStore",
    "toolyard.sessions.sessions": "Sessions",
    "toolyard.sessions.store.sqlite": "SqliteStore",
    "toolyard.model": (
        "Effects ErrorInfo LoadReport McpBinding PythonBinding RestBinding ScriptBinding Tool ToolCall ToolContext "
        "ToolResult"
    ),
    "toolyard.model.bindings": "McpServer",
    "toolyard.model.call": "Content",
    "toolyard.model.errors": (
        "ApprovalError ApprovalExpiredError ApprovalForbiddenError CallConflict CallError CallTimeout ConfigError "
        "DefinitionError Denied DuplicatePluginError DuplicateToolError EnrichmentError Held Interrupted "
        "InvalidArguments InvalidNameError InvalidOutput InvalidSchemaError MalformedSource ManifestError NoEngine "
        "PluginError SamplingError SessionBusyError SessionError SessionExistsError SessionFullError SourceError "
        "SourceUnavailable StaleDefinition SyncInAsyncError ToolFailed ToolyardError Unavailable "
        "UnknownApprovalError UnknownEntryError UnknownPluginError UnknownScriptError UnknownSessionError "
        "UnknownToolError"
    ),
    "toolyard.plugins": (
        "get_tool_engine get_tool_enrichment get_tool_loader get_tool_sampler register_tool_engine "
        "register_tool_enrichment register_tool_loader register_tool_sampler"
    ),
    "toolyard.registry": "ToolRegistry",
    "toolyard.registry.functions": "function_tool tool",
    "toolyard.registry.typed": "Registry",
    "toolyard.schema.strict": "StrictModel",
    "toolyard.sources.base": "ToolLoader",
    "toolyard.sources.domains": "DomainToolLoader",
    "toolyard.sources.file": "FileToolLoader InlineToolLoader",
    "toolyard.sources.mcp.config": "MCPConfigToolLoader",
    "toolyard.sources.mcp.loader": "MCPToolLoader",
    "toolyard.sources.python": "PythonToolLoader",
    "toolyard.sources.rest.loader": "RESTToolLoader",
    "toolyard.sources.scripts.loader": "ScriptToolLoader",
    "toolyard.sources.wrappers": "FilterToolLoader RenameToolLoader RenamespaceToolLoader",
}
"""Modules to the names exported from each."""
_HOME = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from toolyard.app.toolyard import Toolyard as Toolyard
    from toolyard.calls.budgets import Budget as Budget
    from toolyard.calls.invocation import Invocation as Invocation
    from toolyard.calls.policy import Policy as Policy, Rule as Rule
    from toolyard.calls.sinks import CallEvent as CallEvent
    from toolyard.calls.tracer import Tracer as Tracer
    from toolyard.constants import (  # noqa: F401, N811
        TOOL_DEFAULT_NAMESPACE as TOOL_DEFAULT_NAMESPACE,
        TOOL_NAMESPACE_SEP as TOOL_NAMESPACE_SEP,
        VERSION as __version__,
    )
    from toolyard.engines import (
        MultiToolEngine as MultiToolEngine,
        PythonToolEngine as PythonToolEngine,
        ScriptToolEngine as ScriptToolEngine,
        ToolEngine as ToolEngine,
    )
    from toolyard.engines.lm import LMToolEngine as LMToolEngine
    from toolyard.engines.mcp import MCPToolEngine as MCPToolEngine
    from toolyard.engines.replay import ReplayToolEngine as ReplayToolEngine
    from toolyard.engines.rest import RESTToolEngine as RESTToolEngine
    from toolyard.insight.base import Edge as Edge, Feed as Feed, Sample as Sample, ToolEnrichment as ToolEnrichment
    from toolyard.insight.dataflow.enrichment import DataflowEnrichment as DataflowEnrichment
    from toolyard.insight.embeddings.vectors import EmbeddingsEnrichment as EmbeddingsEnrichment
    from toolyard.insight.neighbors import NeighborsEnrichment as NeighborsEnrichment
    from toolyard.insight.outputs.enrichment import OutputParametersEnrichment as OutputParametersEnrichment
    from toolyard.insight.samplers.base import ToolSampler as ToolSampler
    from toolyard.model import (
        Effects as Effects,
        ErrorInfo as ErrorInfo,
        LoadReport as LoadReport,
        McpBinding as McpBinding,
        PythonBinding as PythonBinding,
        RestBinding as RestBinding,
        ScriptBinding as ScriptBinding,
        Tool as Tool,
        ToolCall as ToolCall,
        ToolContext as ToolContext,
        ToolResult as ToolResult,
    )
    from toolyard.model.bindings import McpServer as McpServer
    from toolyard.model.call import Content as Content
    from toolyard.model.errors import (
        ApprovalError as ApprovalError,
        ApprovalExpiredError as ApprovalExpiredError,
        ApprovalForbiddenError as ApprovalForbiddenError,
        CallConflict as CallConflict,
        CallError as CallError,
        CallTimeout as CallTimeout,
        ConfigError as ConfigError,
        DefinitionError as DefinitionError,
        Denied as Denied,
        DuplicatePluginError as DuplicatePluginError,
        DuplicateToolError as DuplicateToolError,
        EnrichmentError as EnrichmentError,
        Held as Held,
        Interrupted as Interrupted,
        InvalidArguments as InvalidArguments,
        InvalidNameError as InvalidNameError,
        InvalidOutput as InvalidOutput,
        InvalidSchemaError as InvalidSchemaError,
        MalformedSource as MalformedSource,
        ManifestError as ManifestError,
        NoEngine as NoEngine,
        PluginError as PluginError,
        SamplingError as SamplingError,
        SessionBusyError as SessionBusyError,
        SessionError as SessionError,
        SessionExistsError as SessionExistsError,
        SessionFullError as SessionFullError,
        SourceError as SourceError,
        SourceUnavailable as SourceUnavailable,
        StaleDefinition as StaleDefinition,
        SyncInAsyncError as SyncInAsyncError,
        ToolFailed as ToolFailed,
        ToolyardError as ToolyardError,
        Unavailable as Unavailable,
        UnknownApprovalError as UnknownApprovalError,
        UnknownEntryError as UnknownEntryError,
        UnknownPluginError as UnknownPluginError,
        UnknownScriptError as UnknownScriptError,
        UnknownSessionError as UnknownSessionError,
        UnknownToolError as UnknownToolError,
    )
    from toolyard.plugins import (
        get_tool_engine as get_tool_engine,
        get_tool_enrichment as get_tool_enrichment,
        get_tool_loader as get_tool_loader,
        get_tool_sampler as get_tool_sampler,
        register_tool_engine as register_tool_engine,
        register_tool_enrichment as register_tool_enrichment,
        register_tool_loader as register_tool_loader,
        register_tool_sampler as register_tool_sampler,
    )
    from toolyard.registry import ToolRegistry as ToolRegistry
    from toolyard.registry.functions import function_tool as function_tool, tool as tool
    from toolyard.registry.typed import Registry as Registry
    from toolyard.schema.strict import StrictModel as StrictModel
    from toolyard.sessions.sessions import Sessions as Sessions
    from toolyard.sessions.store.postgres import PostgresStore as PostgresStore
    from toolyard.sessions.store.sqlite import SqliteStore as SqliteStore
    from toolyard.sources.base import ToolLoader as ToolLoader
    from toolyard.sources.domains import DomainToolLoader as DomainToolLoader
    from toolyard.sources.file import FileToolLoader as FileToolLoader, InlineToolLoader as InlineToolLoader
    from toolyard.sources.mcp.config import MCPConfigToolLoader as MCPConfigToolLoader
    from toolyard.sources.mcp.loader import MCPToolLoader as MCPToolLoader
    from toolyard.sources.python import PythonToolLoader as PythonToolLoader
    from toolyard.sources.rest.loader import RESTToolLoader as RESTToolLoader
    from toolyard.sources.scripts.loader import ScriptToolLoader as ScriptToolLoader
    from toolyard.sources.wrappers import (
        FilterToolLoader as FilterToolLoader,
        RenamespaceToolLoader as RenamespaceToolLoader,
        RenameToolLoader as RenameToolLoader,
    )
    from toolyard.words.redactor import Redactor as Redactor
else:
    # Hidden from type checkers, which would otherwise accept any name.
    def __getattr__(name: str) -> object:
        """Import an exported name on first use and cache it."""
        if name == "__version__":
            from toolyard.constants import VERSION

            return VERSION
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'toolyard' has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Exported names, imported or not."""
        return sorted({*globals(), *_HOME})
