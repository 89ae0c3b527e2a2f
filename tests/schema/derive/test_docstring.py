import dataclasses
import enum
import functools
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from toolyard.schema.derive.docstring import DocInfo, parse_docstring, read_docstring

GOOGLE = """Find a city.

Looks in the atlas first.

Args:
    name (str): What it is called,
        in any language.
    limit (int, optional): How many. Defaults to 3.

Returns:
    dict: The cities.
"""

NUMPY = """Find a city.

Looks in the atlas first.

Parameters
----------
name : str
    What it is called,
    in any language.
limit : int, optional
    How many. Defaults to 3.

Returns
-------
dict
    The cities.
"""

SPHINX = """Find a city.

Looks in the atlas first.

:param str name: What it is called,
    in any language.
:param limit: How many. Defaults to 3.
:type limit: int
:returns: The cities.
:rtype: dict
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_say_the_same(text: str) -> None:
    assert parse_docstring(text) == DocInfo(
        description="Find a city.\n\nLooks in the atlas first.",
        params={"name": "What it is called,\nin any language.", "limit": "How many. Defaults to 3."},
        returns="The cities.",
        types={"name": "str", "limit": "int"},
    )


@pytest.mark.parametrize(
    "text",
    [
        "Note: this is prose.",
        "Find it.\n\nExample: find('x').\nParameters: see the manual.",
        ":-) is how this begins",
        "Returns: the sum, on one line.",
        "Times are like this: 10:30.\n\n    Args:\n        inside an indented example",
        "Steps:\n  1. look\n  2. leap",
        "A list:\n\n- first: one\n- second: two",
    ],
)
def test_prose_with_colons_is_left_alone(text: str) -> None:
    assert parse_docstring(text) == DocInfo(description=text)


@pytest.mark.parametrize(
    "text",
    [
        "Do.\n\nArgs:\n    x - no colon here",
        "Do.\n\nArgs:\n    All of them are optional: see below",
        "Do.\n\nArgs:",
        "Do.\n\nParameters\n----------",
        "Do.\n\nParameters\n----------\n    only indented text",
        "Do.\n\n:param: nameless",
        "Do.\n\n:param one two three four: too many words",
        "Do.\n\nReturns\n-------",
    ],
)
def test_a_malformed_section_stays_in_the_description(text: str) -> None:
    assert parse_docstring(text) == DocInfo(description=text)


def test_other_sections_stay_in_the_description_in_their_place() -> None:
    text = "Do.\n\nArgs:\n    x: It.\n\nRaises:\n    ValueError: If not.\n\nReturns:\n    All.\n\nMore about it."

    assert parse_docstring(text) == DocInfo(
        description="Do.\n\nRaises:\n    ValueError: If not.\n\nMore about it.", params={"x": "It."}, returns="All."
    )


def test_a_numpy_section_ends_where_prose_begins() -> None:
    text = "Do.\n\nParameters\n----------\nx : int\n    It.\n\nBeware of the dog.\n\nNotes\n-----\nMore."

    assert parse_docstring(text) == DocInfo(
        "Do.\n\nBeware of the dog.\n\nNotes\n-----\nMore.", {"x": "It."}, types={"x": "int"}
    )


def test_several_numpy_results_keep_their_names() -> None:
    text = "Do.\n\nReturns\n-------\nx : int\n    One.\ny : str\n    Two."

    assert parse_docstring(text).returns == "x: int: One.\ny: str: Two."


def test_stars_and_shared_descriptions_are_understood() -> None:
    text = "Do.\n\nArgs:\n    x, y: Both.\n    **options: The rest."

    assert parse_docstring(text).params == {"x": "Both.", "y": "Both.", "options": "The rest."}


def test_text_in_the_place_of_a_type_is_kept_when_there_is_no_other() -> None:
    text = "Do.\n\nParameters\n----------\nx: the width in metres\ny : int"

    assert parse_docstring(text).params == {"x": "the width in metres"}


def test_a_sphinx_field_may_be_wrapped_without_indent() -> None:
    text = "Do.\n\n:param x: One\ntwo.\n:param y: Three.\n\nAfterwards."

    assert parse_docstring(text) == DocInfo("Do.\n\nAfterwards.", {"x": "One\ntwo.", "y": "Three."})


@pytest.mark.parametrize("text", ["", "   ", "\n\n", "Args:\n    x: Only this."])
def test_there_may_be_no_description(text: str) -> None:
    assert parse_docstring(text).description == ""


WORDS = st.text(st.sampled_from("abcdefg"), min_size=1, max_size=6)
SENTENCES = st.lists(WORDS, min_size=1, max_size=5).map(lambda words: " ".join(words).capitalize() + ".")
NAMES = WORDS.map(lambda word: f"{word}_1")


def google(params: dict[str, str], returns: str) -> str:
    return "\n".join(["Args:", *(f"    {k}: {v}" for k, v in params.items()), "", "Returns:", f"    {returns}"])


def numpy(params: dict[str, str], returns: str) -> str:
    entries = [line for k, v in params.items() for line in (f"{k} : int", f"    {v}")]
    return "\n".join(["Parameters", "----------", *entries, "", "Returns", "-------", "int", f"    {returns}"])


def sphinx(params: dict[str, str], returns: str) -> str:
    return "\n".join([*(f":param {k}: {v}" for k, v in params.items()), f":returns: {returns}"])


@given(
    st.lists(SENTENCES, min_size=1, max_size=3),
    st.dictionaries(NAMES, SENTENCES, min_size=1, max_size=4),
    SENTENCES,
    st.sampled_from([google, numpy, sphinx]),
)
def test_what_is_written_in_a_style_is_read_back(
    paragraphs: list[str], params: dict[str, str], returns: str, style: Any
) -> None:
    description = "\n\n".join(paragraphs)

    types = dict.fromkeys(params, "int") if style is numpy else {}

    assert parse_docstring(f"{description}\n\n{style(params, returns)}") == DocInfo(description, params, returns, types)


LINES = ["Args:", "Parameters", "----------", "Returns:", "Returns", "Raises:", "", "", "y", ">>> f()", "```"]
MARKED = [":param x: @", ":returns: @", "x: @", "x (int): @", "@ is prose", "Note: @", "- @: point", ":@", "*args: @"]


@given(st.lists(st.tuples(st.sampled_from(LINES + MARKED), st.sampled_from([0, 0, 4, 8])), max_size=9))
def test_no_word_is_ever_lost(lines: list[tuple[str, int]]) -> None:
    # Under a NumPy heading `x: word` names a type, which an annotation says better.
    typed = any(set(text) == {"-"} for text, _ in lines)
    text = "\n".join(" " * indent + line.replace("@", f"word{i}z") for i, (line, indent) in enumerate(lines))

    doc = parse_docstring(text)

    said = " ".join([doc.description, *doc.params, *doc.params.values(), doc.returns or ""])
    lost = [word for word in text.split() if word.startswith("word") and word.rstrip(":") not in said]
    assert not lost or typed


@given(st.text(max_size=200))
def test_any_text_at_all_can_be_read(text: str) -> None:
    assert isinstance(parse_docstring(text), DocInfo)


class Plain:
    """A plain class.

    Attributes:
        size: How big.
    """

    def __init__(self, size: int, colour: str) -> None:
        """Make one.

        Args:
            colour: Which one.
        """

    def run(self) -> None:
        """Run.

        Returns:
            Nothing.
        """


class Child(Plain):
    def run(self) -> None:
        pass


def test_a_class_is_described_by_its_docstring_and_that_of_init() -> None:
    assert read_docstring(Plain) == DocInfo("A plain class.", {"size": "How big.", "colour": "Which one."})


def test_a_class_without_docstring_is_described_by_init() -> None:
    class Bare:
        def __init__(self) -> None:
            """Make it."""

    assert read_docstring(Bare).description == "Make it."


def test_methods_and_classes_inherit_their_docstring() -> None:
    assert read_docstring(Child(1, "red").run) == DocInfo("Run.", {}, "Nothing.")
    assert read_docstring(Child).description == "A plain class."


def test_a_callable_instance_is_described_by_call_or_else_by_its_class() -> None:
    class Spoken:
        """The class."""

        def __call__(self) -> None:
            """The call."""

    class Silent:
        """The class."""

        def __call__(self) -> None:
            pass

    assert read_docstring(Spoken()).description == "The call."
    assert read_docstring(Silent()).description == "The class."


def test_a_partial_is_described_by_what_it_wraps() -> None:
    once = functools.partial(Plain.run, Plain(1, "red"))

    assert read_docstring(functools.partial(once)) == DocInfo("Run.", {}, "Nothing.")


def test_text_that_libraries_put_on_classes_is_not_the_authors() -> None:
    @dataclasses.dataclass
    class Data:
        x: int

    class Named(NamedTuple):
        x: int

    class Colour(enum.Enum):
        RED = 1

    class Model(BaseModel):
        x: int

    class Mapping(dict[str, int]):
        pass

    class Empty:
        def __init__(self) -> None:
            pass

    for cls in (Data, Named, Colour, Model, Mapping, Empty):
        assert read_docstring(cls) == DocInfo(), cls


def test_a_builtin_speaks_for_itself() -> None:
    assert read_docstring(len).description == "Return the number of items in a container."


@pytest.mark.process
def test_the_parser_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, toolyard.schema.derive.docstring; print('docstring_parser' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_a_heading_may_be_underlined_as_a_title_is() -> None:
    assert parse_docstring("Do.\n\nParameters\n==========\n\nx : int\n    It.").params == {"x": "It."}
