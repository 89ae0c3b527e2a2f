"""Whether a tool has a word in common with a text."""

import pytest

from tests.insight.samplers.yard import tool
from toolyard.insight.samplers.snapshot_view import ContentWords, content_words


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("mail Bob", True),
        ("an e-mail", True),
        ("Emailing them", True),
        ("send a letter", True),
        ("translate it", False),
        ("to Bob", False),
        ("information about data 5", False),
    ],
)
def test_words_are_shared_by_stem_or_where_one_begins_or_ends_with_the_other(text, shares):
    assert ContentWords([tool("send_email", description="Information and data 5 about mails")]).shared(
        text
    ).tolist() == [shares]


def test_names_descriptions_aliases_and_tags_count_each_for_its_tool():
    given = [tool("a1"), tool("b1", description="Translates"), tool("c1").replace(aliases=("to-do",), tags=("lists",))]
    content = ContentWords(given)
    assert content.shared("translation of a todo").tolist() == [False, True, True]
    assert content.shared("list").tolist() == [False, False, True]
    assert content.shared("").tolist() == [False, False, False]


def test_a_word_with_hyphens_counts_without_them_too():
    assert content_words("a Wi-Fi to-do") == ["wi", "fi", "wifi", "todo"]
