"""The graph for other programs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from insight.graph_yards import hostile, many, small
from tests.insight.given_dataflow import dataflow_of
from toolyard.insight.graph import GraphOptions, replace_invisible, select_graph, to_dot, to_json, to_mermaid

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
