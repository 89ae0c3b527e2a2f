"""The built-in enrichments wait for whoever writes what they look at."""

import itertools

import numpy as np
import pytest

from insight.embedder_stub import HashEmbedder
from toolyard import (
    DataflowEnrichment,
    EmbeddingsEnrichment,
    NeighborsEnrichment,
    OutputParametersEnrichment,
    Tool,
    ToolEnrichment,
    ToolRegistry,
)
from toolyard.insight.embeddings.vectors import Embeddings
from toolyard.registry.enriching import order_enrichments

TOOLS = [
    Tool(name, "n", "", {"type": "object", "properties": {"user_id": {"type": "string"}}})
    for name in ("aa", "bb", "cc")
]
SAID = "Get the user of an order."


class Describe(ToolEnrichment):
    """Writes descriptions."""

    reads = ("tool.name",)
    writes = ("tool.description",)

    def enrich(self, snapshot):
        return [tool.replace(description=SAID) for tool in snapshot.tools], {}


class Vectors(ToolEnrichment):
    """Embeddings that look at nothing."""

    writes = ("embeddings",)

    def enrich(self, snapshot):
        return snapshot.tools, {"embeddings": Embeddings(snapshot.tools, np.eye(len(snapshot.tools), 4), "eye")}


def built_in(embedder):
    return [
        NeighborsEnrichment(model=embedder, cache=False),
        DataflowEnrichment(model=embedder, cache=False),
        EmbeddingsEnrichment(embedder, cache=False),
        OutputParametersEnrichment(cache=False),
    ]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("kind", ["embeddings", "neighbors", "output_parameters"])
def test_an_enrichment_that_writes_descriptions_runs_first_wherever_it_is_listed(kind, place):
    embedder = HashEmbedder()
    made = {
        "embeddings": lambda: [EmbeddingsEnrichment(embedder, cache=False)],
        "neighbors": lambda: [NeighborsEnrichment(model=embedder, cache=False), Vectors()],
        "output_parameters": lambda: [OutputParametersEnrichment(cache=False)],
    }[kind]()
    made.insert(place * len(made), Describe())
    registry = ToolRegistry(TOOLS, enrichments=made)
    assert [tool.description for tool in registry] == [SAID] * 3
    if kind == "output_parameters":
        assert "user" in registry.get("n::aa")[0].output_parameters["properties"]
    else:
        assert sum(SAID in text for text in embedder.texts) == 3


@pytest.mark.parametrize("place", [0, 1])
def test_dataflow_reads_descriptions_that_another_writes(place):
    class Mails(Describe):
        def enrich(self, snapshot):
            return [tool.replace(description="Sends an email.") for tool in snapshot.tools], {}

    def schema(name):
        return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}

    tools = [Tool("get_customer", "n", "", {}, schema("email")), Tool("notify", "n", "", schema("to"))]
    made = [DataflowEnrichment(model=HashEmbedder(), cache=False)]
    assert ToolRegistry(tools, enrichments=made).artifacts["dataflow"].edge(0, 1) is None
    made.insert(place, Mails())
    assert ToolRegistry(tools, enrichments=made).artifacts["dataflow"].edge(0, 1) is not None


def test_every_order_of_the_built_in_ones_and_a_writer_of_descriptions_runs_in_one():
    for given in itertools.permutations([Describe(), *built_in(HashEmbedder())]):
        ran = [type(one).__name__ for one in order_enrichments(given)]
        assert ran[:2] == ["Describe", "OutputParametersEnrichment"]
        assert ran.index("EmbeddingsEnrichment") < ran.index("NeighborsEnrichment")


def test_neighbors_with_given_vectors_do_not_wait_for_descriptions():
    class Rewrites(ToolEnrichment):
        reads = ("neighbors",)
        writes = ("tool.description",)

        def enrich(self, snapshot):
            return snapshot.tools, {}

    ran = order_enrichments([Rewrites(), NeighborsEnrichment(cache=False), Vectors()])
    assert [type(one).__name__ for one in ran] == ["Vectors", "NeighborsEnrichment", "Rewrites"]
    assert "tool.description" not in NeighborsEnrichment.reads
