"""Whether a tool has a word in common with a text."""

import pytest

from tests.insight.samplers.registries import tool
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
def test_words_match_by_stem_prefix_or_suffix(text, shares):
    assert ContentWords([tool("send_email", description="Information and data 5 about mails")]).shared(
        text
    ).tolist() == [shares]


def test_names_descriptions_aliases_and_tags_count_each_for_its_tool():
    given = [tool("a1"), tool("b1", description="Translates"), tool("c1").replace(aliases=("to-do",), tags=("lists",))]
    content = ContentWords(given)
    assert content.shared("translation of a todo").tolist() == [False, True, True]
    assert content.shared("list").tolist() == [False, False, True]
    assert content.shared("").tolist() == [False, False, False]


def test_hyphenated_words_also_count_without_hyphens():
    assert content_words("a Wi-Fi to-do") == ["wi", "fi", "wifi", "todo"]
