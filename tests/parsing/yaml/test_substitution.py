"""Characters that libyaml misreads are replaced before it reads, and put back after."""

from __future__ import annotations

import pytest

from toolyard.parsing import parse_yaml
from toolyard.parsing.yaml_events import Substitution


def load(text: str) -> object:
    return parse_yaml(text, what="f")


def test_text_without_misread_characters_is_unchanged() -> None:
    text = 'a: é\nb: "\\u00e9 \\\\ud83d"\n'
    substitution = Substitution.for_text(text)
    assert not substitution.used
    assert substitution.text is text


@pytest.mark.parametrize("char", ["\x85", "\u2028", "\u2029"])
def test_breaks_of_yaml_1_1_are_ordinary_characters_in_every_style(char: str) -> None:
    content = f"x{char}y"
    text = f"{content}: {content}\nq: '{content}'\nd: \"{content}\"\nl: |\n  {content}\nf: [{content}]\n# {char}\n"
    expected = {content: content, "q": content, "d": content, "l": f"{content}\n", "f": [content]}
    assert load(text) == expected


def test_they_do_not_move_the_lines_of_an_error() -> None:
    with pytest.raises(ValueError, match="^f:2:1: key 'a' appears twice"):
        load("a: x\u2028y\x85z\na: 2\n")


def test_a_surrogate_pair_is_a_character_in_double_quotes_only() -> None:
    pair = "\\uD83d\\ude00"
    text = f'd: "{pair}"\ns: \'{pair}\'\np: {pair}\nl: |\n  {pair}\n"{pair}": 1\n'
    assert load(text) == {"d": "😀", "s": pair, "p": pair, "l": f"{pair}\n", "😀": 1}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("\\\\ud83d\\\\ude00", "\\ud83d\\ude00"),
        ("\\\\\\ud83d\\ude00", "\\😀"),
        ("\\ud83d\\ude00\\ud83d\\ude01", "😀😁"),
    ],
)
def test_backslashes_in_front_of_a_pair_are_counted(written: str, read: str) -> None:
    assert load(f'a: "{written}"\n') == {"a": read}


def test_private_characters_of_the_text_itself_are_not_taken_for_a_substitution() -> None:
    text = 'a: "\ue000d83dde00 \ue001 \\ud83d\\ude00"\nb: \ue002\u2028\n'
    assert load(text) == {"a": "\ue000d83dde00 \ue001 😀", "b": "\ue002\u2028"}
