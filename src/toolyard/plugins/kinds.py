"""The kinds of plugin, their built-ins, and their decorators.

    @register_tool_loader("name")      a ToolLoader: where tools come from
    @register_tool_engine("name")      a ToolEngine: how a call is answered
    @register_tool_enrichment("name")  a ToolEnrichment: what is learned about tools
    @register_tool_sampler("name")     a ToolSampler: how tools are drawn

Third parties may instead declare the entry-point groups `toolyard.loaders`, `toolyard.engines`,
`toolyard.enrichments` and `toolyard.samplers`, each entry a `module:Class`. Where sessions live is a fifth kind, by the
group `toolyard.session_stores`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.plugins.protocols import Enrichment, Loader
from toolyard.plugins.table import C, PluginTable

LOADERS: PluginTable[Loader] = PluginTable(
    "tool loader",
    "toolyard.loaders",
    {
        "domains": "toolyard.sources.domains:DomainToolLoader",
        "file": "toolyard.sources.file:FileToolLoader",
        "inline": "toolyard.sources.file:InlineToolLoader",
        "mcp": "toolyard.sources.mcp.loader:MCPToolLoader",
        "mcp_config": "toolyard.sources.mcp.config:MCPConfigToolLoader",
        "python": "toolyard.sources.python:PythonToolLoader",
        "rest": "toolyard.sources.rest.loader:RESTToolLoader",
        "scripts": "toolyard.sources.scripts.loader:ScriptToolLoader",
    },
    method="load",
)
ENGINES: PluginTable[Any] = PluginTable(
    "tool engine",
    "toolyard.engines",
    {
        "lm": "toolyard.engines.lm.engine:LMToolEngine",
        "mcp": "toolyard.engines.mcp.engine:MCPToolEngine",
        "multi": "toolyard.engines.multi:MultiToolEngine",
        "python": "toolyard.engines.python:PythonToolEngine",
        "replay": "toolyard.engines.replay.engine:ReplayToolEngine",
        "rest": "toolyard.engines.rest.engine:RESTToolEngine",
        "scripts": "toolyard.engines.scripts.engine:ScriptToolEngine",
    },
)
ENRICHMENTS: PluginTable[Enrichment] = PluginTable(
    "tool enrichment",
    "toolyard.enrichments",
    {
        "dataflow": "toolyard.insight.dataflow.enrichment:DataflowEnrichment",
        "embeddings": "toolyard.insight.embeddings.enrichment:EmbeddingsEnrichment",
        "neighbors": "toolyard.insight.neighbors:NeighborsEnrichment",
        "output_parameters": "toolyard.insight.outputs.enrichment:OutputParametersEnrichment",
    },
    method="enrich",
)
SAMPLERS: PluginTable[Any] = PluginTable(
    "tool sampler",
    "toolyard.samplers",
    {
        "tc/chain": "toolyard.insight.samplers.chain:ChainSampler",
        "tc/conflict": "toolyard.insight.samplers.conflict:ConflictSampler",
        "tc/coverage": "toolyard.insight.samplers.random:CoverageSampler",
        "tc/dag": "toolyard.insight.samplers.dag:DagSampler",
        "tc/fan_in": "toolyard.insight.samplers.chain:FanInSampler",
        "tc/fan_out": "toolyard.insight.samplers.chain:FanOutSampler",
        "tc/irrelevant": "toolyard.insight.samplers.missing:IrrelevantSampler",
        "tc/missing": "toolyard.insight.samplers.missing:MissingSampler",
        "tc/mix": "toolyard.insight.samplers.mix:MixSampler",
        "tc/neighbor": "toolyard.insight.samplers.neighbor:NeighborSampler",
        "tc/random": "toolyard.insight.samplers.random:RandomSampler",
        "tc/sparse": "toolyard.insight.samplers.neighbor:SparseSampler",
    },
    method="sample",
)

SESSION_STORES: PluginTable[Any] = PluginTable(
    "session store",
    "toolyard.session_stores",
    {
        "sqlite": "toolyard.sessions.store.sqlite:SqliteStore",
        "postgres": "toolyard.sessions.store.postgres:PostgresStore",
    },
    method="try_hold",
)

register_tool_loader = LOADERS.register
register_tool_engine = ENGINES.register
register_tool_enrichment = ENRICHMENTS.register


def register_tool_sampler(name: str) -> Callable[[C], C]:
    """Class decorator that claims `name`, and tells the class of it: `sampler_name`."""
    claim = SAMPLERS.register(name)

    def named(cls: C) -> C:
        claimed = claim(cls)
        claimed.sampler_name = name  # type: ignore[attr-defined]
        return claimed

    return named


get_tool_loader = LOADERS.create
get_tool_engine = ENGINES.create
get_tool_enrichment = ENRICHMENTS.create
get_tool_sampler = SAMPLERS.create
