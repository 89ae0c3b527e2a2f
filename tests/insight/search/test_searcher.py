"""`registry.search`: what fits first, names always, filters before ranks, and nothing where nothing fits."""

import threading

import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from tests.insight.embedder_stub import HashEmbedder
from toolyard import Tool, ToolRegistry, function_tool
from toolyard.insight.search.searcher import MOST_HITS, Searcher
from toolyard.model.errors import ConfigError

TOOLS = [
    Tool("get_current_weather", "weather", "Get the current weather in a city", tags=("live",), aliases=("rain_now",)),
    Tool("send_email", "office", "Send an email to a person with a subject and a body", tags=("mail",)),
    Tool("calculate_triangle_area", "math", "Calculate the area of a triangle from its base and height"),
    Tool("book_hotel", "travel", "Book a hotel room in a city for some nights", tags=("live", "money")),
    Tool("translate_text", "office", "Translate a text into another language"),
    Tool("Now", "weather", "What people search for"),
    Tool("now", "clock", "The time of day"),
]


@pytest.fixture
def lexical():
    return Searcher(lexical=True)


@pytest.fixture
def hybrid(tmp_path):
    return Searcher(HashEmbedder(), cache=tmp_path)


def names(results):
    return [hit.tool.qualified_name for hit in results]


class Broken(HashEmbedder):
    def encode(self, texts):
        raise ConfigError("the weights are not whole; install them again")


@pytest.mark.parametrize("wait", [True, False])
def test_an_unusable_model_falls_back_to_words_with_a_note(wait):
    searcher, snapshot = Searcher(Broken(), cache=False), ToolRegistry(TOOLS).snapshot
    found = searcher.search(snapshot, "What is the current weather in Rome?", wait=wait)
    if not wait:
        searcher._index._worker.join()
        found = searcher.search(snapshot, "What is the current weather in Rome?", wait=wait)
    assert names(found)[0] == "weather::get_current_weather"
    assert found.mode == "lexical"
    assert "install them again" in found.note


def test_a_model_that_fails_later_falls_back_to_words(tmp_path):
    snapshot, query = ToolRegistry(TOOLS).snapshot, "What is the current weather in Rome?"
    Searcher(HashEmbedder(), cache=tmp_path).search(snapshot, query)
    found = Searcher(Broken(), cache=tmp_path).search(snapshot, query)
    assert names(found)[0] == "weather::get_current_weather"
    assert (found.mode, "install them again" in found.note) == ("lexical", True)


def test_the_tool_that_fits_comes_first_with_a_score_between_nothing_and_one(lexical):
    found = lexical.search(ToolRegistry(TOOLS).snapshot, "What is the current weather in Rome?")
    assert names(found)[0] == "weather::get_current_weather"
    assert found.mode == "lexical"
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert set(found[0].reasons) == {"words", "name"}


def test_an_unrelated_query_has_no_hits_unless_threshold_is_zero(lexical):
    snapshot = ToolRegistry(TOOLS).snapshot
    assert lexical.search(snapshot, "Who painted the ceiling of the chapel?") == []
    assert lexical.search(snapshot, "zzz qqq") == []
    assert len(lexical.search(snapshot, "paint a picture of a city", threshold=0)) > 0


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("get_current_weather", "weather::get_current_weather"),
        ("weather::get_current_weather", "weather::get_current_weather"),
        ("rain_now", "weather::get_current_weather"),
        ("WEATHER::RAIN_NOW", "weather::get_current_weather"),
        ("please run `send_email` about the triangle", "office::send_email"),
        ("Now", "weather::Now"),
        ("now", "clock::now"),
    ],
)
def test_a_name_is_always_found_first_however_it_is_spelt(lexical, hybrid, query, first):
    snapshot = ToolRegistry(TOOLS).snapshot
    for searcher in (lexical, hybrid):
        found = searcher.search(snapshot, query, k=2)
        assert names(found)[0] == first
        assert found[0].score >= 0.99


def test_filters_come_before_the_ranking(lexical):
    snapshot = ToolRegistry(TOOLS).snapshot

    def asked(**options):
        return set(names(lexical.search(snapshot, "city", k=7, threshold=0, **options)))

    assert asked(namespace="travel") == {"travel::book_hotel"}
    assert asked(namespace=["travel", "weather"]) == {"travel::book_hotel", "weather::get_current_weather"}
    assert asked(tags="live") == {"travel::book_hotel", "weather::get_current_weather"}
    assert asked(tags=["live", "money"]) == {"travel::book_hotel"}
    assert asked(namespace="nowhere") == set()
    assert asked(where=lambda tool: tool.name != "book_hotel") == {"weather::get_current_weather"}
    assert names(lexical.search(snapshot, "book_hotel", namespace="office", threshold=0)) == []


def test_a_tool_that_is_added_is_the_only_one_that_is_embedded(tmp_path):
    embedder = HashEmbedder()
    searcher = Searcher(embedder, cache=tmp_path)
    registry = ToolRegistry(TOOLS)
    searcher.search(registry.snapshot, "weather")
    before = set(embedder.texts)
    registry.add(Tool("paint_wall", "home", "Paint a wall blue"))
    assert names(searcher.search(registry.snapshot, "paint_wall"))[0] == "home::paint_wall"
    fresh = set(embedder.texts) - before - {"paint_wall"}
    assert fresh == {
        "paint wall. Paint a wall blue ()",
        "home paint wall",
        "Paint a wall blue",
        "paint",
        "wall",
        "blue",
    }


def test_a_removed_tool_is_not_found_and_old_snapshots_are_unchanged(hybrid):
    registry = ToolRegistry(TOOLS)
    old = registry.snapshot
    hybrid.search(old, "weather")
    registry.remove("office::send_email")
    assert "office::send_email" not in names(hybrid.search(registry.snapshot, "send_email", k=7, threshold=0))
    assert names(hybrid.search(old, "send_email"))[0] == "office::send_email"


def test_without_waiting_words_are_compared_while_the_vectors_are_made(tmp_path):
    searcher = Searcher(HashEmbedder(), cache=tmp_path)
    snapshot = ToolRegistry(TOOLS).snapshot
    found = searcher.search(snapshot, "current weather in a city", wait=False)
    assert (found.mode, names(found)[0]) == ("lexical", "weather::get_current_weather")
    assert "are being made" in found.note
    assert searcher.search(snapshot, "current weather in a city").mode == "hybrid"
    assert searcher.search(snapshot, "current weather in a city", wait=False).mode == "hybrid"


def test_invalid_arguments_are_refused(lexical):
    snapshot = ToolRegistry(TOOLS).snapshot
    with pytest.raises(ValueError, match="k must be a whole number from 1 on, not 0"):
        lexical.search(snapshot, "weather", k=0)
    with pytest.raises(TypeError, match="query must be text, not int"):
        lexical.search(snapshot, 3)


def test_empty_catalogs_and_empty_queries_have_no_hits(lexical, hybrid):
    for searcher in (lexical, hybrid):
        assert searcher.search(ToolRegistry().snapshot, "weather") == []
        assert searcher.search(ToolRegistry(TOOLS).snapshot, "  \n ") == []


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=200) | st.sampled_from(["a" * 100_000, "\ud800", "weather " * 5000, "🎉🎉", "'\"`; DROP"]))
def test_no_query_is_an_error(query):
    snapshot = ToolRegistry(TOOLS).snapshot
    found = SHARED.search(snapshot, query, k=3, threshold=0)
    assert len(found) <= 3
    assert all(0 <= hit.score <= 1 for hit in found)


SHARED = Searcher(HashEmbedder(), cache=False)


def test_concurrent_searches_work_while_tools_change(hybrid):
    registry = ToolRegistry(TOOLS)
    wrong, done = [], threading.Event()

    def look():
        while not done.is_set():
            if names(hybrid.search(registry.snapshot, "send_email", k=1)) != ["office::send_email"]:
                wrong.append("not found")

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(10):
        registry.add(Tool(f"extra_{number}", "more", f"Extra tool number {number}"))
        if number % 3 == 0:
            registry.remove(f"more::extra_{number}")
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_registry_keeps_one_searcher():
    registry = ToolRegistry(TOOLS)
    assert registry.searcher is registry.searcher
    assert registry.search("book_hotel", k=1)[0].tool is registry.get("travel::book_hotel")[0]
    assert registry.search("book_hotel", k=3, namespace="math", tags=["none"]) == []


def _tenants(count, description="Get the weather forecast for a city."):
    return [Tool("get_weather", f"tenant{number}", description) for number in range(count)]


@pytest.mark.parametrize("lexical", [True, False])
@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 40])
def test_a_tool_that_fits_is_offered_however_many_fit_as_well(lexical, count):
    searcher = Searcher(lexical=lexical, cache=False)
    found = searcher.search(ToolRegistry(_tenants(count)).snapshot, "weather forecast for a city")
    assert len(found) == min(count, 5)
    alone = searcher.search(ToolRegistry(_tenants(1)).snapshot, "weather forecast for a city")
    assert found[0].score == pytest.approx(alone[0].score, abs=0.2), (
        "one more of the same says nothing against the others"
    )


def test_near_duplicates_do_not_lower_each_other(lexical):
    kinds = ("lead", "deal", "note", "task", "call", "firm", "team", "site", "plan", "form", "list", "file")
    tools = [Tool(f"get_{kind}_record", "crm", f"Get one {kind} record from the CRM.") for kind in kinds]
    assert len(lexical.search(ToolRegistry(tools).snapshot, "get a record from the CRM", 12)) == 12


def test_at_most_k_fitting_hits_are_returned(hybrid):
    snapshot = ToolRegistry(_tenants(120)).snapshot
    for k in (1, 28, 29, 60, 100):
        assert len(hybrid.search(snapshot, "weather forecast for a city", k)) == k
    assert len(hybrid.search(snapshot, "weather forecast for a city", 5000)) == MOST_HITS


def test_a_search_of_a_snapshot_finds_its_own_tools_after_others_were_added(hybrid):
    registry = ToolRegistry([Tool(f"w{number}", "a", f"Get the weather {number}.") for number in range(5)])
    old = registry.snapshot
    hybrid.search(old, "weather")
    registry.add(Tool("wx", "a", "Get the weather forecast now."))
    assert names(hybrid.search(registry.snapshot, "get the weather forecast"))[0] == "a::wx"
    assert "a::wx" not in names(hybrid.search(old, "get the weather forecast", threshold=0))


def test_running_searches_finish_while_tools_are_added(hybrid):
    registry = ToolRegistry([Tool(f"w{number}", "a", f"Get the weather {number}.") for number in range(5)])
    failed = []

    def search(thread):
        for number in range(60):
            try:
                hybrid.search(registry.snapshot, f"get the weather forecast {thread} {number}")
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=search, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        registry.add(Tool(f"x{number}", "a", f"Get the weather forecast of place {number}."))
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.parametrize("query", ["the", "of the", "I want to", "can you help me please", "7", "  "])
def test_stop_words_alone_find_nothing(lexical, hybrid, query):
    snapshot = ToolRegistry([*TOOLS, Tool("go", "x", "I want to help you with the 7 of the wonders, please")]).snapshot
    assert names(lexical.search(snapshot, query)) == names(hybrid.search(snapshot, query)) == []


def test_a_blank_query_computes_no_vectors_and_has_a_correct_note():
    embedder = HashEmbedder()
    found = Searcher(embedder, cache=False).search(ToolRegistry(TOOLS).snapshot, " ")
    assert (list(found), found.mode, found.note, embedder.texts) == ([], "hybrid", "", [])


@pytest.mark.parametrize("wrong", [True, "0.5", -0.1, 1.5, float("nan")])
def test_an_invalid_threshold_is_refused(lexical, wrong):
    with pytest.raises(ValueError, match="threshold must be a number from 0 to 1"):
        lexical.search(ToolRegistry(TOOLS).snapshot, "weather", threshold=wrong)


@pytest.mark.parametrize("wrong", [3, ["a", 3], [None]])
def test_invalid_filters_are_refused(lexical, wrong):
    with pytest.raises(TypeError, match="namespaces and tags are text"):
        lexical.search(ToolRegistry(TOOLS).snapshot, "weather", namespace=wrong)


ISSUES = ToolRegistry([Tool("create_issue", name, "Create a new issue") for name in ("github", "gitlab", "jira")])


@pytest.mark.parametrize(
    "query", ["create a jira issue", "jira__create_issue", "jira.create_issue", "Jira/create_issue", "jira"]
)
def test_a_namespace_named_in_the_query_breaks_ties(lexical, hybrid, query):
    for searcher in (lexical, hybrid):
        assert searcher.search(ISSUES.snapshot, query)[0].tool.qualified_name == "jira::create_issue"


def test_words_of_the_namespace_do_not_count_for_the_length(lexical):
    tools = [
        Tool("create_issue", "a_long_name_of_many_words", "Create a new issue"),
        Tool("create_issue", "b", "Create a new issue"),
    ]
    first, second = lexical.search(ToolRegistry(tools).snapshot, "create a new issue")
    assert first.score == second.score and first.reasons == second.reasons


def test_scores_fall_even_after_hits_by_name(lexical):
    registry = ToolRegistry([Tool("a.b", "n", ""), Tool("a-b c", "n", "")])
    scores = [hit.score for hit in lexical.search(registry.snapshot, "a.b?", threshold=0)]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)


CHINESE = ToolRegistry(
    [
        Tool("chuangjian", "shop", "创建一个新的订单"),
        Tool("quxiao", "shop", "取消已有的订单"),
        Tool("hangban", "shop", "预订航班机票"),
        Tool("jiudian", "shop", "在城市中搜索酒店"),
    ]
)


@pytest.mark.parametrize(("query", "first"), [("取消订单", "quxiao"), ("搜索酒店", "jiudian"), ("机票", "hangban")])
def test_words_are_found_in_scripts_without_spaces(lexical, query, first):
    assert lexical.search(CHINESE.snapshot, query)[0].tool.name == first
    assert not lexical.search(CHINESE.snapshot, "天气预报怎么样")


def test_a_latin_model_is_not_used_for_other_scripts(tmp_path):
    model = HashEmbedder()
    model.latin = True
    searcher = Searcher(model, cache=tmp_path)
    found = searcher.search(CHINESE.snapshot, "取消订单")
    assert found.mode == "lexical" and "script" in found.note
    assert [hit.tool.name for hit in found][:1] == ["quxiao"]
    assert searcher.search(CHINESE.snapshot, "quxiao 订单 please now").mode == "hybrid"
    model.latin = False
    assert searcher.search(CHINESE.snapshot, "取消订单").mode == "hybrid"


def test_an_unknown_namespace_is_named_in_the_note(lexical):
    found = lexical.search(ISSUES.snapshot, "create an issue", namespace="gitlib")
    assert not found and found.note == "no tool is in the namespace 'gitlib'; did you mean 'gitlab'?"
    found = lexical.search(ISSUES.snapshot, "create an issue", namespace=["zzz", "jira"])
    assert [hit.tool.namespace for hit in found] == ["jira"]
    assert "there are github, gitlab, jira" in lexical.search(ISSUES.snapshot, "issue", namespace="zzz").note


def test_a_hit_with_score_one_passes_a_threshold_of_one(lexical):
    snapshot, query = ToolRegistry(TOOLS).snapshot, "What is the current weather in the city?"
    score = lexical.search(snapshot, query)[0].score
    assert lexical.search(snapshot, query, threshold=score)[0].score == score


def test_a_tool_with_an_unusual_purpose_is_found():
    def tell_joke(topic: str = "") -> str:
        """Tell a random joke, optionally about a topic."""

    def write_story(hero: str) -> str:
        """Write a bedtime story about a hero."""

    def cooking_time(food: str) -> int:
        """How long a food has to be boiled or baked, in minutes."""

    def send_mail(to: str, text: str) -> None:
        """Send an email."""

    functions = (tell_joke, write_story, cooking_time, send_mail)
    registry = ToolRegistry([function_tool(function, namespace="fun") for function in functions])
    asked = {
        "tell me a joke about penguins": "tell_joke",
        "make up a bedtime story with a brave hedgehog": "write_story",
        "how long do I boil an egg so that the yolk stays soft": "cooking_time",
    }
    assert {request: registry.search(request)[0].tool.name for request in asked} == asked
    assert not registry.search("what's the meaning of life")
