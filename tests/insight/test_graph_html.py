"""The page as text."""

import base64
import hashlib
import html
import json
import re

from insight.graph_yards import HOSTILE, hostile, small
from toolyard.insight.graph import GraphOptions, select_graph, to_html

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
