"""Search over the wires: a task finds its tool, says how it was looked for, and finds nothing where nothing fits."""

import html
import json
import re
from itertools import cycle, product

import httpx
import pytest
import yaml
from waiting import SOON

from conftest import SOAK
from serving.mcp.mcp_support import Stateless, read_result
from serving.service_support import served
from toolyard import Tool, Toolyard
from toolyard.app.blocks import McpBlock
from toolyard.cli.main import run
from toolyard.insight.search import searcher
from toolyard.serving.catalog_view import MOST_HITS
from toolyard.serving.console.catalog import SEARCH_HITS

TOOLS = [
    Tool("send_email", "office", "Send an email to a person with a subject and a body", tags=("mail",)),
    Tool("calculate_triangle_area", "math", "Calculate the area of a triangle from its base and height"),
    Tool("book_hotel", "travel", "Book a hotel room in a city for some nights"),
]


@pytest.fixture(scope="module")
def yard():
    with served(tools=TOOLS) as server:
        yield server


def names(answer):
    assert answer.status == 200, answer
    return [tool["qualified_name"] for tool in answer.json["tools"]]


def test_a_task_finds_its_tool_and_the_answer_says_how(yard):
    answer = yard.get("/v1/tools?q=calculate+the+area+of+a+triangle+with+base+4+and+height+3")
    assert names(answer)[0] == "math::calculate_triangle_area"
    assert answer.json["search"] in ("hybrid", "lexical")


def test_a_task_that_no_tool_fits_finds_none_although_it_shares_small_words(yard):
    assert names(yard.get("/v1/tools?q=who+painted+the+ceiling+of+a+chapel+with+its+angels")) == []


def test_a_name_is_found_and_filters_hold(yard):
    assert names(yard.get("/v1/tools?q=travel::book_hotel"))[0] == "travel::book_hotel"
    assert names(yard.get("/v1/tools?q=book_hotel&namespace=office")) == []


def test_a_provider_spelling_says_how_it_was_looked_for_too(yard):
    answer = yard.get("/v1/tools?q=book_hotel&format=openai")
    assert set(answer.json) == {"tools", "generation", "changes", "names", "search", "scores", "fits"}
    assert (answer.json["scores"][0], answer.json["fits"][0]) == (1, "sure")
    assert len(answer.json["scores"]) == len(answer.json["fits"]) == len(answer.json["tools"])


def test_a_hit_has_its_score_and_its_fit(yard):
    first = yard.get("/v1/tools?q=book_hotel").json["tools"][0]
    assert (first["score"], first["fit"]) == (1, "sure")
    task = yard.get("/v1/tools?q=calculate+the+area+of+a+triangle+with+base+4+and+height+3").json["tools"][0]
    assert 0.3 < task["score"] <= 1 and task["fit"] != "nearest"
    assert all({"score", "fit"}.isdisjoint(tool) for tool in yard.get("/v1/tools?limit=9").json["tools"])


def test_a_threshold_says_how_well_the_best_must_fit(yard):
    path = "/v1/tools?q=rent+a+flat+in+a+city+with+a+garden+for+my+parents&threshold="
    assert names(yard.get(path + "0")) != []
    assert names(yard.get(path + "1")) == []
    assert names(yard.get("/v1/tools?q=book_hotel&threshold=1")) == ["travel::book_hotel"]
    assert yard.get(path + "1e-1").status == yard.get(path + "0.051089351900752936").status == 200
    for wrong in ("2", "-1", "much", "nan", "inf", "1e1", "", "1.5", "0_1", "+0.5", ".5"):
        assert yard.get("/v1/tools?threshold=" + wrong).status == 400, "it is read although nothing is looked for"
        answer = yard.get(path + wrong)
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_query"), wrong


MANY = [{"name": tool.name, "namespace": tool.namespace, "description": tool.description} for tool in TOOLS] + [
    {"name": f"{verb}_{noun}", "namespace": "pets", "description": f"{verb.title()} the {noun} of a pet by its id"}
    for verb in ("get", "update", "delete", "upload", "list")
    for noun in ("photo", "owner", "name", "weight", "vaccination")
]
QUERIES = [
    *("pet photo", "upload a picture of my pet", "get_owner", "pets__get_owner", "Pets.List_Weight", "triangle"),
    *("email Tom that I am running late", "zzz", "list", "who painted the ceiling of a chapel with its angels"),
]


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """The same catalog on every face: what each gives for a query and a limit."""
    path = tmp_path_factory.mktemp("search") / "yard.yaml"
    config = {"tools": [{"type": "inline", "namespace": "default", "tools": MANY}]}
    path.write_text(yaml.safe_dump(config))
    with (
        served(config, page=True, mcp=McpBlock(expose="search")) as server,
        Toolyard.from_config(path) as yard,
        httpx.Client(verify=False, base_url=f"http://127.0.0.1:{server.port}", timeout=SOON) as page,
    ):
        yield server, yard, page, path


def ask_all(five, capsys, query, limit):
    server, yard, page, path = five
    yield "python", [(hit.tool.qualified_name, hit.fit) for hit in yard.tool_registry.search(query, limit)]
    asked = f"/v1/tools?q={httpx.QueryParams({'q': query})['q']}&limit={limit}".replace(" ", "+")
    yield "http", [(tool["qualified_name"], tool["fit"]) for tool in server.get(asked).json["tools"]]
    found = read_result(Stateless(server).call("search_tools", {"query": query, "k": limit}))["structuredContent"][
        "tools"
    ]
    yield "mcp", [(line["_meta"]["toolyard/qualified_name"], line["fit"]) for line in found]
    run(["search", query, "-k", str(limit), "--json", "-c", str(path)])
    yield "cli", [(hit["name"], hit["fit"]) for hit in json.loads(capsys.readouterr().out)["hits"]]
    if limit == SEARCH_HITS:
        shown = page.get("/console/tools.json", params={"q": query}).json()
        yield "console", [(row["name"], row["fit"]) for row in shown["rows"]]


@pytest.mark.parametrize(
    ("query", "limit"),
    list(product(QUERIES, (1, 3, SEARCH_HITS, 50)))
    if SOAK
    else [*product(QUERIES, [SEARCH_HITS]), *zip(QUERIES, cycle((1, 3, 50)), strict=False)],
)
def test_every_face_gives_the_same_hits_in_the_same_order_with_the_same_words(five, capsys, query, limit):
    found = dict(ask_all(five, capsys, query, limit))
    assert found == dict.fromkeys(found, found["python"])


@pytest.mark.parametrize("query", QUERIES)
def test_the_console_shows_the_best_hits_of_a_namespace_and_links_to_all(five, query):
    assert MOST_HITS == searcher.MOST_HITS
    _, yard, page, _ = five
    for narrowed in ({}, {"namespace": "pets"}):
        for asked, most in (({}, SEARCH_HITS), ({"hits": "all"}, MOST_HITS)):
            text = html.unescape(page.get("/console/tools", params={"q": query, **narrowed, **asked}).text)
            wanted = [hit.tool.qualified_name for hit in yard.tool_registry.search(query, most, **narrowed)]
            assert re.findall(r'class="row" href="/console/tools/([^"]+)"', text) == wanted
            assert ("Show more hits" in text) == (len(wanted) == SEARCH_HITS)


def test_pages_of_a_search_together_are_its_hits(five):
    server, yard, _, _ = five
    found, path = [], "/v1/tools?q=pet+photo&limit=2"
    while path:
        answer = server.get(path)
        found += names(answer)
        path = (
            f"/v1/tools?q=pet+photo&limit=2&cursor={answer.json['next_cursor']}" if "next_cursor" in answer.json else ""
        )
    assert found == [hit.tool.qualified_name for hit in yard.tool_registry.search("pet photo", MOST_HITS)]


def test_somebody_who_looks_at_what_is_only_nearest_is_told_that_it_may_not_be_it(five):
    _, yard, page, _ = five
    query = "bring the animal to the barber"
    for asked in ({"q": query, "fit": "nearest"}, {"q": "get_owner"}):
        text = page.get("/console/tools", params=asked).text
        assert ("No tool matches well. These are the nearest ones." in text) == ("fit" in asked)
    assert yard.tool_registry.search(query, threshold=0)[0].fit == "nearest"
