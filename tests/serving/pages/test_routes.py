"""The page over a real socket: what it shows, to whom, and what it refuses."""

import httpx
import pytest

from serving.pages.page_app import HOSTILE, LOOKING, TOKEN, Keys, app_of, sample_tools, served, service_of
from toolyard import Tool
from toolyard.serving.metrics import Metrics
from toolyard.serving.pages.views import tool_path


@pytest.fixture(scope="module")
def service():
    return service_of(sample_tools(), metrics=Metrics(lambda name: True))


@pytest.fixture(scope="module")
def client(service):
    with served(app_of(service)) as url, httpx.Client(base_url=url, headers={"origin": url}) as client:
        yield client


@pytest.fixture(scope="module")
def locked():
    service = service_of(sample_tools(), keys=Keys())
    with served(app_of(service)) as url, httpx.Client(base_url=url, headers={"origin": url}) as client:
        yield client


@pytest.fixture
def signed_out(locked):
    locked.cookies.clear()
    return locked


def sign_in(client, token, after=""):
    return client.post("/sign-in", data={"key": token, "next": after})


def definition(service, name, number=0):
    return service.yard.tool_registry.get(name)[number].definition_hash


def run(client, service, name, data, number=0):
    return client.post(tool_path(name), data={"definition": definition(service, name, number), **data})


def test_every_page_forbids_script_framing_and_keeping(client):
    for path in ("/", "/tool/desk::split_bill", "/tool/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"] == "text/html; charset=utf-8"


def test_there_is_no_script_and_no_inline_style_anywhere(client, service):
    pages = ["/", "/?q=zzz", "/tool/nothing", *(tool_path(name) for name in service.yard.tool_registry.snapshot.names)]
    for path in pages:
        text = client.get(path).text
        assert "<script" not in text and "style=" not in text and "<style" not in text and "javascript:" not in text


def test_the_list_has_every_tool_under_its_namespace(client):
    text = client.get("/").text
    assert text.index(">desk</a></h2>") < text.index("split_bill") < text.index("book_room") < text.index(">core</a>")
    assert "2 overloads" in text and 'class="badge write"' in text and 'class="badge read"' in text


def test_hostile_names_and_descriptions_are_only_text(client):
    text = client.get("/").text
    assert "&lt;script&gt;alert(&#39;hi&#39;)&lt;/script&gt;" in text and "<script" not in text
    page = client.get(tool_path(f"hostile::{HOSTILE}"))
    assert page.status_code == 200 and "<script" not in page.text and "{{ 7 * 7 }}" in page.text
    assert "</textarea><b>" not in page.text and "'\"><i>" not in page.text


def test_hostile_values_come_back_as_text_and_unchanged(client, service):
    page = run(client, service, f"hostile::{HOSTILE}", {"a0": HOSTILE, "a1": "1", "mode": "execute"})
    assert page.status_code == 200 and "Answered." in page.text and "<script" not in page.text
    assert "<i>" not in page.text


@pytest.mark.parametrize(("query", "found"), [("bill CENT", ["split_bill"]), ("money", ["split_bill"]), ("zzz", [])])
def test_a_search_finds_words_in_names_descriptions_and_tags(client, query, found):
    text = client.get("/", params={"q": query}).text
    assert [name for name in ("split_bill", "book_room", "echo") if f">{name}</span>" in text] == found
    assert ("Nothing matches" in text) == (not found)


def test_a_query_is_shown_as_text(client):
    text = client.get("/", params={"q": '"><script>', "namespace": '"><b>', "page": "-1"}).text
    assert "<script" not in text and "<b>" not in text


def test_a_long_list_has_pages_of_a_hundred():
    tools = [Tool(f"t{number:03}", f"n{number // 150}") for number in range(250)]
    with served(app_of(service_of(tools))) as url, httpx.Client(base_url=url) as client:
        pages = [client.get("/", params={"page": number}).text for number in (1, 2, 3, 99)]
        assert [text.count('class="tool-name"') for text in pages] == [100, 100, 50, 50]
        assert "page=2" in pages[0] and 'rel="prev"' not in pages[0]
        assert 'rel="next"' not in pages[2]
        one = client.get("/", params={"namespace": "n1", "q": "t155"}).text
        assert ">t155</span>" in one and ">t001</span>" not in one


def test_an_empty_yard_says_what_to_do():
    with served(app_of(service_of([]))) as url:
        assert "toolyard serve --domains core" in httpx.get(url).text


def test_a_tool_is_found_by_its_bare_name_too_and_a_wrong_name_gets_near_ones(client):
    assert client.get("/tool/split_bill").status_code == 200
    missing = client.get("/tool/desk::split_bil")
    assert missing.status_code == 404 and 'href="/tool/desk::split_bill"' in missing.text


def test_running_shows_the_result_the_time_and_the_same_form(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "4", "a2": "0", "mode": "execute"})
    assert page.status_code == 200
    assert page.text.count('<span class="j-number">22.5</span>') == 4
    assert " ms</span>" in page.text and 'value="90"' in page.text
    assert "&#34;args&#34;:{&#34;total&#34;:90" in page.text


def test_simulating_says_so(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "4", "a2": "0", "mode": "simulate"})
    assert 'class="badge">simulated' in page.text


def test_a_mistake_in_the_form_runs_nothing_and_is_told_beside_the_field(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "four", "mode": "execute"})
    assert page.status_code == 400 and "Not run" in page.text
    assert 'id="f-a1-bad">write a whole number, such as 42' in page.text
    assert '<a href="#f-a1">people</a>' in page.text and 'value="four"' in page.text


def test_what_the_schema_refuses_is_told_beside_the_field_too(client, service):
    page = run(client, service, "desk::split_bill", {"a0": "90", "a1": "0", "a2": "0", "mode": "execute"})
    assert "tool.invalid_args" in page.text and 'id="f-a1-bad">must be at least 1' in page.text
    assert "Nothing was changed." in page.text


def test_a_tool_that_fails_is_an_error_with_its_code_and_what_it_means(client, service):
    page = run(client, service, "core::fail", {"a0": "because", "mode": "execute"})
    assert "tool.execution_error" in page.text and "It may have taken effect" in page.text


def test_arguments_may_be_written_as_json(client, service):
    assert 'name="json"' in client.get("/tool/desk::split_bill?as=json").text
    page = run(client, service, "desk::split_bill", {"json": '{"total": 10, "people": "2"}', "mode": "execute"})
    assert page.text.count('<span class="j-number">5.0</span>') == 2
    assert "Repaired on the way in" in page.text and "<code>/people</code> from string to integer" in page.text
    wrong = run(client, service, "desk::split_bill", {"json": "{", "mode": "execute"})
    assert wrong.status_code == 400 and "not valid JSON at line 1" in wrong.text
    refused = run(client, service, "desk::split_bill", {"json": '{"total": "x"}', "mode": "execute"})
    assert "<code>/total</code>" in refused.text


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
    data = {"definition": "0" * 64, "a0": "90", "a1": "4", "mode": "execute"}
    page = client.post("/tool/desk::split_bill", data=data)
    assert page.status_code == 409 and "has changed since its form was shown" in page.text


def test_a_secret_is_not_shown_again():
    def sign_in_there(password: str) -> bool:
        return True

    from toolyard import function_tool

    schema = {"type": "object", "properties": {"password": {"type": "string", "format": "password"}}}
    service = service_of([function_tool(sign_in_there, namespace="a", name="b", parameters=schema)])
    with served(app_of(service)) as url, httpx.Client(base_url=url, headers={"origin": url}) as client:
        page = run(client, service, "a::b", {"a0": "hunter2", "mode": "execute"})
        assert "Answered." in page.text and "hunter2" not in page.text


def test_a_huge_answer_is_cut_and_says_so():
    from toolyard import function_tool

    service = service_of([function_tool(lambda: "x" * 1_000_000, namespace="a", name="b", parameters={})])
    with served(app_of(service)) as url, httpx.Client(base_url=url, headers={"origin": url}) as client:
        page = run(client, service, "a::b", {"mode": "execute"})
        assert "more characters; ask the API for the whole of it" in page.text and len(page.content) < 300_000


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
    page = client.post("/tool/desk::split_bill", content=content, headers={"content-type": kind})
    assert page.status_code == status and "<h1" in page.text


def test_page_runs_are_counted(client, service):
    run(client, service, "core::echo", {"a0": "hi", "mode": "execute"})
    assert b'toolyard_calls_total{code="ok",mode="execute",tool="core::echo"}' in service.metrics.text()


def test_the_stylesheet_and_the_icon_are_there(client):
    page = client.get("/").text
    for name, kind in (("toolyard.css", "text/css; charset=utf-8"), ("icon.svg", "image/svg+xml")):
        url = page.partition(f'href="/static/{name}')[2].partition('"')[0]
        answer = client.get(f"/static/{name}{url}")
        assert answer.status_code == 200 and answer.headers["content-type"] == kind and answer.content


def test_whoever_is_not_signed_in_is_sent_to_do_so_and_then_back(signed_out):
    sent = signed_out.get("/tool/desk::split_bill?as=json")
    assert sent.status_code == 303
    assert sent.headers["location"] == "/sign-in?next=%2Ftool%2Fdesk%3A%3Asplit_bill%3Fas%3Djson"
    form = signed_out.get(sent.headers["location"])
    assert 'name="next" value="/tool/desk::split_bill?as=json"' in form.text
    back = sign_in(signed_out, TOKEN, "/tool/desk::split_bill?as=json")
    assert back.headers["location"] == "/tool/desk::split_bill?as=json"
    assert signed_out.get("/").status_code == 200 and ">ops</span>" in signed_out.get("/").text


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(signed_out):
    cookie = sign_in(signed_out, TOKEN).headers["set-cookie"]
    assert cookie == "toolyard_8000=abcdefghijkl.note; Path=/; HttpOnly; SameSite=Strict"


@pytest.mark.parametrize("token", ["", "nonsense", TOKEN[:-1], TOKEN + "\r\nx: y", "ty_" + "é" * 40])
def test_a_wrong_key_sets_no_cookie_and_is_not_repeated(signed_out, token):
    answer = sign_in(signed_out, token)
    assert answer.status_code == 401 and "set-cookie" not in answer.headers
    assert 'id="key-bad"' in answer.text and (not token or token not in answer.text)


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil.example", "/v1/tools", "/tool/a\r\nb"]
)
def test_signing_in_leads_nowhere_but_to_our_pages(signed_out, after):
    assert sign_in(signed_out, TOKEN, after).headers["location"] == "/"


def test_signing_out_forgets_the_key(signed_out):
    sign_in(signed_out, TOKEN)
    answer = signed_out.post("/sign-out")
    assert answer.headers["location"] == "/sign-in" and "Max-Age=0" in answer.headers["set-cookie"]
    assert signed_out.get("/").status_code == 303


def test_without_keys_there_is_nothing_to_sign_in_to(client):
    assert client.get("/sign-in").headers["location"] == "/"
    assert client.post("/sign-in", data={"key": TOKEN}).headers["location"] == "/"


def test_a_key_sees_what_it_may_list_and_nothing_tells_of_the_rest(signed_out):
    sign_in(signed_out, LOOKING)
    text = signed_out.get("/").text
    assert "split_bill" in text and "echo" not in text and "weather" not in text
    hidden, missing = signed_out.get("/tool/core::echo"), signed_out.get("/tool/core::ecko")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.text.replace("core::echo", "") == missing.text.replace("core::ecko", "")


def test_a_key_that_may_only_look_gets_no_buttons_and_cannot_run(signed_out):
    sign_in(signed_out, LOOKING)
    page = signed_out.get("/tool/desk::split_bill").text
    assert 'name="mode"' not in page and "but not run them" in page
    known = page.partition('name="definition" value="')[2].partition('"')[0]
    data = {"definition": known, "a0": "90", "a1": "4", "mode": "execute"}
    assert signed_out.post("/tool/desk::split_bill", data=data).status_code == 403
    assert signed_out.post("/tool/desk::split_bill", data={**data, "mode": "simulate"}).status_code == 403
