"""Small tools for the tests of dataflow."""

from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.dataflow.enrichment import DataflowEnrichment
from toolyard.model.tool import Tool

TEXT, WHOLE, NUMBER, FLAG = ({"type": name} for name in ("string", "integer", "number", "boolean"))


class View:
    """A snapshot, as far as an enrichment looks."""

    def __init__(self, tools):
        self.tools = tuple(tools)
        self.artifacts = {}


def record(required=(), **properties):
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


def many(items):
    """The schema of a list."""
    return {"type": "array", "items": items}


def tool(name, takes=None, gives=None, *, namespace="n", description=""):
    """A tool that takes required properties and gives some."""
    parameters = record(takes or {}, **(takes or {}))
    return Tool(name, namespace, description, parameters, record(**gives) if gives else {})


def flow(*tools, embedder=None, **options) -> Dataflow:
    """The dataflow of tools, without anything kept on disk, and by words unless a model is given."""
    enrichment = DataflowEnrichment(cache=False, **options)
    enrichment.embedder = embedder
    same, artifacts = enrichment.enrich(View(tools))
    assert tuple(same) == tools
    return artifacts["dataflow"]


def feeds(found, source=0, target=1):
    """What an edge carries, best first: (output, parameter, how)."""
    edge = found.edge(source, target)
    return [(feed.output, feed.parameter, feed.how) for feed in edge.feeds] if edge else []


USERS = many(record(id=WHOLE, email=TEXT, name=TEXT))
