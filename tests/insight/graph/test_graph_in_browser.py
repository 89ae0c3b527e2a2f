"""The page as people use it: a real browser, a file on disk, nothing else."""

import pytest
from browsing import started

from insight.graph.yards import HOSTILE, hostile, many, small
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.graph import lay_out, to_html, to_svg


@pytest.fixture(scope="module")
def browser():
    with started() as browser:
        yield browser


@pytest.fixture
def show(browser, tmp_path):
    """Opens a dataflow as a page that notes whatever it should not do."""
    contexts = []

    def shown(flow, width=1400, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("dialog", lambda dialog: page.problems.append(dialog.message))
        page.on("request", lambda request: page.problems.append(request.url) if request.url[:4] == "http" else None)
        path = tmp_path / "graph.html"
        path.write_text(to_html(lay_out(flow)), "utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector("#canvas[data-view]")
        return page

    yield shown
    for context in contexts:
        context.close()


def place_of(page, name):
    """Where a tool is on the screen."""
    return page.evaluate(
        """(name) => {
            const data = JSON.parse(document.getElementById("data").textContent);
            const [x, y, k] = document.getElementById("canvas").dataset.view.split(" ").map(Number);
            const node = data.nodes.find((one) => one[1] === name);
            const at = document.getElementById("canvas").getBoundingClientRect();
            return [at.left + x + (node[3] + node[5] / 2) * k, at.top + y + (node[4] + data.row / 2) * k];
        }""",
        name,
    )


def view_of(page):
    page.wait_for_timeout(60)
    return [float(part) for part in page.locator("#canvas").get_attribute("data-view").split()]


def pixels(page):
    """How many different colours the canvas shows."""
    return page.evaluate(
        """() => {
            const canvas = document.getElementById("canvas");
            const dots = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            const seen = new Set();
            for (let at = 0; at < dots.length; at += 4) seen.add((dots[at] << 16) | (dots[at + 1] << 8) | dots[at + 2]);
            return seen.size;
        }"""
    )


def test_pointing_at_a_tool_tells_what_it_feeds_and_clicking_keeps_it(show):
    page = show(small())
    page.mouse.move(*place_of(page, "list_orders"))
    panel = page.locator("#panel")
    assert panel.get_by_text("Feeds (1)").is_visible()
    assert panel.get_by_text("Fed by (2)").is_visible()
    assert panel.get_by_text("orders[].id → order_id").is_visible()
    assert page.locator("#tip").get_by_text("shop::list_orders").is_visible()
    page.mouse.click(*place_of(page, "list_orders"))
    page.mouse.move(300, 880)
    assert panel.get_by_role("heading", name="list_orders").is_visible()
    panel.get_by_role("button", name="get_order").first.click()
    assert panel.get_by_role("heading", name="get_order").is_visible()
    panel.get_by_role("button", name="Let go").click()
    assert panel.get_by_text("Point at a tool").is_visible()
    assert page.problems == []


def test_search_leads_to_a_tool_by_keyboard_alone(show):
    page = show(many(500, 20))
    before = view_of(page)
    page.keyboard.press("/")
    page.keyboard.type("archive user")
    found = page.get_by_role("option")
    assert "archive_user" in found.first.inner_text()
    page.keyboard.press("ArrowDown")
    assert found.nth(1).get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.get_by_role("heading", name="archive_user").is_visible()
    assert view_of(page) != before
    x, y = place_of(page, "archive_user")
    box = page.locator("#canvas").bounding_box()
    assert abs(x - box["x"] - box["width"] / 2) < 2 and abs(y - box["y"] - box["height"] / 2) < 2
    page.keyboard.press("Escape")
    assert page.locator("#panel").get_by_text("Point at a tool").is_visible()
    page.keyboard.press("/")
    page.keyboard.type("zzzz")
    assert page.get_by_text("No tool has that").is_visible()
    assert page.problems == []


def test_zooming_and_moving_by_wheel_mouse_and_keys(show):
    page = show(many(200, 12))
    x, y, k = view_of(page)
    page.mouse.move(700, 450)
    page.mouse.wheel(0, -400)
    near = view_of(page)
    assert near[2] > k
    page.mouse.down()
    page.mouse.move(760, 420, steps=3)
    page.mouse.up()
    moved = view_of(page)
    assert moved[0] - near[0] == pytest.approx(60) and moved[1] - near[1] == pytest.approx(-30)
    assert page.locator("#panel").get_by_text("Point at a tool").is_visible(), "dragging is not clicking"
    page.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    assert view_of(page)[0] == pytest.approx(moved[0] - 80)
    page.keyboard.press("+")
    assert view_of(page)[2] > moved[2]
    page.keyboard.press("0")
    assert view_of(page) == pytest.approx([x, y, k])
    page.get_by_role("button", name="Zoom in").click()
    assert view_of(page)[2] > k
    assert page.problems == []


def test_filters_by_namespace_and_score(show):
    page = show(small())
    status = page.locator("#status")
    assert status.inner_text() == "6 tools, 5 edges shown"
    page.get_by_label("Show desk").uncheck()
    assert status.inner_text() == "2 tools, 2 edges shown"
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_label("Score from").fill("0.8")
    assert status.inner_text() == "6 tools, 2 edges shown"
    page.get_by_label("Only tools with edges").check()
    assert status.inner_text() == "4 tools, 2 edges shown"
    page.get_by_role("button", name="None", exact=True).click()
    assert status.inner_text() == "0 tools, 0 edges shown"
    page.get_by_role("searchbox", name="Narrow").fill("sho")
    assert page.get_by_label("Show desk").is_hidden()
    page.get_by_role("button", name="shop", exact=True).click()
    page.keyboard.press("/")
    page.keyboard.type("sing")
    page.keyboard.press("Enter")
    assert page.get_by_role("heading", name="sing").is_visible(), "what is looked for is shown"
    assert page.problems == []


def test_hostile_names_run_nothing_and_are_shown_as_they_are(show):
    page = show(hostile())
    page.keyboard.press("/")
    page.keyboard.type("alert(1)")
    assert "onerror=alert(2)" in page.get_by_role("option").first.inner_text()
    page.keyboard.press("Enter")
    assert HOSTILE[:40] in page.locator("#panel h2").inner_text()
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    assert page.problems == []


def test_the_policy_stops_a_script_that_got_in_all_the_same(show):
    page = show(small())
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.broken = 1";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.broken = 2'>");
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.broken") is None
    assert any("Content Security Policy" in problem for problem in page.problems)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_five_thousand_tools_can_be_found_their_way_in(show, scheme):
    page = show(many(5000, 120), color_scheme=scheme)
    assert page.locator("#status").inner_text().startswith("5,000 tools")
    assert pixels(page) > 50
    page.keyboard.press("/")
    page.keyboard.type("merge_card")
    page.keyboard.press("Enter")
    assert page.get_by_role("heading", name="merge_card").is_visible()
    assert view_of(page)[2] >= 0.9
    assert page.problems == []


def test_a_phone_shows_it_without_scrolling_sideways(show):
    page = show(small(), 390, 844)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.locator("#canvas").bounding_box()["height"] > 300
    page.mouse.click(*place_of(page, "find_user"))
    assert page.get_by_role("heading", name="find_user").is_visible()
    assert page.problems == []


def test_nothing_to_draw_is_a_page_too(show):
    page = show(Dataflow.from_edges([], []))
    assert page.locator("#status").inner_text() == "0 tools, 0 edges shown"
    assert page.get_by_label("Score from").is_disabled()
    assert page.problems == []


def test_names_in_the_svg_fit_in_their_places(browser):
    page = browser.new_page()
    page.set_content(to_svg(lay_out(many(200, 12))))
    wide = page.evaluate(
        """() => [...document.querySelectorAll("g.node")].filter((node) => {
            const text = node.querySelector("text").getBBox();
            const place = node.querySelector("rect").getBBox();
            return text.x + text.width > place.x + place.width || text.y < place.y || text.y + text.height > place.y + place.height;
        }).length"""
    )
    assert page.locator("g.node").count() == 200
    assert wide == 0
    page.close()
