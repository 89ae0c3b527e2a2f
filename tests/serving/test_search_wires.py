"""Search over the wires: a task finds its tool, says how it was looked for, and finds nothing where nothing fits."""

import pytest
from service_support import served

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
    assert set(answer.json) == {"tools", "generation", "changes", "search"}
