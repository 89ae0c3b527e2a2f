"""The page as people use it: a real browser, a file on disk, nothing else."""

import pytest
from browsing import launch_browser
from playwright.sync_api import expect

from conftest import SOAK
from insight.graph_yards import HOSTILE, hostile, many, small
from tests.insight.given_dataflow import dataflow_of
from toolyard.insight.graph import GraphOptions, select_graph, to_html

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def page():
    """For all tests: a page of its own costs each a process of the browser."""
    with launch_browser() as browser:
        page = browser.new_page()
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("dialog", lambda dialog: page.problems.append(dialog.message))
        page.on("request", lambda request: page.problems.append(request.url) if request.url[:4] == "http" else None)
        yield page


@pytest.fixture
def show(page, tmp_path):
    """Opens a dataflow as a page that notes whatever it should not do."""

    def shown(flow, width=1400, height=900, scheme="light"):
        page.goto("about:blank")
        page.problems.clear()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        path = tmp_path / "graph.html"
        path.write_text(to_html(select_graph(flow, GraphOptions())), "utf-8")
        page.goto(path.as_uri())
        page.wait_for_function("window.toolyardGraph !== undefined")
        return page

    return shown


def place_of(page, name):
    """Where a tool is on the screen."""
    return page.evaluate(
        """(name) => {
            const at = document.getElementById("graph").getBoundingClientRect();
            const node = toolyardGraph.nodes(".tool").filter((node) => node.data("label") === name).first();
            const place = node.renderedPosition();
            return [at.left + place.x, at.top + place.y];
        }""",
        name,
    )


def search(page, words):
    page.keyboard.press("/")
    page.locator("#query").fill(words)
    page.keyboard.press("Enter")


def test_clicking_on_a_tool_shows_its_edges(show):
    page = show(small())
    page.mouse.click(*place_of(page, "list_orders"))
    panel = page.locator("#panel")
    expect(panel.get_by_role("heading", name="list_orders")).to_be_visible()
    expect(panel.get_by_text("Feeds (1)")).to_be_visible()
    expect(panel.get_by_text("Fed by (2)")).to_be_visible()
    expect(panel.get_by_text("orders[].id → order_id")).to_be_visible()
    panel.get_by_role("button", name="get_order").first.click()
    expect(panel.get_by_role("heading", name="get_order")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel.get_by_text("Click on a tool")).to_be_visible()
    assert page.problems == []


def test_search_leads_to_one_of_many_tools_by_keyboard_alone(show):
    number = 2000 if SOAK else 200
    page = show(many(number, 60))
    assert page.locator("#status").inner_text().startswith(f"{number:,} tools")
    search(page, "archive user")
    expect(page.get_by_role("heading", name="archive_user")).to_be_visible()
    assert page.evaluate("toolyardGraph.zoom()") >= 0.9
    x, y = place_of(page, "archive_user")
    box = page.locator("#graph").bounding_box()
    assert abs(x - box["x"] - box["width"] / 2) < 2 and abs(y - box["y"] - box["height"] / 2) < 2
    search(page, "zzzz")
    expect(page.get_by_text("No tool has that")).to_be_visible()
    assert page.problems == []


def test_filters_by_namespace_and_score(show):
    page = show(small())
    status = page.locator("#status")
    assert status.inner_text() == "6 tools, 5 of 5 edges"
    page.locator("#namespace").select_option("shop")
    assert status.inner_text() == "2 tools, 2 of 5 edges"
    page.locator("#namespace").select_option("")
    page.get_by_label("Score from").fill("0.8")
    assert status.inner_text() == "6 tools, 2 of 5 edges"
    page.get_by_label("only tools with edges").check()
    assert status.inner_text() == "4 tools, 2 of 5 edges"
    search(page, "sing")
    expect(page.get_by_role("heading", name="sing")).to_be_visible()
    assert status.inner_text() == "6 tools, 2 of 5 edges", "what is looked for is shown"
    assert page.problems == []


def test_tools_do_not_overlap(show):
    page = show(many(60, 5))
    places = page.evaluate("toolyardGraph.nodes('.tool').map((node) => [node.position().x, node.position().y])")
    boxes = sorted(places)
    assert all(
        abs(x1 - x2) >= 150 or abs(y1 - y2) >= 22 for at, (x1, y1) in enumerate(boxes) for x2, y2 in boxes[at + 1 :]
    )
    assert page.problems == []


def test_hostile_names_are_shown_and_not_executed(show):
    page = show(hostile())
    search(page, "alert(1)")
    assert HOSTILE[:40] in page.locator("#panel h2").inner_text()
    assert page.locator("script").count() == 3
    assert page.locator("img").count() == 0
    assert page.problems == []


def test_the_policy_blocks_an_injected_script(show):
    page = show(small())
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.broken = 1";
                document.body.append(script);
            }"""
        )
    assert page.evaluate("window.broken") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(show, scheme):
    page = show(small(), 390, 844, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.locator("#graph").bounding_box()["height"] > 300
    page.mouse.click(*place_of(page, "find_user"))
    expect(page.get_by_role("heading", name="find_user")).to_be_visible()
    assert page.problems == []


def test_an_empty_graph_is_a_page(show):
    page = show(dataflow_of([], []))
    assert page.locator("#status").inner_text() == "0 tools, 0 of 0 edges"
    assert page.problems == []
