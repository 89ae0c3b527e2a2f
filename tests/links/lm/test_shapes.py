"""Finding JSON in the answer of a model."""

import pytest

from toolyard import MalformedSource
from toolyard.links.lm.shapes import find_json, strip_thought


@pytest.mark.parametrize(
    "text",
    [
        ' {"a": [1]} ',
        '<think>perhaps {"a": 2}</think>\n{"a": [1]}',
        'Here it is:\n```json\n{"a": [1]}\n```\nAnything else?',
        'Sure {thing}: {"a": [1]}, as you asked.',
    ],
)
def test_the_value_is_found_wherever_it_stands(text):
    assert find_json(text) == {"a": [1]}


def test_a_value_of_the_kind_is_found_behind_others():
    text = 'As in [1], and then {"a": [1]}.'
    assert find_json(text) == [1]
    assert find_json(text, dict) == {"a": [1]}


@pytest.mark.parametrize("text", ["", "no", "{", "<think>[1]</think>", "```\nno\n```"])
def test_a_text_without_any_is_refused(text):
    with pytest.raises(MalformedSource):
        find_json(text)


def test_text_in_think_tags_is_removed():
    assert strip_thought("<think>hm</think> yes ") == "yes"
