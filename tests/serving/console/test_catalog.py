"""The Graph screen: what is drawn is there, is drawn once, and goes to the right as far as it can."""

import httpx
import pytest
from hypothesis import given, strategies as st

from serving.console.page_app import LOOKING, Keys, app_of, served, service_of
from tests.insight.given_dataflow import dataflow_of
from toolyard import Tool, ToolEnrichment
from toolyard.serving.console.catalog import _arrange_columns

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


@given(
    st.integers(1, 12).flatmap(
        lambda count: st.tuples(
            st.just(count), st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=30)
        )
    )
)
def test_every_node_has_one_place_and_edges_that_close_no_circle_go_to_the_right(drawn):
    count, edges = drawn
    columns = _arrange_columns(count, edges)
    assert sorted(node for column in columns for node in column) == list(range(count))
    rank = {node: number for number, column in enumerate(columns) for node in column}
    for source, target in edges[:1]:
        # The strongest comes first, so that no other can turn it round.
        assert source == target or rank[source] < rank[target]


def test_the_tools_and_edges_are_drawn_and_listed(service):
    with served(app_of(service)) as url, httpx.Client(verify=False, base_url=url) as client:
        shown = client.get("/console/graph.json").json()
        assert {node["name"] for node in shown["nodes"]} == {"desk::find", "desk::<i>book", "core::hidden"}
        assert (shown["edges"][0]["source"], shown["edges"][0]["target"]) == (0, 1)
        page = client.get("/console/graph").text
        assert page.count("<rect") == 3 and "<i>" not in page and 'href="/console/tools/desk::find"' in page
        narrowed = client.get("/console/graph.json?namespace=desk").json()
        assert {node["name"] for node in narrowed["nodes"]} == {"desk::find", "desk::<i>book"}


def test_what_a_key_may_not_see_is_not_drawn(service):
    service.keys = Keys()
    with served(app_of(service)) as url, httpx.Client(verify=False, base_url=url) as client:
        text = client.get("/console/graph.json", headers={"authorization": f"Bearer {LOOKING}"}).text
        assert "find" in text and "hidden" not in text and '"core"' not in text
        tool = client.get("/console/tools/desk::find.json", headers={"authorization": f"Bearer {LOOKING}"}).json()
        assert [edge["name"] for edge in tool["feeds"]] == ["desk::<i>book"]


def test_where_nobody_has_studied_the_dataflow_the_page_says_how():
    with served(app_of(service_of(TOOLS))) as url:
        page = httpx.get(f"{url}/console/graph", verify=False).text
        assert "type: dataflow" in page
        assert httpx.get(f"{url}/console/tools/find.json", verify=False).json()["feeds"] is None
