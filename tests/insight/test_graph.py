"""Which tools and edges a graph shows, as a page and for other programs."""

import base64
import hashlib
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from insight.graph_yards import HOSTILE, hostile, many, small
from tests.insight.given_dataflow import dataflow_of
from toolyard.insight.graph import GraphOptions, replace_invisible, select_graph, to_dot, to_html, to_json, to_mermaid
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool

TESTS = Path(__file__).parents[1]


def selected(flow):
    return select_graph(flow, GraphOptions())


def test_json_names_every_tool_and_says_what_every_edge_carries():
    data = json.loads(to_json(selected(small()), "Dataflow of the desk"))
    assert data["title"] == "Dataflow of the desk"
    assert data["edges_in_all"] == 5
    assert data["nodes"][2] == {
        "id": "n2",
        "label": "get_user (2)",
        "namespace": "desk",
        "description": "Get a user by mail.",
    }
    assert data["edges"][0] == {
        "source": "n4",
        "target": "n5",
        "score": 0.95,
        "covers_required": True,
        "feeds": [{"output": "orders[].id", "parameter": "order_id", "how": "direct"}],
        "more_feeds": 0,
    }


def test_dot_holds_namespaces_as_clusters_and_scores_as_labels():
    text = to_dot(selected(small()), "desk")
    assert text.startswith('digraph "desk" {\n')
    assert 'subgraph cluster_1 { label="shop";' in text
    assert 'n4 [label="list_orders", tooltip="Orders of a user."];' in text
    assert 'n4 -> n5 [label="0.95"];' in text


def test_mermaid_holds_namespaces_as_subgraphs():
    lines = to_mermaid(selected(small())).splitlines()
    assert lines[0] == "flowchart LR"
    assert '  subgraph s1["shop"]' in lines
    assert '    n1["get_user"]' in lines
    assert "  n4 -->|0.95| n5" in lines


def test_hostile_names_stay_labels_in_dot():
    text = to_dot(selected(hostile()))
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert not set("<>&'") & set(outside.replace("->", ""))
    assert text.count("\n") == len(text.splitlines())


def test_hostile_names_stay_labels_in_mermaid():
    for line in to_mermaid(selected(hostile())).splitlines():
        label = re.search(r'\["(.*)"\]$', line)
        if label:
            assert not re.search(r"[<>&\"'`\[\]]", label[1])


@pytest.mark.parametrize("write", [to_dot, to_json, to_mermaid])
def test_a_graph_without_tools_is_rendered(write):
    assert write(selected(dataflow_of([], [])))


def test_unprintable_characters_are_replaced():
    assert replace_invisible("a\x00b\u202ec\ud800") == "a\ufffdb\ufffdc\ufffd"
    assert replace_invisible("grüße 名前") == "grüße 名前"


@pytest.mark.process
def test_the_same_tools_give_the_same_files_in_every_process():
    code = (
        "from insight.graph_yards import many\n"
        "from toolyard.insight.graph import GraphOptions, select_graph, to_dot, to_html, to_json, to_mermaid\n"
        "import hashlib\n"
        "graph = select_graph(many(400, 15), GraphOptions())\n"
        "text = ''.join(write(graph) for write in (to_dot, to_html, to_json, to_mermaid))\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(printed) == 1
    assert to_json(selected(many(50, 3))) == to_json(selected(many(50, 3)))


DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def page_of(flow, title="Dataflow"):
    return to_html(select_graph(flow, GraphOptions()), title)


def policy_of(page):
    return html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1])


def source_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_allows_its_own_scripts_and_style_and_nothing_else():
    page = page_of(small())
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    style = re.search(r"<style[^>]*>(.*?)</style>", page, re.DOTALL)[1]
    assert len(scripts) == 2
    assert f"script-src {' '.join(map(source_of, scripts))};" in policy_of(page)
    assert f"style-src {source_of(style)};" in policy_of(page)
    assert policy_of(page).startswith("default-src 'none'; ")
    assert "unsafe" not in policy_of(page)
    assert page.index("Content-Security-Policy") < page.index("<style")


def test_it_names_no_other_resource_and_keeps_the_licence_of_the_library():
    page = page_of(small())
    own = re.sub(r"<script>/\*\*.*?</script>", "", DATA.sub("", page), flags=re.DOTALL)
    assert not re.search(r"https?://|@import|url\(", own)
    assert re.findall(r'\b(?:src|href)="([^"]*)"', own) == ["data:,"]
    assert "Copyright (c) 2016-2026, The Cytoscape Consortium" in page


def test_the_data_holds_everything_as_data():
    data = json.loads(DATA.search(page_of(small()))[1])
    assert {node["label"] for node in data["nodes"]} >= {"find_user", "get_user", "get_user (2)", "sing"}
    assert data["edges"][0]["score"] == 0.95


def test_hostile_text_cannot_leave_the_data():
    page = page_of(hostile(), HOSTILE)
    assert page.count("<script") == 3
    assert page.count("</script>") == 3
    assert "<img" not in page
    assert page.count("<style") == 1
    data = DATA.search(page)[1]
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["nodes"][0]["namespace"].startswith("</script><script>alert(1)")


def pairs(chosen):
    return list(zip(chosen.sources.tolist(), chosen.targets.tolist(), strict=True))


def star(leaves):
    """One tool that feeds many, each a bit less."""
    tools = [Tool(f"t{number}", "n") for number in range(leaves + 1)]
    return dataflow_of(tools, [(0, leaf, 0.9 - leaf / 100) for leaf in range(1, leaves + 1)])


def test_the_strongest_come_first_and_self_edges_are_not_drawn():
    tools = [Tool("a", "n"), Tool("b", "n"), Tool("c", "n")]
    flow = dataflow_of(tools, [(0, 0, 1.0), (0, 1, 0.6), (1, 2, 0.8), (2, 1, 0.8)])
    assert pairs(select_graph(flow, GraphOptions())) == [(1, 2), (2, 1), (0, 1)]


def test_an_edge_is_kept_if_it_is_among_the_best_of_either_end():
    flow = star(9)
    assert len(pairs(select_graph(flow, GraphOptions(top=1)))) == 9
    assert pairs(select_graph(flow, GraphOptions(top=0))) == []
    tools = flow.tools
    crowded = dataflow_of(tools, [(i, j, 0.9 - (i + j) / 100) for i in range(10) for j in range(10) if i != j])
    kept = pairs(select_graph(crowded, GraphOptions(top=1)))
    assert set(kept) == {(i, 0) for i in range(1, 10)} | {(0, i) for i in range(1, 10)}


def test_scores_and_numbers_limit_what_is_drawn():
    flow = small()
    assert [source for source, _ in pairs(select_graph(flow, GraphOptions(min_score=0.65)))] == [4, 0, 0]
    assert select_graph(flow, GraphOptions(min_score=0.65)).scores.min() >= 0.65
    assert pairs(select_graph(flow, GraphOptions(max_edges=1))) == [(4, 5)]


def test_one_namespace_can_be_drawn_and_an_unknown_one_is_an_error():
    chosen = select_graph(small(), GraphOptions(namespaces=("shop",)))
    assert chosen.places.tolist() == [4, 5]
    assert set(pairs(chosen)) == {(4, 5), (5, 4)}
    with pytest.raises(ConfigError, match="did you mean 'shop'"):
        select_graph(small(), GraphOptions(namespaces=("shopp",)))
    with pytest.raises(ConfigError, match="toolyard tools"):
        select_graph(small(), GraphOptions(namespaces=("zzz",)))


def test_tools_without_an_edge_can_be_left_out():
    assert 3 in select_graph(small(), GraphOptions()).places.tolist()
    assert 3 not in select_graph(small(), GraphOptions(linked=True)).places.tolist()


@pytest.mark.parametrize("options", [{"top": -1}, {"min_score": 1.5}, {"min_score": -0.1}, {"max_edges": -1}])
def test_invalid_graph_options_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        GraphOptions(**options)


def test_an_empty_selection_is_allowed():
    empty = select_graph(dataflow_of([], []), GraphOptions())
    assert (len(empty.places), len(empty.sources)) == (0, 0)


def test_a_tool_has_more_than_top_edges_only_for_the_other_end():
    flow = many(300, 9)
    chosen = select_graph(flow, GraphOptions(top=2))
    kept = set(pairs(chosen))
    for source, target in kept:
        best = [place for place, _ in flow.out_edges(source)[:2]]
        best_in = [place for place, _ in flow.in_edges(target)[:2]]
        assert target in best or source in best_in
