"""The Catalog screen while the catalog changes; the Graph screen: the edges that a key may see, none of the others."""

import httpx
import pytest

from serving.console.page_app import LOOKING, Keys, app_of, serve_app, service_of
from tests.insight.given_dataflow import dataflow_of
from toolyard import Tool, ToolEnrichment

TOOLS = [Tool(name, space) for space, name in (("desk", "find"), ("desk", "<i>book"), ("core", "hidden"))]


class Edges(ToolEnrichment):
    """A dataflow that is known beforehand."""

    writes = ("dataflow",)

    def enrich(self, snapshot):
        edges = [(0, 1, 0.9), (1, 0, 0.6), (0, 2, 0.8)]
        return snapshot.tools, {"dataflow": dataflow_of(snapshot.tools, edges)}


@pytest.fixture
def service():
    return service_of(TOOLS, enrichments=[Edges()])


def test_a_tool_that_is_registered_meanwhile_is_on_the_next_page(service, monkeypatch):
    registry, compute = service.catalog.registry, service.catalog.compute_cached

    def compute_and_register(principal, key, *rest):
        value = compute(principal, key, *rest)
        if key == "console rows" and "desk::seek" not in registry:
            registry.add(Tool("seek", "desk", "Find a desk."))
        return value

    monkeypatch.setattr(service.catalog, "compute_cached", compute_and_register)
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url, timeout=60) as client:
        query = "/console/tools.json?q=find+a+desk&namespace=desk"
        assert "desk::seek" not in [row["name"] for row in client.get(query).json()["rows"]]
        assert "desk::seek" in [row["name"] for row in client.get(query).json()["rows"]]
        assert client.get("/console/tools.json?namespace=desk").json()["found"] == 3


def test_the_edges_are_listed_and_lead_to_their_tools(service):
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url) as client:
        shown = client.get("/console/graph.json").json()
        assert shown["tools"] == 3
        assert [(edge["source"], edge["target"]) for edge in shown["edges"]] == [
            *(("desk::find", "desk::<i>book"), ("desk::find", "core::hidden"), ("desk::<i>book", "desk::find")),
        ]
        page = client.get("/console/graph").text
        assert page.count("<tr>") == 4 and "<i>" not in page and 'href="/console/tools/desk::find"' in page
        narrowed = client.get("/console/graph.json?namespace=desk").json()
        assert {edge["target"] for edge in narrowed["edges"]} == {"desk::find", "desk::<i>book"}


def test_tools_that_a_key_may_not_see_are_not_drawn(service):
    service.keys = Keys()
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url) as client:
        text = client.get("/console/graph.json", headers={"authorization": f"Bearer {LOOKING}"}).text
        assert "find" in text and "hidden" not in text and '"core"' not in text
        tool = client.get("/console/tools/desk::find.json", headers={"authorization": f"Bearer {LOOKING}"}).json()
        assert [edge["name"] for edge in tool["feeds"]] == ["desk::<i>book"]


def test_without_the_enrichment_the_page_says_how_to_enable_it():
    with serve_app(app_of(service_of(TOOLS))) as url:
        page = httpx.get(f"{url}/console/graph", verify=False).text
        assert "type: dataflow" in page
        assert httpx.get(f"{url}/console/tools/find.json", verify=False).json()["feeds"] is None
