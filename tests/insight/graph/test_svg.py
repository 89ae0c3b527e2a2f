"""The picture as SVG."""

import xml.etree.ElementTree as ET

from insight.graph.yards import hostile, many, small
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.graph import lay_out, to_svg

SVG = "{http://www.w3.org/2000/svg}"


def titles(root, kind):
    return [one.findtext(f"{SVG}title") for one in root.iter(f"{SVG}{kind}") if one.find(f"{SVG}title") is not None]


def test_it_names_every_tool_and_says_what_every_edge_carries():
    root = ET.fromstring(to_svg(lay_out(small()), "Dataflow of the desk"))
    assert root.findtext(f"{SVG}title") == "Dataflow of the desk"
    assert "6 tools, 2 namespaces, 5 of 5 edges" in root.findtext(f"{SVG}desc")
    assert "desk::find_user\nFind a user by name." in titles(root, "g")
    assert "desk::find_user feeds shop::list_orders (0.70)\nusers[].id → user_id" in titles(root, "path")
    texts = ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]
    assert {"desk", "shop", "find_user", "get_user (2)"} <= set(texts)


def test_it_has_a_legend_and_colours_for_light_and_dark():
    text = to_svg(lay_out(many(80, 4)))
    assert 'class="legend"' in text
    assert "from 0." in text
    assert "prefers-color-scheme: dark" in text
    assert "var(" not in text, "viewers other than browsers know no variables"


def test_stronger_edges_are_drawn_over_weaker_ones():
    root = ET.fromstring(to_svg(lay_out(many(80, 4))))
    steps = [one.get("class").split()[-1] for one in root.iter(f"{SVG}path") if one.find(f"{SVG}title") is not None]
    assert steps == sorted(steps)
    assert set(steps) == {"s0", "s1", "s2", "s3"}


def test_it_is_still_xml_and_without_script_when_names_are_hostile():
    root = ET.fromstring(to_svg(lay_out(hostile()), "<script>alert(1)</script>\x00"))
    tags = {one.tag.removeprefix(SVG) for one in root.iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "g", "text", "path"}
    assert all(not name.startswith("on") and "href" not in name for one in root.iter() for name in one.attrib)
    assert any("onerror=alert(2)" in title for title in titles(root, "g"))


def test_no_tools_and_no_edges_make_a_picture_too():
    root = ET.fromstring(to_svg(lay_out(Dataflow.from_edges([], []))))
    assert "0 tools" in root.findtext(f"{SVG}desc")
    ET.fromstring(to_svg(lay_out(Dataflow.from_edges(small().tools, []))))
