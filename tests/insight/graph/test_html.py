"""The page as text."""

import base64
import hashlib
import html
import json
import re

from insight.graph.yards import HOSTILE, hostile, small
from toolyard.insight.graph import lay_out, to_html

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def policy_of(page):
    return html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1])


def test_the_policy_allows_its_own_script_and_style_and_nothing_else():
    page = to_html(lay_out(small()))
    for kind, text in (
        ("script", re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]),
        ("style", re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy_of(page)
    assert policy_of(page).startswith("default-src 'none'; ")
    assert "unsafe" not in policy_of(page)
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_it_names_no_other_resource():
    page = DATA.sub("", to_html(lay_out(small())))
    assert not re.search(r"https?://|@import|url\(", page)
    assert re.findall(r'\b(?:src|href)="([^"]*)"', page) == ["data:,"]
    assert "style=" not in page.replace("const style =", "")


def test_the_data_holds_everything_as_data():
    data = json.loads(DATA.search(to_html(lay_out(small())))[1])
    assert [box["name"] for box in data["boxes"]] == ["desk", "shop"]
    assert {node[1] for node in data["nodes"]} == {"find_user", "get_user", "sing", "list_orders", "get_order"}
    source, target, score, *_, covers, feeds, more = data["lines"][-1]
    assert (data["nodes"][source][1], data["nodes"][target][1], score) == ("list_orders", "get_order", 0.95)
    assert [data["words"][word] for word in feeds[0][:2]] == ["orders[].id", "order_id"]
    assert (covers, more) == (1, 0)


def test_hostile_text_cannot_leave_the_data():
    page = to_html(lay_out(hostile()), HOSTILE)
    assert page.count("<script") == 2
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert page.count("<style>") == 1
    data = DATA.search(page)[1]
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["boxes"][0]["name"].startswith("</script><script>alert(1)")
