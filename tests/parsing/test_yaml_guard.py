"""What the guard keeps from the fast parser, and what it must not."""

from __future__ import annotations

import pytest

from toolyard.parsing.yaml_guard import DEEPEST, INDENT, WINDOW, doubts, may_try


def tried(text: str) -> bool:
    return may_try(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "a: b\n", "a: |\n  x\nb: c\n", "---\na: b\n", "# c\n---\na: b\n", "a: x\ty\n", "a: é\u2028\x85\xa0😀\n",
        " " * (INDENT - 1) + "a: b\n", "a: " + "x" * (WINDOW - 8) + "\n", "a: " + "7" * 2000 + "\n", "a: 100%\n",
    ],
)  # fmt: skip
def test_ordinary_texts_may_be_tried(text: str) -> None:
    assert tried(text)


@pytest.mark.parametrize(
    "text",
    [
        "# \x00\n", "a: b\0\n", "%YAML 1.2\n---\na: b\n", "# c\n\n%TAG ! !\n---\n", "...\na: b\n", "a: |\n", "a: >-\n\n", "a: b\nc: | # x\n \n", "\ta: b\n",
        "a:\tb\n", "-\tb\n", "- \tb\n", "a: b\n \tc\n", "a: |\n  x\n\t\n", "[a,\tb]\n", "a: \"x\"\t# c\n",
        " " * INDENT + "a: b\n", "a:\n" + " " * INDENT + "b\n", "a: " + "x" * (2 * WINDOW) + "\n", "- " * WINDOW + "\n",
    ],
)  # fmt: skip
def test_texts_that_could_do_harm_or_never_agree_may_not(text: str) -> None:
    assert not tried(text)


@pytest.mark.parametrize("before", [0, 1, 100, WINDOW - 1, WINDOW, WINDOW + 1])
def test_a_line_of_two_windows_is_found_wherever_it_begins(before: int) -> None:
    lines = "#\n" * (before // 2) + "\n" * (before % 2)
    assert not tried(f"{lines}{'- ' * WINDOW}x\n")
    assert not tried(f"{lines}{'- ' * WINDOW}x\na: b\n" + "c: d\n" * 5000)


def test_the_bound_on_nesting_counts_what_fits_in_a_text_that_passes() -> None:
    assert DEEPEST >= 2 * INDENT + (2 * WINDOW - 1) // 2 + 2 * 255


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("a: &b c\n", "&"), ("- &b c\n", "&"), ("&b c\n", "&"), ("a:\n    &b c\n", "&"), ("[&b c]\n", "&"), ("{x, &b c}\n", "&"), ("-   &b\n", "&"), (" &b\n", "&"), ("  &b\n", "&"), ("\n &b c\n", "&"),
        ("a: !b c\n", "!"), ("!b c\n", "!"), ("- ! c\n", "!"), ("[x, !b c]\n", "!"), ("a:\n  !!str\n", "!"), (" !b c\n", "!"), ("   !b c\n", "!"),
        ("a: 1_000\n", "_"), ("- _1\n", "_"), ("1_: a\n", "_"), ("[1, 2_3]\n", "_"), ("a: 1_0.5e1_0\n", "_"), ("a: 1e_5\n", "_"), ('{"a":1_0}\n', "_"), ('{"a":_1}\n', "_"), ("a: -_1\n", "_"),
        ("a: " + "1_" * 100 + "\n", "_"), ("a: " + "_" * 500 + "1\n", "_"),
        ("a: [b\n", "["), ("{a: b\n", "{"), (" [b\n", "["), ("  {b\n", "{"),
    ],
)  # fmt: skip
def test_what_may_be_read_differently_is_doubted(text: str, mark: str) -> None:
    assert mark.encode() in (doubts(text.encode()) or [])


@pytest.mark.parametrize(
    "text",
    [
        "a: \x01\n", "# \x1f\n", "a: \x7f\n", "a: \x80\n", "a: \x9f\n", "a: \ufffe\n", "a: \uffff\n", "a: 1\n\ufeffb: 2\n",
        "a: 0b1\n", "a: 0X1F\n", "- -0x1F\n", "[+0o7]\n", "0B1: x\n", "a: 0x_1\n", "a: 0b1\t\n",
        '{"a":0b1}\n', '{"a":-0x1}\n', "['a':+0o7]\n",
    ],
)  # fmt: skip
def test_what_no_count_of_characters_can_clear_is_certain(text: str) -> None:
    assert doubts(text.encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: Q & A\n", "a: x&y\n", "a: http://x.y/?a=1&b=2\n", "a: well & good\n  & more\n", "a: hello!\n", "a: **bold** *x*\n", "a: x !y\n",
        "a: snake_case\n", "snake_case_1: x\n", "a: tool_12_get\n", "a: __init__\n", "a: 0x1F\n", "a: 0o17\n", "a: 10 or 0b\n", "a: x0b1\n",
        "a: 12ab-0b34-cd\n", "a: []\nb: {}\n", "a: [x, y]\n", "a: text [x]\n", "200: a\n",
    ],
)  # fmt: skip
def test_ordinary_texts_are_not_doubted(text: str) -> None:
    assert doubts(text.encode()) == []
