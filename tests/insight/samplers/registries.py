"""Small registries with known edges and vectors."""

import numpy as np

from tests.insight.given_dataflow import dataflow_of
from toolyard import Tool, ToolRegistry
from toolyard.insight.embeddings.vectors import Embeddings
from toolyard.insight.neighbors import NeighborsEnrichment


class FixedArtifacts:
    """An enrichment that leaves what it was made with."""

    def __init__(self, edges=None, vectors=None):
        self.edges, self.vectors = edges, vectors
        self.writes = (*(("dataflow",) if edges is not None else ()), *(("embeddings",) if vectors is not None else ()))

    def enrich(self, snapshot):
        found = {}
        if self.edges is not None:
            found["dataflow"] = dataflow_of(snapshot.tools, self.edges)
        if self.vectors is not None:
            found["embeddings"] = Embeddings(snapshot.tools, np.asarray(self.vectors, np.float32), "given")
        return snapshot.tools, found


def tool(name, namespace="n", description="", required=(), optional=()):
    properties = {key: {"type": "string"} for key in (*required, *optional)}
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return Tool(name, namespace, description, schema)


def tools(count, namespace="n"):
    return [tool(f"t{number}", namespace) for number in range(count)]


def registry(given, edges=None, vectors=None, neighbors=None):
    enrichments = [FixedArtifacts(edges, vectors)] if edges is not None or vectors is not None else []
    if neighbors is not None:
        enrichments.append(NeighborsEnrichment(cache=False, **neighbors))
    return ToolRegistry(tools(given) if isinstance(given, int) else given, enrichments=enrichments)


def names(sample):
    return [tool.name for tool in sample]


def qualified(sample):
    return [tool.qualified_name for tool in sample]
