"""What is read in a description: the verb, what it is done to, and what is said to come back."""

import pytest

from toolyard.insight.outputs.description import read_description


@pytest.mark.parametrize(
    ("description", "verb", "things"),
    [
        ("Retrieves a list of cars available for rent in a city.", "retrieve", ["cars"]),
        ("This function retrieves and displays the profile of a user.", "retrieve", ["profile of user"]),
        ("Calculate the area and the perimeter of a square.", "calculate", ["area of square", "perimeter of square"]),
        ("Allows users to book a direct flight to a destination.", "book", ["direct flight"]),
        ("The current exchange rate.", None, ["exchange rate"]),
        ("", None, []),
    ],
)
def test_the_first_sentence_has_a_verb_and_nouns(description, verb, things):
    reading = read_description(description)
    assert reading.verb == verb
    assert [phrase.text for phrase in reading.things] == things


@pytest.mark.parametrize(
    ("description", "asks"),
    [
        ("Check if a number is prime.", "a number is prime"),
        ("Determine whether the shop is open", "the shop is open"),
        ("Check the weather.", ""),
    ],
)
def test_a_question_is_kept_as_it_is_asked(description, asks):
    assert read_description(description).asks == asks


def test_what_comes_back_when_it_fails_is_no_answer():
    assert read_description("Find a user. Returns an error if there is none.").returned == ()
    assert [phrase.text for phrase in read_description("Find a user. Returns the user id.").returned] == ["user id"]
    assert read_description("Look at it. Returns True if it is there.").returns_flag
