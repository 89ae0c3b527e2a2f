"""The console as people use it: a real browser, a real server."""

import asyncio
import json
from itertools import combinations

import httpx
import pytest
from playwright.sync_api import expect
from waiting import until

from conftest import SOAK
from serving.console.browser_support import audit, focused_text, has_no_overflow, open_page
from serving.console.page_app import HOSTILE, TOKEN, Edges, Keys, app_of, sample_tools, serve_app, service_of
from toolyard import ToolContext, function_tool
from toolyard.serving.console.rendering import tool_path

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def url():
    with serve_app(app_of(service_of(sample_tools(), enrichments=[Edges()]))) as url:
        fill(url)
        yield url


def fill(url):
    """A session in which hostile things were sent, answered and refused."""
    with httpx.Client(verify=False, base_url=url) as client:
        client.post("/v1/sessions", json={"session_id": "visit"})
        for name, arguments in (
            (f"hostile::{HOSTILE}", {HOSTILE: HOSTILE}),
            ("core::echo", {"text": HOSTILE}),
            ("core::fail", {"reason": HOSTILE}),
            ("core::echo", {HOSTILE: 1}),
            (HOSTILE, {}),
        ):
            calls = [{"name": name, "arguments": arguments}]
            client.post("/v1/sessions/visit/execute", json={"calls": calls}).raise_for_status()
        client.post("/v1/sessions/visit/fork", json={"session_id": "visit again"})


def test_from_the_list_to_an_answer(page, url):
    page.goto(url)
    assert has_no_overflow(page)
    page.get_by_role("link", name="split_bill").click()
    page.get_by_label("total").fill("90")
    page.get_by_label("people").fill("4")
    page.get_by_role("button", name="Run").click()
    assert page.get_by_label("Result").inner_text().split() == ["[", "22.5,", "22.5,", "22.5,", "22.5", "]"]
    assert page.get_by_label("total").input_value() == "90"
    assert page.get_by_label("none").is_checked()
    assert has_no_overflow(page) and page.problems == []


def test_every_control_sends_what_it_shows(page, url):
    page.goto(f"{url}/console/tools/desk::book_room")
    page.get_by_label("room").select_option("Cedar")
    page.get_by_label("day").fill("2026-11-20")
    page.get_by_label("true").check()
    page.get_by_label("guests").fill("ann@example.org\nbob@example.org")
    page.get_by_label("options").fill('{"chairs": 12}')
    page.get_by_role("button", name="Run").click()
    shown = page.get_by_label("Result").inner_text()
    for part in ('"Cedar"', '"2026-11-20"', "true", '"ann@example.org"', '"bob@example.org"', '"chairs": 12'):
        assert part in shown
    assert "9007199254740993" in shown
    assert has_no_overflow(page) and page.problems == []


def test_a_mistake_leads_to_its_field(page, url):
    page.goto(f"{url}/console/tools/desk::split_bill")
    page.get_by_label("total").fill("90")
    page.get_by_label("people").fill("four")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("link", name="people").click()
    assert page.get_by_label("people").get_attribute("aria-invalid") == "true"
    expect(page.get_by_text("write a whole number, such as 42").first).to_be_visible()
    assert has_no_overflow(page)


def test_hostile_text_runs_nothing_and_comes_back_unchanged(page, url):
    page.goto(url + tool_path(f"hostile::{HOSTILE}"))
    page.get_by_role("button", name="Run").click()
    assert HOSTILE.replace('"', '\\"') in page.get_by_label("Result").inner_text()
    assert page.locator("script").count() == 1
    assert has_no_overflow(page) and page.problems == []


def test_searching_and_running_by_keyboard_alone(page, url):
    page.goto(url)
    page.keyboard.press("Tab")
    assert focused_text(page) == "Skip to content"
    page.keyboard.press("/")
    page.keyboard.type("split a bill")
    page.get_by_role("heading", name="Tools for “split a bill”").wait_for()
    assert page.url.endswith("?q=split+a+bill")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert "split_bill" in focused_text(page)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.get_by_label("total").focus()
    page.keyboard.type("90")
    page.keyboard.press("Tab")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    page.get_by_label("Result").wait_for()
    assert page.problems == []


def test_j_and_k_move_within_a_list(page, url):
    page.goto(url)
    seen = []
    for key in "kjjkjjjjjjjjjj":
        page.keyboard.press(key)
        seen.append(focused_text(page).split()[0])
    assert seen[:4] == ["split_bill", "book_room", "echo", "book_room"] and seen[-1] == seen[-2]


def test_a_result_replaces_part_of_the_page_and_keeps_the_focus(page, url):
    page.goto(f"{url}/console/tools/core::echo")
    page.evaluate("window.stayed = true")
    page.get_by_label("text").fill("hello")
    page.get_by_role("button", name="Run").click()
    page.get_by_label("Result").wait_for()
    assert page.evaluate("window.stayed") and focused_text(page) == "Run"
    assert page.get_by_label("text").input_value() == "hello"


def test_json_folds_and_is_copied_whole(browser, url):
    with open_page(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(f"{url}/console/tools/desk::book_room")
        page.get_by_text("Input schema").click()
        block = page.locator(".schemas y-json").first
        before = block.inner_text()
        block.get_by_role("button", name="Fold").first.click()
        assert len(block.inner_text()) < len(before) / 2
        block.hover()
        block.get_by_role("button", name="Copy").click()
        block.get_by_role("button", name="Copied").wait_for()
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        assert copied["required"] == ["room", "day", "projector"] and page.problems == []


def test_folding_does_not_change_the_text_of_json(page, url):
    page.goto(url)
    text = json.dumps({"rows": [{"n": 1}, [2, {"deep": [[3]]}], "{"], "end": {}}, indent=2)
    shown = page.evaluate(
        """text => {
            const block = document.createElement("y-json"), code = document.createElement("code")
            code.textContent = text
            block.append(code)
            document.querySelector("main").append(block)
            return code.innerText
        }""",
        text,
    )
    assert shown.split() == text.split() and page.locator(".fold").count() > 3


def test_an_example_is_put_into_an_empty_control_and_what_is_typed_stays_when_the_form_turns_into_json(page, url):
    page.goto(f"{url}/console/tools/desk::book_room")
    page.get_by_role("button", name="Insert example").click()
    assert json.loads(page.get_by_label("options").input_value()) == {"chairs": 0}
    expect(page.get_by_role("button", name="Insert example")).to_be_hidden()
    page.get_by_label("guests").fill("ann@example.org")
    page.get_by_role("button", name="Edit as JSON").click()
    arguments = json.loads(page.get_by_label("Arguments as JSON").input_value())
    assert arguments["guests"] == ["ann@example.org"] and arguments["options"] == {"chairs": 0}
    page.get_by_role("button", name="Use the form").click()
    page.get_by_label("guests").wait_for()
    assert page.get_by_label("guests").input_value() == "ann@example.org"
    assert page.problems == [] and has_no_overflow(page)


def test_an_overload_is_chosen_and_run_by_its_own_form(page, url):
    page.goto(url + tool_path("weather api/v2::get weather"))
    expect(page.get_by_label("city")).to_be_visible()
    page.get_by_label("Overloads").get_by_role("link", name="(lat, lon)").click()
    page.get_by_label("lat").fill("52.5")
    page.get_by_label("lon").fill("13.4")
    page.get_by_role("button", name="Run").click()
    assert '"celsius": 8.0' in page.get_by_label("Result").inner_text()
    # The answer is beside the form of the overload that ran.
    assert page.get_by_label("lat").input_value() == "52.5" and page.get_by_label("city").count() == 0
    assert has_no_overflow(page) and page.problems == []


def test_forms_work_without_script(browser, url):
    with open_page(browser, java_script_enabled=False) as page:
        page.goto(url)
        page.get_by_label("Search tools").fill("split a bill")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="split_bill").click()
        page.get_by_label("total").fill("90")
        page.get_by_label("people").fill("four")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("write a whole number, such as 42").first).to_be_visible()
        page.problems.clear()  # the browser reports the status 400
        page.get_by_label("people").fill("4")
        page.get_by_role("button", name="Edit as JSON").click()
        page.get_by_role("button", name="Simulate").click()
        expect(page.get_by_text("Done; nothing was changed or recorded.")).to_be_visible()
        page.get_by_role("button", name="Use the form").click()
        page.get_by_role("button", name="Run").click()
        assert "22.5" in page.get_by_label("Result").inner_text()
        page.goto(f"{url}/console/sessions/visit")
        page.get_by_label("Name of the fork").fill("without script")
        page.get_by_role("button", name="Fork", exact=True).click()
        expect(page.get_by_role("heading", name="without script")).to_be_visible()
        page.goto(f"{url}/console/sources")
        page.get_by_role("button", name="Reload all").click()
        expect(page.get_by_text("Sources reloaded.")).to_be_visible()
        assert page.problems == []


def test_bytes_are_read_from_a_file(page):
    schema = {"type": "object", "properties": {"image": {"type": "string", "format": "base64"}}}
    tool = function_tool(lambda image: len(image), namespace="a", name="b", parameters=schema)
    with serve_app(app_of(service_of([tool]))) as url:
        page.goto(f"{url}/console/tools/a::b")
        page.get_by_label("Read the bytes of a file").set_input_files(
            {"name": "x.bin", "mimeType": "application/octet-stream", "buffer": bytes([0, 255, 1])}
        )
        page.wait_for_function("document.getElementById('f-a0').value === 'AP8B'")
        assert page.problems == [] and has_no_overflow(page)


def test_times_are_relative_and_keep_the_exact_one_as_tooltip(page, url):
    page.goto(f"{url}/console/sessions")
    time = page.locator("time[data-moment]").first
    assert time.inner_text() in ("just now", "1 minute ago") and "UTC" in time.get_attribute("title")


def test_a_phone_shows_every_place_of_the_navigation(page, url):
    page.goto(f"{url}/console/connect")
    for link in page.locator(".places a").all():
        box = link.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"], link.inner_text()


class SlowTool:
    """Says how far it is until somebody lets it go on, and what has become of its calls."""

    def __init__(self):
        self.ended = []
        self.may_end = False

    def make(self):
        async def wander(ctx: ToolContext) -> str:
            """Take a while."""
            try:
                while not self.may_end:
                    ctx.report(1, 3, "one step of three")
                    await asyncio.sleep(0.05)
                self.ended.append("answered")
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            return "there"

        return function_tool(wander, namespace="slow", name="wander")


@pytest.fixture
def slow():
    tool = SlowTool()
    with serve_app(app_of(service_of([tool.make()]))) as url:
        tool.url = f"{url}/console/tools/slow::wander"
        yield tool


def test_progress_is_shown_while_a_call_runs(page, slow):
    page.goto(slow.url)
    page.get_by_role("button", name="Run").click()
    page.get_by_text("one step of three").wait_for()
    expect(page.get_by_role("progressbar")).to_be_visible()
    assert page.get_by_role("button", name="Run").is_disabled()
    slow.may_end = True
    page.get_by_label("Result").wait_for()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    assert page.get_by_role("button", name="Run").is_enabled()
    assert slow.ended == ["answered"] and page.problems == [] and has_no_overflow(page)


def test_a_call_is_cancelled_where_it_runs(page, slow):
    page.goto(slow.url)
    page.get_by_role("button", name="Run").click()
    # A call cancelled before the server has begun it runs nowhere.
    page.get_by_text("one step of three").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled. It may have taken effect").wait_for()
    until(lambda: slow.ended == ["cancelled"])
    assert page.get_by_role("button", name="Run").is_enabled()


SCREENS = [
    "/console/tools",
    "/console/tools?q=meeting+room",
    "/console/tools?q=zzzz",
    "/console/tools/desk::book_room",
    "/console/tools/desk::book_room?as=json",
    "/console/tools/nothing",
    "/console/tools/core::echo?session=visit&entry=2",
    tool_path(f"hostile::{HOSTILE}"),
    "/console/sessions",
    "/console/sessions/visit",
    "/console/sessions/visit?at=2",
    "/console/sessions/visit/diff?at_a=0",
    "/console/sources",
    "/console/graph",
    "/console/connect",
]


def test_hostile_text_runs_nothing_on_any_screen(page, url):
    for path in SCREENS:
        answer = page.goto(url + path)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.name = ''; one.open = true; })")
        assert page.locator("script").count() == 1 and page.locator("img[src=x]").count() == 0, path
        assert has_no_overflow(page), path
        assert page.problems == [] or answer.status == 404, (path, page.problems)
        page.problems.clear()


def test_the_dataflow_is_drawn_and_a_tool_of_it_leads_to_its_page(page, url):
    page.goto(f"{url}/console/graph")
    drawing = page.locator("y-graph")
    drawing.locator("canvas").first.wait_for()
    place = drawing.evaluate(
        "box => box._cyreg.cy.nodes().filter(node => node.data('label') === 'core\\necho').renderedPosition()"
    )
    drawing.click(position=place)
    page.wait_for_url("**/console/tools/core::echo")
    assert page.problems == []


def test_tools_that_feed_each_other_in_a_circle_are_drawn_apart(browser):
    tools = [function_tool(lambda order: order, namespace="shop", name=name) for name in ("create", "get", "change")]
    with serve_app(app_of(service_of(tools, enrichments=[Edges(in_circle=True)]))) as url, open_page(browser) as page:
        page.goto(f"{url}/console/graph")
        page.locator("y-graph canvas").first.wait_for()
        tops = page.evaluate("document.querySelector('y-graph')._cyreg.cy.nodes().map(node => node.position('y'))")
        assert min(abs(a - b) for a, b in combinations(tops, 2)) > 20 and page.problems == []


def test_a_session_unfolds_call_by_call_and_is_forked(page, url):
    page.goto(f"{url}/console/sessions/visit")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.evaluate("document.querySelector('[data-swap]').swapIn()")  # a refresh keeps the row that has the focus
    page.keyboard.press("Enter")
    page.locator("#e2").get_by_text("Arguments").wait_for()
    assert page.locator(".timeline .bar").count() == 5
    page.locator("#e2").get_by_role("link", name="Send again with changes").click()
    page.wait_for_url("**/console/tools/core::echo?session=visit&entry=2")
    assert page.get_by_label("text").input_value() == HOSTILE
    page.goto(f"{url}/console/sessions/visit")
    page.get_by_role("button", name="Fork", exact=True).click()
    page.wait_for_url(lambda there: "/console/sessions/" in there and not there.endswith("visit"))
    assert page.locator(".timeline details").count() == 5 and page.problems == []


def test_the_focus_stays_on_its_call_when_others_come_in_above(page, url):
    page.goto(f"{url}/console/calls")
    page.keyboard.press("j")
    rows, focused = page.locator("[data-rows] .row"), "document.activeElement.href"
    shown, before = rows.count(), page.evaluate(focused)
    call = {"name": "core::echo", "arguments": {"text": "x"}}
    assert httpx.post(f"{url}/v1/calls", json={"calls": [call]}, verify=False).status_code == 200
    page.evaluate("document.querySelector('[data-swap]').swapIn()")
    expect(rows).to_have_count(shown + 1)
    assert page.evaluate(focused) == before and page.problems == []


def test_forks_can_be_collapsed(page, url):
    page.goto(f"{url}/console/sessions")
    again = page.get_by_role("link", name="visit again")
    expect(again).to_be_visible()
    assert has_no_overflow(page)
    page.get_by_role("button", name="Forks of visit", exact=True).click()
    expect(again).to_be_hidden()
    page.get_by_role("button", name="Forks of visit", exact=True).press("Enter")
    expect(again).to_be_visible()
    assert page.problems == []


def test_reloading_sources_replaces_part_of_the_page(page, url):
    page.goto(f"{url}/console/sources")
    page.evaluate("window.stayed = true")
    page.get_by_role("button", name="Reload all").click()
    page.get_by_text("Sources reloaded.").wait_for()
    assert page.evaluate("window.stayed") and focused_text(page) == "Reload all"


def test_axe_finds_nothing_serious_and_text_stands_out_on_any_screen(browser, url, axe):
    """WCAG AA: 4.5 to 1 for every text there is on the pages, in both colour schemes."""
    with open_page(browser, reduced_motion="reduce") as page:
        # Those that are left out show parts of the others.
        for path in SCREENS if SOAK else SCREENS[2:4] + SCREENS[6:7] + SCREENS[8:10] + SCREENS[12:]:
            page.goto(url + path)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert page.evaluate(CONTRAST) == [], (path, scheme)
            # All text was just held to more than axe asks of it.
            assert audit(page, axe, contrast=False) == [], path


def test_signing_in_and_out(page):
    with serve_app(app_of(service_of(sample_tools(), keys=Keys()))) as url:
        page.goto(f"{url}/console/tools/desk::split_bill")
        page.get_by_label("API key").fill("ty_wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("one long word").wait_for()
        page.get_by_label("API key").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{url}/console/tools/desk::split_bill")
        [cookie] = page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        page.get_by_label("total").fill("90")
        page.get_by_label("people").fill("4")
        page.get_by_role("button", name="Run").click()
        assert "22.5" in page.get_by_label("Result").inner_text()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{url}/console/sign-in")
        page.goto(url)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const layers = element => { const found = []; for (; element; element = element.parentElement) found.unshift(getComputedStyle(element).backgroundColor); return found; };
  const pixel = colours => { canvas.clearRect(0, 0, 1, 1); for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); } return canvas.getImageData(0, 0, 1, 1).data; };
  const light = data => { const [r, g, b] = [...data].slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()) || !element.checkVisibility()) continue;
    const behind = layers(element), [a, b] = [light(pixel(behind)), light(pixel([...behind, getComputedStyle(element).color]))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([element.className || element.tagName, element.textContent.trim().slice(0, 30), ratio]);
  }
  return poor;
}"""


def test_a_form_of_another_site_runs_nothing(page, url):
    """A browser with that site open says where the form came from, and the server refuses it."""
    with serve_app(_other_site(url)) as elsewhere:
        page.goto(elsewhere)
        with page.expect_response(lambda answer: answer.url.startswith(url)) as answered:
            page.get_by_role("button").click()
    assert answered.value.status == 403


def _other_site(target):
    form = f'<form method="post" action="{target}/console/tools/core::echo"><input name="a0" value="x"><button>go</button></form>'

    async def site(scope, receive, send):
        headers = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": form.encode()})

    return site
