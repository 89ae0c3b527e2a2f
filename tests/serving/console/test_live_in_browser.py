"""What appears by itself, as people see it: held calls, which go on once somebody says so, and the log of calls."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect
from waiting import SOON

from serving.console.browser_support import audit, has_no_overflow, open_page
from serving.console.test_approvals import CONFIG, HOSTILE, call
from serving.service_support import CORE, served
from toolyard import function_tool

pytestmark = pytest.mark.process


@pytest.fixture
def yard():
    with served(CONFIG, page=True) as server:
        server.post("/v1/sessions", {"session_id": "desk"})
        yield server


def test_a_held_call_appears_by_itself_and_approving_by_keyboard_lets_the_waiting_request_finish(page, yard):
    made = call(yard, "shop::create_order", {"status": "paid"})["result"]
    order = {"order_id": made["order_id"], "status": "refunded"}
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{yard.url}/console/approvals")
    page.get_by_text("Nothing waits for a decision").wait_for()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, yard, "shop::update_order", order, headers={"prefer": "wait=30"})
        page.get_by_text("What it would change").wait_for(timeout=20_000)  # less than the page waits between two looks
        assert f"{yard.url}/console/events" in asked
        assert page.locator(".changes del").first.inner_text() == "paid"
        assert page.locator(".changes ins").first.inner_text() == "refunded"
        assert has_no_overflow(page)
        page.keyboard.press("j")
        page.keyboard.press("a")
        page.get_by_text("shop::update_order is approved.").wait_for()
        assert waiting.result()["result"]["status"] == "refunded"
    [record] = yard.get("/v1/approvals").json["approvals"]
    assert (record["state"], record["outcome"]["code"]) == ("used", "ok")
    entries = yard.get("/v1/sessions/desk/history").json["entries"]
    assert [entry["tool_call"]["name"] for entry in entries][-1] == "shop::update_order"
    assert page.problems == []


def test_the_number_of_calls_that_wait_follows_what_happens_on_any_page(page, yard):
    page.goto(f"{yard.url}/console/connect")
    call(yard, "core::echo", {"text": "hi"})
    page.locator("y-count", has_text="1").wait_for()
    [waiting] = yard.get("/v1/approvals").json["approvals"]
    yard.post(f"/v1/approvals/{waiting['id']}:deny", {})
    page.locator("y-count:empty").wait_for(state="attached")
    assert has_no_overflow(page) and page.title().startswith("Connect") and page.problems == []


def test_denying_with_a_reason_refuses_the_waiting_request(page, yard):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, yard, "core::echo", {"text": HOSTILE}, headers={"prefer": "wait=30"})
        page.goto(f"{yard.url}/console/approvals")
        page.get_by_role("link", name="core::echo").click()
        page.get_by_label("Reason").fill(f"not today {HOSTILE}")
        page.keyboard.press("Enter")  # it decides nothing
        page.get_by_role("button", name="Deny").click()
        page.get_by_text("denied by").first.wait_for()
        assert waiting.result()["error_info"]["code"] == "tool.denied"
    assert page.locator("img[src=x]").count() == 0 and has_no_overflow(page) and page.problems == []


def test_axe_finds_nothing_serious_in_the_inbox_and_on_an_approval(browser, yard, axe):
    call(yard, "core::echo", {"text": HOSTILE})
    with open_page(browser) as page:
        page.goto(f"{yard.url}/console/approvals")
        assert audit(page, axe) == [] and has_no_overflow(page)
        page.get_by_role("link", name="core::echo").click()
        page.get_by_role("heading", name="The call").wait_for()
        assert audit(page, axe) == [] and has_no_overflow(page)


def test_what_is_focused_and_what_was_said_outlive_the_next_event(page, yard):
    made = call(yard, "shop::create_order", {"status": "paid"})["result"]
    for status in ("refunded", "lost"):
        call(yard, "shop::update_order", {"order_id": made["order_id"], "status": status})
    page.goto(f"{yard.url}/console/approvals")
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.id")
    assert focused.startswith("approval-")
    call(yard, "shop::update_order", {"order_id": made["order_id"], "status": "found"})
    page.get_by_text("found").first.wait_for()
    assert page.evaluate("document.activeElement.id") == focused
    page.keyboard.press("a")
    page.get_by_text("shop::update_order is approved.").wait_for()
    call(yard, "shop::update_order", {"order_id": made["order_id"], "status": "sold"})
    page.get_by_text("sold").first.wait_for()
    expect(page.get_by_text("shop::update_order is approved.")).to_be_visible()


def test_a_key_that_is_held_down_decides_once_and_the_next_call_is_focused(page, yard):
    for text in ("one", "two", "three"):
        call(yard, "core::echo", {"text": text})
    page.goto(f"{yard.url}/console/approvals")
    page.keyboard.press("j")
    page.keyboard.down("d")
    page.get_by_text("core::echo is denied.").wait_for()
    page.wait_for_function("document.querySelectorAll('[data-approval]').length === 2")
    page.keyboard.down("d")  # a browser says of this that it repeats
    assert page.evaluate("document.activeElement.closest('[data-approval]') !== null")
    page.keyboard.up("d")
    states = [one["state"] for one in yard.get("/v1/approvals").json["approvals"]]
    assert sorted(states) == ["denied", "pending", "pending"] and page.problems == []


def test_a_click_that_was_meant_for_the_call_before_decides_nothing(page, yard):
    call(yard, "core::echo", {"text": "one"})
    page.goto(f"{yard.url}/console/approvals")
    page.locator("[data-approval] .actions").wait_for()
    styles = page.evaluate(
        """() => {
            const form = document.querySelector("[data-approval] .actions"), fresh = form.cloneNode(true);
            form.replaceWith(fresh);  // as every change of the list puts another one there
            const [animation] = fresh.getAnimations();
            const at = time => { animation.currentTime = time; return getComputedStyle(fresh).pointerEvents; };
            return [at(0), at(400), at(600)];
        }"""
    )
    assert styles == ["none", "none", "auto"]


def test_a_list_that_grows_by_itself_stays_where_it_is_read(page, yard):
    for number in range(40):
        yard.invoke("core::calc", {"expression": str(number)})
    page.goto(f"{yard.url}/console/calls")
    page.evaluate("scrollTo(0, 600)")
    seen = "[...document.querySelectorAll('.rows a')].find(row => row.getBoundingClientRect().top > 0).href"
    before, count = page.evaluate(seen), page.locator(".rows a").count()
    yard.invoke("core::calc", {"expression": "6 * 7"})
    page.wait_for_function("count => document.querySelectorAll('.rows a').length > count", arg=count)
    assert page.evaluate(seen) == before and page.problems == []


def test_a_session_grows_by_itself_and_what_was_unfolded_stays_so(page, yard):
    call(yard, "core::calc", {"expression": "1 + 1"})
    page.goto(f"{yard.url}/console/sessions/desk")
    page.locator(".timeline summary").click()
    call(yard, "core::calc", {"expression": "6 * 7"})
    page.locator(".timeline summary").get_by_text("6 * 7").wait_for()
    assert page.locator(".timeline details[open]").count() == 1 and page.problems == []


def test_calls_appear_as_they_end_and_nothing_in_them_runs(page, yard, axe):
    page.goto(f"{yard.url}/console/calls")
    yard.invoke(HOSTILE, {})
    page.locator(".row.call").wait_for()
    assert HOSTILE in page.locator(".row.call").first.inner_text() and has_no_overflow(page)
    assert page.locator("script").count() == 1 and audit(page, axe) == []
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="The call").wait_for()
    assert audit(page, axe) == [] and has_no_overflow(page) and page.problems == []


def test_a_slow_call_is_shown_while_it_runs(page, axe):
    done = threading.Event()
    wait = function_tool(lambda: done.wait(SOON), name="wait", namespace="<b>slow", description="Waits.")
    with served(CORE, tools=[wait], page=True) as yard, ThreadPoolExecutor() as threads:
        # Once its stream is open, the page asks for what it may have missed.
        with page.expect_request(lambda request: request.resource_type == "fetch"):
            page.goto(f"{yard.url}/console/calls")
        try:
            calling = threads.submit(yard.invoke, wait.qualified_name, {})
            running = page.locator("y-running .row.call")
            running.wait_for()
            assert wait.qualified_name in running.inner_text() and not page.locator("#calls .row.call").count()
            assert has_no_overflow(page) and audit(page, axe) == []
        finally:
            done.set()
        assert calling.result().status == 200
        page.locator("#calls .row.call").wait_for()
        running.wait_for(state="detached")
        assert page.problems == []
