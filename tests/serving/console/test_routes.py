"""The console over a real socket: what it shows, to whom, and what it refuses."""

import json
import re
import time
from html import unescape

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from serving.console.page_app import (
    HOSTILE,
    LOOKING,
    TOKEN,
    Edges,
    Keys,
    app_of,
    form_token,
    sample_tools,
    serve_app,
    service_of,
    sign_in,
)
from toolyard import Tool, ToolContext, function_tool
from toolyard.serving.console.rendering import tool_path
from toolyard.serving.monitoring import Metrics


@pytest.fixture(scope="module")
def service():
    return service_of(sample_tools(), metrics=Metrics(lambda name: True))


@pytest.fixture(scope="module")
def client(service):
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url, headers={"origin": url}) as client:
        yield client


@pytest.fixture(scope="module")
def locked():
    service = service_of(sample_tools(), keys=Keys())
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url, headers={"origin": url}) as client:
        yield client


@pytest.fixture
def signed_out(locked):
    locked.cookies.clear()
    return locked


def definition(service, name, number=0):
    return service.yard.tool_registry.get(name)[number].definition_hash


def run(client, service, name, data, number=0):
    data = {"definition": definition(service, name, number), "form_token": form_token(client, tool_path(name)), **data}
    return client.post(tool_path(name), data=data)


def test_every_page_forbids_foreign_script_framing_and_keeping(client):
    for path in ("/console/tools", "/console/tools/desk::split_bill", "/console/tools/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"] == "text/html; charset=utf-8"


def is_clean(text):
    """One script, of ours, by its address; nothing inline that could run or paint."""
    scripts = re.findall(r"<script[^>]*>", text)
    return (
        len(scripts) == 1
        and re.fullmatch(r'<script type="module" src="/console/static/console\.js\?v=[0-9a-f]{12}">', scripts[0])
        and "></script>" in text
        and not re.search(r"<style|<[^>]*\s(style|on[a-z]+)=|javascript:", text)
    )


def test_the_one_script_has_an_address_and_nothing_is_inline_anywhere(client, service):
    names = service.yard.tool_registry.snapshot.names
    for path in ["/console/tools", "/console/tools?q=zzz", "/console/tools/nothing", *map(tool_path, names)]:
        assert is_clean(client.get(path).text), path


def test_the_list_has_every_tool_under_its_namespace(client):
    text = client.get("/console/tools").text
    assert text.index(">desk</a></h2>") < text.index("split_bill") < text.index("book_room") < text.index(">core</a>")
    assert "2 overloads" in text and 'class="badge write"' in text and 'class="badge read"' in text


def test_hostile_names_and_descriptions_are_only_text(client):
    text = client.get("/console/tools").text
    assert "&lt;script&gt;alert(&#39;hi&#39;)&lt;/script&gt;" in text and is_clean(text)
    page = client.get(tool_path(f"hostile::{HOSTILE}"))
    assert page.status_code == 200 and is_clean(page.text) and "{{ 7 * 7 }}" in page.text
    assert "</textarea><b>" not in page.text and "'\"><i>" not in page.text


def test_hostile_values_come_back_as_text_and_unchanged(client, service):
    page = run(client, service, f"hostile::{HOSTILE}", {"a0": HOSTILE, "a1": "1", "mode": "execute"})
    assert page.status_code == 200 and "Done." in page.text and is_clean(page.text)
    assert "<i>" not in page.text


def test_a_query_is_shown_as_text(client):
    text = client.get("/console/tools", params={"q": '"><script>', "namespace": '"><b>', "page": "-1"}).text
    assert is_clean(text) and "<b>" not in text


def test_a_query_of_blanks_lists_all_tools(client):
    assert 'class="tool-name"' in client.get("/console/tools", params={"q": "  "}).text


def test_a_long_list_has_pages_of_a_hundred():
    tools = [Tool(f"t{number:03}", f"n{number // 150}") for number in range(250)]
    with serve_app(app_of(service_of(tools))) as url, httpx.Client(verify=False, base_url=url) as client:
        pages = [client.get("/console/tools", params={"page": number}).text for number in (1, 2, 3, 99)]
        assert [text.count('class="tool-name"') for text in pages] == [100, 100, 50, 50]
        assert "page=2" in pages[0] and 'rel="prev"' not in pages[0]
        assert 'rel="next"' not in pages[2]
        one = client.get("/console/tools", params={"namespace": "n1", "q": "t155"}).text
        assert ">t155</span>" in one and ">t001</span>" not in one


def test_a_server_without_tools_says_how_to_add_some():
    with serve_app(app_of(service_of([]))) as url:
        assert "toolyard serve --domains core" in httpx.get(url, verify=False, follow_redirects=True).text


def test_a_tool_is_found_by_its_bare_name_too_and_a_wrong_name_gets_near_ones(client):
    assert client.get("/console/tools/split_bill").status_code == 200
    missing = client.get("/console/tools/desk::split_bil")
    assert missing.status_code == 404 and 'href="/console/tools/desk::split_bill"' in missing.text


def test_running_shows_the_result_the_time_and_the_same_form(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "4", "a2": "0", "mode": "execute"})
    assert page.status_code == 200
    assert page.text.count('<span class="j-number">22.5</span>') == 4
    assert " ms</span>" in page.text and 'value="90"' in page.text
    assert "&#34;args&#34;:{&#34;total&#34;:90" in page.text


def test_a_simulated_result_is_marked(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "4", "a2": "0", "mode": "simulate"})
    assert 'class="badge">simulated' in page.text


def test_a_mistake_in_the_form_runs_nothing_and_is_shown_beside_the_field(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "four", "mode": "execute"})
    assert page.status_code == 400 and "Not run" in page.text
    assert 'id="f-a1-bad">write a whole number, such as 42' in page.text
    assert '<a href="#f-a1">people</a>' in page.text and 'value="four"' in page.text


def test_a_violation_of_the_schema_is_shown_beside_its_field(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "0", "a2": "0", "mode": "execute"})
    assert "tool.invalid_args" in page.text and 'id="f-a1-bad">must be at least 1' in page.text
    assert "Nothing was changed." in page.text


def test_a_tool_that_fails_is_an_error_with_its_code_and_what_it_means(client, service):
    page = run(client, service, "core::fail", {"a0": "because", "mode": "execute"})
    assert "tool.execution_error" in page.text and "It may have taken effect" in page.text


def test_arguments_may_be_written_as_json(client, service):
    assert 'name="json"' in client.get("/console/tools/desk::split_bill?as=json").text
    page = run(client, service, "desk::split_bill", {"json": '{"total": 10, "people": "2"}', "mode": "execute"})
    assert page.text.count('<span class="j-number">5.0</span>') == 2
    assert "Arguments converted" in page.text and "<code>/people</code> from string to integer" in page.text
    wrong = run(client, service, "desk::split_bill", {"json": "{", "mode": "execute"})
    assert wrong.status_code == 400 and "not valid JSON at line 1" in wrong.text
    refused = run(client, service, "desk::split_bill", {"json": '{"total": "x"}', "mode": "execute"})
    assert "<code>/total</code>" in refused.text


def test_what_was_filled_in_is_kept_between_the_form_and_json(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "", "mode": "json"})
    assert page.status_code == 200 and 'name="json"' in page.text and "&#34;total&#34;: 90" in page.text
    typed = run(client, service, "desk::split_bill", {"a0": "90", "a1": "four", "mode": "json"}).text
    assert 'value="four"' in typed and "write a whole number" in typed, "what JSON has no place for is not dropped"
    page = run(client, service, "desk::split_bill", {"json": '{"total": 12.5, "people": 3}', "mode": "form"})
    assert 'name="a0"' in page.text and 'value="12.5"' in page.text and 'value="3"' in page.text
    unfit = run(client, service, "desk::split_bill", {"json": '{"total": {"x": 1}}', "mode": "form"})
    assert "The form cannot show these arguments" in unfit.text and 'name="json"' in unfit.text
    broken = run(client, service, "desk::split_bill", {"json": "{", "mode": "form"})
    assert "not valid JSON at line 1" in broken.text and 'name="json"' in broken.text


def test_an_unknown_path_is_a_404_page_with_links(client, signed_out):
    for path in ("/console/nothing", "/console/nothing/at-all"):
        page = client.get(path)
        assert page.status_code == 404 and 'href="/console/tools">All tools' in page.text and path in page.text
        assert client.get(f"{path}.json").json()["error"]["code"] == "route.not_found"
        assert signed_out.get(path).headers["location"].startswith("/console/sign-in")
    assert 'href="/console/sessions">All sessions' in client.get("/console/sessions/nothing").text


def test_a_slash_in_the_name_of_a_tool_may_be_written_as_it_is(client):
    path = "/console/tools/weather%20api/v2::get%20weather"
    assert "<title>weather api/v2::get weather ·" in client.get(path).text
    assert client.get(f"{path}.json").json()["tool"]["namespace"] == "weather api/v2"
    assert client.get("/console/tools/no/such/tool.json").json()["error"]["code"] == "tool.not_found"
    for deep in ("/console/tools/no/such/tool", "/console/tools/a/b/c/d/e/f", "/console/a/b/c/d"):
        page = client.get(deep)
        assert page.status_code == 404 and 'href="/console/tools">All tools' in page.text


def test_each_overload_has_its_own_form(client, service):
    name = "weather api/v2::get weather"
    _, second = service.yard.tool_registry.get(name)
    page = client.get(tool_path(name), params={"fingerprint": second.fingerprint[:12]}).text
    assert 'name="a1"' in page and "Current weather at a point." in page
    assert "(city)" in page and "(lat, lon)" in page
    ran = run(client, service, name, {"a0": "1", "a1": "2", "mode": "execute"}, 1)
    assert '<span class="j-number">8.0</span>' in ran.text
    assert "There is no such overload any more" in client.get(tool_path(name), params={"fingerprint": "zz"}).text


def test_a_tool_that_has_changed_since_is_shown_again_instead_of_run(client):
    path = "/console/tools/desk::split_bill"
    data = {"definition": "0" * 64, "a0": "90", "a1": "4", "mode": "execute", "form_token": form_token(client, path)}
    page = client.post(path, data=data)
    assert page.status_code == 409 and "has changed since its form was shown" in page.text


def test_a_secret_is_not_shown_again():
    def sign_in_there(password: str = "", times: int = 1) -> bool:
        return True

    properties = {"password": {"type": "string", "format": "password"}, "times": {"type": "integer"}}
    schema = {"type": "object", "properties": properties}
    service = service_of([function_tool(sign_in_there, namespace="a", name="b", parameters=schema)])
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url, headers={"origin": url}) as client:
        page = run(client, service, "a::b", {"a0": "hunter2", "mode": "execute"})
        assert "Done." in page.text and "hunter2" not in page.text
        assert "hunter2" not in run(client, service, "a::b", {"a0": "hunter2", "mode": "json"}).text
        assert "hunter2" not in run(client, service, "a::b", {"json": '{"password": "hunter2"}', "mode": "form"}).text
        mistaken = run(client, service, "a::b", {"a0": "hunter2", "a1": "many", "mode": "json"}).text
        assert "write a whole number" in mistaken and "hunter2" not in mistaken


def test_a_huge_answer_is_cut_and_says_so():
    service = service_of([function_tool(lambda: "x" * 1_000_000, namespace="a", name="b", parameters={})])
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url, headers={"origin": url}) as client:
        page = run(client, service, "a::b", {"mode": "execute"})
        assert "the last 800,002 characters are left out" in page.text and len(page.content) < 300_000


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b'{"a0": "1"}', "application/json", 415),
        (b"a0=%ff", "application/x-www-form-urlencoded", 400),
        (b"a0=1&a0=2", "application/x-www-form-urlencoded", 400),
        (b"x=1&" * 3000, "application/x-www-form-urlencoded", 400),
        (b"a0=" + b"x" * (5 << 20), "application/x-www-form-urlencoded", 413),
    ],
)
def test_a_body_that_is_no_proper_form_is_refused_as_a_page(client, content, kind, status):
    page = client.post("/console/tools/desk::split_bill", content=content, headers={"content-type": kind})
    assert page.status_code == status and "<h1" in page.text


def test_page_runs_are_counted(client, service):
    run(client, service, "core::echo", {"a0": "hi", "mode": "execute"})
    assert b'toolyard_calls_total{code="ok",mode="execute",tool="core::echo"}' in service.metrics.render()


def test_the_stylesheet_the_script_and_the_icon_are_there(client):
    page = client.get("/console/tools").text
    kinds = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
    for name, kind in kinds.items():
        url = page.partition(f'="/console/static/{name}')[2].partition('"')[0]
        answer = client.get(f"/console/static/{name}{url}")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(kind) and answer.content


def test_without_a_sign_in_pages_redirect_to_it_and_back(signed_out):
    sent = signed_out.get("/console/tools/desk::split_bill?as=json")
    assert sent.status_code == 303
    assert sent.headers["location"] == "/console/sign-in?next=%2Fconsole%2Ftools%2Fdesk%3A%3Asplit_bill%3Fas%3Djson"
    form = signed_out.get(sent.headers["location"])
    assert 'name="next" value="/console/tools/desk::split_bill?as=json"' in form.text
    back = sign_in(signed_out, TOKEN, "/console/tools/desk::split_bill?as=json")
    assert back.headers["location"] == "/console/tools/desk::split_bill?as=json"
    assert (
        signed_out.get("/console/tools").status_code == 200 and ">ops</span>" in signed_out.get("/console/tools").text
    )


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(signed_out):
    cookie = sign_in(signed_out, TOKEN).headers["set-cookie"]
    assert cookie == "toolyard_8000=abcdefghijkl.note; Path=/; HttpOnly; SameSite=Strict"


@pytest.mark.parametrize("token", ["", "nonsense", TOKEN[:-1], TOKEN + "\r\nx: y", "ty_" + "é" * 40])
def test_a_wrong_key_sets_no_cookie_and_is_not_repeated(signed_out, token):
    answer = sign_in(signed_out, token)
    assert answer.status_code == 401 and "set-cookie" not in answer.headers
    assert 'id="key-bad"' in answer.text and (not token or token not in answer.text)


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil.example", "/v1/tools", "/console/tools/a\r\nb"]
)
def test_signing_in_redirects_only_to_pages_of_the_console(signed_out, after):
    assert sign_in(signed_out, TOKEN, after).headers["location"] == "/console"


def test_signing_out_deletes_the_cookie(signed_out):
    sign_in(signed_out, TOKEN)
    answer = signed_out.post("/console/sign-out", data={"form_token": form_token(signed_out, "/console/tools")})
    assert answer.headers["location"] == "/console/sign-in" and "Max-Age=0" in answer.headers["set-cookie"]
    assert signed_out.get("/console/tools").status_code == 303


def test_without_keys_there_is_nothing_to_sign_in_to(client):
    assert client.get("/console/sign-in").headers["location"] == "/console"
    data = {"key": TOKEN, "form_token": form_token(client, "/console/tools/core::echo")}
    assert client.post("/console/sign-in", data=data).headers["location"] == "/console"


def test_a_key_sees_what_it_may_list_and_nothing_tells_of_the_rest(signed_out):
    sign_in(signed_out, LOOKING)
    text = signed_out.get("/console/tools").text
    assert "split_bill" in text and "echo" not in text and "weather" not in text
    hidden, missing = signed_out.get("/console/tools/core::echo"), signed_out.get("/console/tools/core::ecko")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.text.replace("core::echo", "") == missing.text.replace("core::ecko", "")


def test_a_key_that_may_only_look_gets_no_buttons_and_cannot_run(signed_out):
    sign_in(signed_out, LOOKING)
    page = signed_out.get("/console/tools/desk::split_bill").text
    assert 'name="mode"' not in page and "but not run them" in page
    known = page.partition('name="definition" value="')[2].partition('"')[0]
    token = form_token(signed_out, "/console/tools/desk::split_bill")
    data = {"definition": known, "a0": "90", "a1": "4", "mode": "execute", "form_token": token}
    assert signed_out.post("/console/tools/desk::split_bill", data=data).status_code == 403
    assert signed_out.post("/console/tools/desk::split_bill", data={**data, "mode": "simulate"}).status_code == 403


def test_the_root_and_the_console_redirect_to_the_catalog(client):
    assert client.get("/").headers["location"] == client.get("/console/").headers["location"] == "/console/tools"


@pytest.mark.parametrize("token", ["", "made-up", "é" * 43])
def test_a_form_without_its_token_does_nothing(client, service, token):
    data = {"definition": definition(service, "core::fail"), "a0": "x", "mode": "execute", "form_token": token}
    page = client.post("/console/tools/core::fail", data=data)
    assert page.status_code == 403 and "tool.execution_error" not in page.text and "load its page again" in page.text


def test_a_form_shown_to_one_sign_in_is_refused_from_another(signed_out):
    sign_in(signed_out, TOKEN)
    path = "/console/tools/core::echo"
    token = form_token(signed_out, path)
    known = re.search(r'name="definition" value="([^"]+)', signed_out.get(path).text)[1]
    data = {"definition": known, "a0": "hi", "mode": "execute", "form_token": token}
    assert signed_out.post(path, data=data).status_code == 200
    signed_out.cookies.clear()
    sign_in(signed_out, LOOKING)
    assert signed_out.post(path, data=data).status_code == 403


def test_every_screen_has_the_same_data_as_json(client, service):
    listed = client.get("/console/tools.json").json()
    assert {row["name"] for row in listed["rows"]} == set(service.yard.tool_registry.snapshot.names)
    found = client.get("/console/tools.json", params={"q": "meeting room"}).json()
    scores = {row["name"]: row["score"] for row in found["rows"]}
    assert next(iter(scores)) == "desk::book_room" and scores.pop("desk::book_room") > 0.5 > max(scores.values())
    tool = client.get("/console/tools/desk::book_room.json").json()
    assert tool["tool"]["parameters"] == service.yard.tool_registry.get("desk::book_room")[0].parameters
    assert [field["name"] for field in tool["fields"]] == ["room", "day", "projector", "guests", "options"]
    missing = client.get("/console/tools/nothing.json")
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "tool.not_found"


def test_hits_that_hardly_match_are_folded_away(client):
    params = {"q": "meeting room"}
    weak = [row for row in client.get("/console/tools.json", params=params).json()["rows"] if row["score"] < 0.01]
    shown, folded = client.get("/console/tools", params=params).text.split('<details class="weak">')
    names = [[unescape(name) for name in re.findall(r'class="tool-name">([^<>]+)<', text)] for text in (shown, folded)]
    assert weak and names[1] == [row["label"] for row in weak] and "book_room" in names[0]
    assert f"{len(weak)} more that hardly match" in folded


def test_a_page_links_to_its_json_with_its_query(client):
    assert 'href="/console/tools.json?q=bill&amp;effect=read"' in client.get("/console/tools?q=bill&effect=read").text


def test_a_tool_whose_name_ends_in_json_has_a_page_and_its_json():
    tools = [Tool("report.json", "files"), Tool("report", "files")]
    with serve_app(app_of(service_of(tools))) as url, httpx.Client(verify=False, base_url=url) as client:
        page, other = client.get(tool_path("files::report.json")), client.get(tool_path("files::report"))
        assert "<title>files::report.json ·" in page.text and "<title>files::report ·" in other.text
        assert client.get(f"{tool_path('files::report.json')}.json").json()["tool"]["name"] == "report.json"
        assert client.get(f"{tool_path('files::report')}.json").json()["tool"]["name"] == "report"


def test_the_json_of_a_page_needs_a_key_and_is_a_401_without(signed_out):
    refused = signed_out.get("/console/tools.json")
    assert refused.status_code == 401 and refused.json()["error"]["code"] == "auth.missing"
    shown = signed_out.get("/console/tools.json", headers={"authorization": f"Bearer {LOOKING}"}).json()
    assert {row["namespace"] for row in shown["rows"]} == {"desk"}


def test_facets_filter_the_list_and_count_the_rows_of_each_value(client):
    facets = {facet["name"]: facet for facet in client.get("/console/tools.json?effect=read").json()["facets"]}
    assert {one["value"]: one["count"] for one in facets["effect"]["choices"]} == {"read": 2, "write": 1, "unknown": 3}
    assert {one["value"]: one["count"] for one in facets["namespace"]["choices"]} == {"desk": 1, "core": 1}
    both = client.get("/console/tools.json?effect=read&namespace=core").json()
    assert [row["name"] for row in both["rows"]] == ["core::echo"] and both["found"] == 1
    tagged = client.get("/console/tools.json", params={"tag": "money", "q": "room"}).json()
    assert {row["name"] for row in tagged["rows"]} <= {"desk::split_bill"}
    assert client.get("/console/tools.json?namespace=nowhere").json()["rows"] == []


def test_the_nearest_tools_are_shown_on_request(client):
    assert client.get("/console/tools.json", params={"q": "bake sourdough bread"}).json()["rows"] == []
    nearest = client.get("/console/tools.json", params={"q": "bake sourdough bread", "fit": "nearest"}).json()
    assert nearest["nearest"] and nearest["rows"]


def test_a_call_has_four_snippets(client, service):
    snippets = {one["id"]: one["text"] for one in client.get("/console/tools/desk::split_bill.json").json()["snippets"]}
    assert set(snippets) == {"curl", "python", "mcp", "openai"}
    base = str(client.base_url).rstrip("/")
    assert f"{base}/v1/tools/desk::split_bill:invoke" in snippets["curl"] and repr(base) in snippets["python"]
    assert '"name": "desk__split_bill"' in snippets["mcp"] and '"type": "function"' in snippets["openai"]


def test_a_script_receives_progress_events_and_then_the_page():
    def count(ctx: ToolContext) -> int:
        """Count slowly."""
        for number in (1, 2, 3):
            ctx.report(number, 3, f"at {number}")
            time.sleep(0.15)
        return 3

    service = service_of([function_tool(count, namespace="slow", name="count")])
    with serve_app(app_of(service)) as url, httpx.Client(verify=False, base_url=url, headers={"origin": url}) as client:
        path = "/console/tools/slow::count"
        data = {
            "definition": definition(service, "slow::count"),
            "mode": "execute",
            "form_token": form_token(client, path),
        }
        answer = client.post(path, data=data, headers={"accept": "text/event-stream, text/html"})
        events = [dict(line.split(": ", 1) for line in one.split("\n")) for one in answer.text.strip().split("\n\n")]
        assert answer.headers["content-type"] == "text/event-stream"
        assert [event["event"] for event in events][-1] == "page" and len(events) > 1
        assert json.loads(events[0]["data"])["total"] == 3
        assert "Done." in json.loads(events[-1]["data"])["html"]
        plain = client.post(path, data=data)
        assert plain.headers["content-type"].startswith("text/html") and "Done." in plain.text


LINK = re.compile(r'(?:href|action|src|data-events|data-url)="([^"#]+)')


def test_under_a_prefix_every_link_form_and_redirect_stays_there():
    app = app_of(service_of(sample_tools(), enrichments=[Edges()]))
    mounted = Starlette(routes=[Mount("/yard", app)])
    with serve_app(mounted) as url, httpx.Client(verify=False, base_url=url, headers={"origin": url}) as client:
        assert client.get("/yard/").headers["location"] == "/yard/console/tools"
        seen, line = set(), ["/yard/console/tools"]
        while line:
            path = unescape(line.pop())
            if path in seen or len(seen) > 60:
                continue
            seen.add(path)
            answer = client.get(path)
            assert answer.status_code == 200, path
            if "text/html" in answer.headers["content-type"]:
                found = LINK.findall(answer.text)
                assert [link for link in found if not link.startswith(("/yard/", "http"))] == [], path
                line += [link for link in found if not link.endswith(("/events", "sign-out"))]
        assert {"/yard/openapi.json", "/yard/console/graph", "/yard/console/tools/core::echo"} <= seen
        shown = client.get("/yard/console/tools/core::echo")
        fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)"', shown.text))
        ran = client.post("/yard/console/tools/core::echo", data={**fields, "a0": "hello"})
        assert ran.status_code == 200 and "hello" in ran.text
        begun = client.post("/yard/console/sessions", data={"session_id": "s", "form_token": fields["form_token"]})
        assert begun.headers["location"] == "/yard/console/sessions/s"
        assert client.get("/yard/console/connect.json").json()["url"] == f"{url}/yard"


def test_under_a_prefix_signing_in_redirects_back_to_the_requested_page():
    mounted = Starlette(routes=[Mount("/yard", app_of(service_of(sample_tools(), keys=Keys())))])
    with serve_app(mounted) as url, httpx.Client(verify=False, base_url=url, headers={"origin": url}) as client:
        sent = client.get("/yard/console/sessions?page=1").headers["location"]
        assert sent == "/yard/console/sign-in?next=%2Fconsole%2Fsessions%3Fpage%3D1"
        token = re.search(r'name="form_token" value="([^"]+)"', client.get(sent).text)[1]
        data = {"key": TOKEN, "next": "/console/sessions?page=1", "form_token": token}
        assert client.post("/yard/console/sign-in", data=data).headers["location"] == "/yard/console/sessions?page=1"
        assert client.get("/yard/console/sessions").status_code == 200
