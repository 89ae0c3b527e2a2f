"""toolyard: one definition, one name and one call path for every tool an agent can call.

Names are imported when first used, so `import toolyard` costs next to nothing.
"""

TYPE_CHECKING = False  # typing itself would triple the import time

_EXPORTS = {
    "toolyard.constants": ["TOOL_DEFAULT_NAMESPACE", "TOOL_NAMESPACE_SEP"],
    "toolyard.app.toolyard": ["Toolyard"],
    "toolyard.calls.budgets": ["Budget"],
    "toolyard.calls.events": ["CallEvent"],
    "toolyard.calls.invocation": ["Invocation"],
    "toolyard.calls.policy": ["Policy", "Rule"],
    "toolyard.calls.redact": ["Redactor"],
    "toolyard.calls.tracing": ["Tracer"],
    "toolyard.engines": ["MultiToolEngine", "PythonToolEngine", "ToolEngine"],
    "toolyard.engines.mcp": ["MCPToolEngine"],
    "toolyard.engines.rest": ["RESTToolEngine"],
    "toolyard.engines.scripts": ["ScriptToolEngine"],
    "toolyard.sessions.postgres": ["PostgresStore"],
    "toolyard.sessions.sessions": ["Sessions"],
    "toolyard.sessions.sqlite": ["SqliteStore"],
    "toolyard.model": [
        "Effects",
        "ErrorInfo",
        "LoadReport",
        "McpBinding",
        "PythonBinding",
        "RestBinding",
        "ScriptBinding",
        "Tool",
        "ToolCall",
        "ToolContext",
        "ToolResult",
    ],
    "toolyard.model.bindings": ["McpServer"],
    "toolyard.model.content": ["Content"],
    "toolyard.model.errors": [
        "CallConflict",
        "CallError",
        "CallTimeout",
        "ConfigError",
        "DefinitionError",
        "Denied",
        "DuplicatePluginError",
        "DuplicateToolError",
        "EnrichmentError",
        "InvalidArguments",
        "InvalidNameError",
        "InvalidOutput",
        "InvalidSchemaError",
        "Interrupted",
        "MalformedSource",
        "ManifestError",
        "NoEngine",
        "PluginError",
        "SamplingError",
        "SessionBusyError",
        "SessionError",
        "SessionExistsError",
        "SourceError",
        "SourceUnavailable",
        "StaleDefinition",
        "SyncInAsyncError",
        "ToolFailed",
        "ToolyardError",
        "Unavailable",
        "UnknownPluginError",
        "UnknownSessionError",
        "UnknownToolError",
    ],
    "toolyard.plugins": [
        "get_tool_engine",
        "get_tool_enrichment",
        "get_tool_loader",
        "get_tool_sampler",
        "register_tool_engine",
        "register_tool_enrichment",
        "register_tool_loader",
        "register_tool_sampler",
    ],
    "toolyard.registry": ["ToolRegistry"],
    "toolyard.registry.functions": ["function_tool", "tool"],
    "toolyard.registry.typed": ["Registry"],
    "toolyard.schema.strict": ["StrictModel"],
    "toolyard.sources": [
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
    ],
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from toolyard.app.toolyard import (
        Toolyard as Toolyard,
    )
    from toolyard.calls.budgets import (
        Budget as Budget,
    )
    from toolyard.calls.events import (
        CallEvent as CallEvent,
    )
    from toolyard.calls.invocation import (
        Invocation as Invocation,
    )
    from toolyard.calls.policy import (
        Policy as Policy,
    )
    from toolyard.calls.policy import (
        Rule as Rule,
    )
    from toolyard.calls.redact import (
        Redactor as Redactor,
    )
    from toolyard.calls.tracing import (
        Tracer as Tracer,
    )
    from toolyard.constants import (
        TOOL_DEFAULT_NAMESPACE as TOOL_DEFAULT_NAMESPACE,
    )
    from toolyard.constants import (
        TOOL_NAMESPACE_SEP as TOOL_NAMESPACE_SEP,
    )
    from toolyard.constants import VERSION as __version__  # noqa: F401, N811
    from toolyard.engines import (
        MultiToolEngine as MultiToolEngine,
    )
    from toolyard.engines import (
        PythonToolEngine as PythonToolEngine,
    )
    from toolyard.engines import (
        ToolEngine as ToolEngine,
    )
    from toolyard.engines.mcp import (
        MCPToolEngine as MCPToolEngine,
    )
    from toolyard.engines.rest import (
        RESTToolEngine as RESTToolEngine,
    )
    from toolyard.engines.scripts import (
        ScriptToolEngine as ScriptToolEngine,
    )
    from toolyard.model import (
        Effects as Effects,
    )
    from toolyard.model import (
        ErrorInfo as ErrorInfo,
    )
    from toolyard.model import (
        LoadReport as LoadReport,
    )
    from toolyard.model import (
        McpBinding as McpBinding,
    )
    from toolyard.model import (
        PythonBinding as PythonBinding,
    )
    from toolyard.model import (
        RestBinding as RestBinding,
    )
    from toolyard.model import (
        ScriptBinding as ScriptBinding,
    )
    from toolyard.model import (
        Tool as Tool,
    )
    from toolyard.model import (
        ToolCall as ToolCall,
    )
    from toolyard.model import (
        ToolContext as ToolContext,
    )
    from toolyard.model import (
        ToolResult as ToolResult,
    )
    from toolyard.model.bindings import (
        McpServer as McpServer,
    )
    from toolyard.model.content import (
        Content as Content,
    )
    from toolyard.model.errors import (
        CallConflict as CallConflict,
    )
    from toolyard.model.errors import (
        CallError as CallError,
    )
    from toolyard.model.errors import (
        CallTimeout as CallTimeout,
    )
    from toolyard.model.errors import (
        ConfigError as ConfigError,
    )
    from toolyard.model.errors import (
        DefinitionError as DefinitionError,
    )
    from toolyard.model.errors import (
        Denied as Denied,
    )
    from toolyard.model.errors import (
        DuplicatePluginError as DuplicatePluginError,
    )
    from toolyard.model.errors import (
        DuplicateToolError as DuplicateToolError,
    )
    from toolyard.model.errors import (
        EnrichmentError as EnrichmentError,
    )
    from toolyard.model.errors import (
        Interrupted as Interrupted,
    )
    from toolyard.model.errors import (
        InvalidArguments as InvalidArguments,
    )
    from toolyard.model.errors import (
        InvalidNameError as InvalidNameError,
    )
    from toolyard.model.errors import (
        InvalidOutput as InvalidOutput,
    )
    from toolyard.model.errors import (
        InvalidSchemaError as InvalidSchemaError,
    )
    from toolyard.model.errors import (
        MalformedSource as MalformedSource,
    )
    from toolyard.model.errors import (
        ManifestError as ManifestError,
    )
    from toolyard.model.errors import (
        NoEngine as NoEngine,
    )
    from toolyard.model.errors import (
        PluginError as PluginError,
    )
    from toolyard.model.errors import (
        SamplingError as SamplingError,
    )
    from toolyard.model.errors import (
        SessionBusyError as SessionBusyError,
    )
    from toolyard.model.errors import (
        SessionError as SessionError,
    )
    from toolyard.model.errors import (
        SessionExistsError as SessionExistsError,
    )
    from toolyard.model.errors import (
        SourceError as SourceError,
    )
    from toolyard.model.errors import (
        SourceUnavailable as SourceUnavailable,
    )
    from toolyard.model.errors import (
        StaleDefinition as StaleDefinition,
    )
    from toolyard.model.errors import (
        SyncInAsyncError as SyncInAsyncError,
    )
    from toolyard.model.errors import (
        ToolFailed as ToolFailed,
    )
    from toolyard.model.errors import (
        ToolyardError as ToolyardError,
    )
    from toolyard.model.errors import (
        Unavailable as Unavailable,
    )
    from toolyard.model.errors import (
        UnknownPluginError as UnknownPluginError,
    )
    from toolyard.model.errors import (
        UnknownSessionError as UnknownSessionError,
    )
    from toolyard.model.errors import (
        UnknownToolError as UnknownToolError,
    )
    from toolyard.plugins import (
        get_tool_engine as get_tool_engine,
    )
    from toolyard.plugins import (
        get_tool_enrichment as get_tool_enrichment,
    )
    from toolyard.plugins import (
        get_tool_loader as get_tool_loader,
    )
    from toolyard.plugins import (
        get_tool_sampler as get_tool_sampler,
    )
    from toolyard.plugins import (
        register_tool_engine as register_tool_engine,
    )
    from toolyard.plugins import (
        register_tool_enrichment as register_tool_enrichment,
    )
    from toolyard.plugins import (
        register_tool_loader as register_tool_loader,
    )
    from toolyard.plugins import (
        register_tool_sampler as register_tool_sampler,
    )
    from toolyard.registry import (
        ToolRegistry as ToolRegistry,
    )
    from toolyard.registry.functions import (
        function_tool as function_tool,
    )
    from toolyard.registry.functions import (
        tool as tool,
    )
    from toolyard.registry.typed import (
        Registry as Registry,
    )
    from toolyard.schema.strict import (
        StrictModel as StrictModel,
    )
    from toolyard.sessions.postgres import (
        PostgresStore as PostgresStore,
    )
    from toolyard.sessions.sessions import (
        Sessions as Sessions,
    )
    from toolyard.sessions.sqlite import (
        SqliteStore as SqliteStore,
    )
    from toolyard.sources import (
        DomainToolLoader as DomainToolLoader,
    )
    from toolyard.sources import (
        FileToolLoader as FileToolLoader,
    )
    from toolyard.sources import (
        FilterToolLoader as FilterToolLoader,
    )
    from toolyard.sources import (
        InlineToolLoader as InlineToolLoader,
    )
    from toolyard.sources import (
        MCPConfigToolLoader as MCPConfigToolLoader,
    )
    from toolyard.sources import (
        MCPToolLoader as MCPToolLoader,
    )
    from toolyard.sources import (
        PythonToolLoader as PythonToolLoader,
    )
    from toolyard.sources import (
        RenamespaceToolLoader as RenamespaceToolLoader,
    )
    from toolyard.sources import (
        RenameToolLoader as RenameToolLoader,
    )
    from toolyard.sources import (
        RESTToolLoader as RESTToolLoader,
    )
    from toolyard.sources import (
        ScriptToolLoader as ScriptToolLoader,
    )
    from toolyard.sources import (
        ToolLoader as ToolLoader,
    )
else:
    # Hidden from type checkers, which would otherwise accept any misspelt name.
    def __getattr__(name: str) -> object:
        """Import an exported name on first use and keep it."""
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
