"""Where everything is drawn."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from insight.graph.yards import hostile, many, small
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.graph import Wanted, lay_out, to_svg
from toolyard.insight.graph.labels import cells
from toolyard.insight.graph.picture import CHAR, ROW
from toolyard.model.tool import Tool

TESTS = Path(__file__).parents[2]


def overlapping(rectangles):
    """Pairs that overlap, by a sweep from left to right."""
    found, open_ = [], []
    for one in sorted(rectangles):
        open_ = [other for other in open_ if other[2] > one[0]]
        found += [(one, other) for other in open_ if one[1] < other[3] and other[1] < one[3]]
        open_.append(one)
    return found


@pytest.mark.parametrize(("count", "spaces"), [(1, 1), (200, 12), (200, 200), (700, 1), (5000, 120)])
def test_no_label_overlaps_another_and_all_are_inside_their_namespace(count, spaces):
    picture = lay_out(many(count, spaces))
    assert len(picture.nodes) == count
    assert len(picture.boxes) == spaces
    assert overlapping([(n.x, n.y, n.x + n.width, n.y + ROW) for n in picture.nodes]) == []
    assert overlapping([(b.x, b.y, b.x + b.width, b.y + b.height) for b in picture.boxes]) == []
    for node in picture.nodes:
        box = picture.boxes[node.box]
        assert box.x < node.x and node.x + node.width < box.x + box.width
        assert box.y < node.y and node.y + ROW < box.y + box.height
        assert cells(node.label) * CHAR <= node.width
    assert all(b.x + b.width <= picture.width and b.y + b.height <= picture.height for b in picture.boxes)


def test_lines_begin_and_end_at_the_sides_of_their_tools():
    picture = lay_out(many(300, 9))
    assert picture.lines
    for line in picture.lines:
        for node, x, y in (
            (picture.nodes[line.source], *line.points[:2]),
            (picture.nodes[line.target], *line.points[-2:]),
        ):
            assert min(abs(x - node.x), abs(x - node.x - node.width)) < 0.2
            assert abs(y - node.y - ROW / 2) < 0.2
        assert (len(line.points) - 2) % 6 == 0
        assert 0 <= line.strength <= 1
    scores = [line.score for line in picture.lines]
    assert scores == sorted(scores)


def test_lines_between_two_namespaces_share_one_strand():
    picture = lay_out(many(300, 6), Wanted(top=5))
    strands = {}
    for line in picture.lines:
        ends = picture.nodes[line.source].box, picture.nodes[line.target].box
        if ends[0] != ends[1]:
            strands.setdefault(ends, set()).add(line.points[6:14])
    assert strands
    assert all(len(ways) == 1 for ways in strands.values())


def test_overloads_are_numbered_and_shared_beginnings_left_out():
    labels = [node.label for node in lay_out(small()).nodes]
    assert sorted(labels) == ["find_user", "get_order", "get_user", "get_user (2)", "list_orders", "sing"]
    tools = [Tool(f"files.projects.{verb}", "n") for verb in ("list", "get")]
    assert [node.label for node in lay_out(Dataflow.from_edges(tools, [])).nodes] == ["…list", "…get"]


def test_a_picture_of_nothing_and_one_of_odd_names_can_be_made():
    assert lay_out(Dataflow.from_edges([], [])).nodes == ()
    assert len(lay_out(hostile()).lines) == 2


def test_edges_of_one_score_are_all_strong():
    tools = [Tool("a", "n"), Tool("b", "n"), Tool("c", "n")]
    picture = lay_out(Dataflow.from_edges(tools, [(0, 1, 0.8), (1, 2, 0.8)]))
    assert [line.strength for line in picture.lines] == [1, 1]


def test_the_same_tools_give_the_same_picture_in_every_process():
    code = (
        "from insight.graph.yards import many\n"
        "from toolyard.insight.graph import lay_out, to_html, to_svg\n"
        "import hashlib, sys\n"
        "picture = lay_out(many(400, 15))\n"
        "print(hashlib.sha256((to_svg(picture) + to_html(picture)).encode()).hexdigest())"
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
    assert to_svg(lay_out(many(50, 3))) == to_svg(lay_out(many(50, 3)))
