"""Search over the wires: a task finds its tool, says how it was looked for, and finds nothing where nothing fits."""

import pytest

from serving.service_support import served
from toolyard import Tool

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


def test_few_words_are_words_and_the_beginning_of_one_is_enough(yard):
    assert names(yard.get("/v1/tools?q=triang")) == ["math::calculate_triangle_area"]
    assert names(yard.get("/v1/tools?q=mail")) == ["office::send_email"]


def test_a_name_is_found_and_filters_hold(yard):
    assert names(yard.get("/v1/tools?q=travel::book_hotel"))[0] == "travel::book_hotel"
    assert names(yard.get("/v1/tools?q=book_hotel&namespace=office")) == []


def test_a_provider_spelling_says_how_it_was_looked_for_too(yard):
    answer = yard.get("/v1/tools?q=book_hotel&format=openai")
    assert set(answer.json) == {"tools", "generation", "changes", "names", "search", "scores"}
    assert answer.json["scores"][0] == 1
    assert len(answer.json["scores"]) == len(answer.json["tools"])


def test_a_hit_has_its_score_and_what_only_has_the_words_has_none(yard):
    assert yard.get("/v1/tools?q=book_hotel").json["tools"][0]["score"] == 1
    task = yard.get("/v1/tools?q=calculate+the+area+of+a+triangle+with+base+4+and+height+3").json["tools"][0]
    assert 0.5 < task["score"] <= 1
    assert "score" not in yard.get("/v1/tools?q=triang").json["tools"][0]
    assert all("score" not in tool for tool in yard.get("/v1/tools?limit=9").json["tools"])


def test_a_threshold_says_how_well_the_best_must_fit(yard):
    path = "/v1/tools?q=rent+a+flat+in+a+city+with+a+garden+for+my+parents&threshold="
    assert names(yard.get(path + "0")) != []
    assert names(yard.get(path + "1")) == []
    assert names(yard.get("/v1/tools?q=triang&threshold=0.9")) == []
    assert names(yard.get("/v1/tools?q=book_hotel&threshold=1")) == ["travel::book_hotel"]
    assert yard.get(path + "1e-1").status == yard.get(path + "0.051089351900752936").status == 200
    for wrong in ("2", "-1", "much", "nan", "inf", "1e1", "", "1.5", "0_1", "+0.5", ".5"):
        assert yard.get("/v1/tools?threshold=" + wrong).status == 400, "it is read although nothing is looked for"
        answer = yard.get(path + wrong)
        assert (answer.status, answer.error["code"]) == (400, "request.invalid_query"), wrong
