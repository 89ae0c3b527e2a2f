"""The fast parser gives what the exact one gives or nothing, and never takes the process with it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile_yaml import hostile
from hypothesis import given, settings, strategies as st
from yaml_twins import identical, twins

from toolyard.parsing import parse_yaml, yaml_exact
from toolyard.parsing.yaml_fast import UNDECIDED, load_fast

AGREED = ("same", "undecided")

TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from(" \n:-#'\"[]{},&*!?|>%@`\\_~<.0123456789abcxyzeE\t"),
        st.characters(codec="utf-8", exclude_categories=["Cs"]),
    ),
    max_size=25,
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.dates().map(str),
        st.sampled_from(
            ["yes", "on", "1_000", "0b1", "010", "<<", "&a", "!b", "*c", "- x", "a: b", "# c", "...", "---"]
        ),
        TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(TEXTS, st.integers(0, 600), st.sampled_from(["type", "a b", "x_1"])), inner, max_size=4
        ),
    ),
    max_leaves=15,
)
STYLES = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([False, False, None, True]),
        "default_style": st.sampled_from([None, None, None, None, '"', "'", "|", ">"]),
        "width": st.sampled_from([1, 7, 20, 80, 1000]),
        "indent": st.sampled_from([None, 2, 3, 8]),
        "allow_unicode": st.booleans(),
        "explicit_start": st.booleans(),
        "sort_keys": st.just(False),
    }
)


@settings(max_examples=400, deadline=None, database=None)
@given(VALUES, STYLES)
def test_what_pyyaml_writes_is_read_alike(value: Any, style: dict[str, Any]) -> None:
    assert twins(yaml.dump(value, Dumper=yaml.CSafeDumper, **style)) in AGREED


@settings(max_examples=400, deadline=None, database=None)
@given(
    VALUES, STYLES, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), TEXTS.map(lambda t: t[:3])), max_size=4)
)
def test_what_pyyaml_writes_and_somebody_damages_is_read_alike(
    value: Any, style: dict[str, Any], edits: list[tuple[int, int, str]]
) -> None:
    text = yaml.dump(value, Dumper=yaml.CSafeDumper, **style)
    for at, length, insertion in edits:
        text = text[:at] + insertion + text[at + length :]
    assert twins(text) in AGREED


@pytest.mark.parametrize("block", range(20))
def test_hostile_texts_are_read_alike(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        assert twins(hostile(seed)) in AGREED, f"seed {seed}"


def catalog(size: int) -> dict[str, Any]:
    """Tools with the descriptions that tools have."""
    prose = "Returns the **user**'s `list`: see a: b, Q & A!\n\n* one [link](http://x.y/?a=1&b=2)\n* *two* {id} #3\n\n    code()\n- dash & more"
    return {
        "namespace": "demo",
        "tools": [
            {
                "name": f"tool_{i}_get",
                "description": f"{prose} {i}" if i % 2 else prose.replace("\n", " "),
                "parameters": {
                    "type": "object",
                    "properties": {
                        "q_1": {"type": "string", "default": "2024-01-02"},
                        "n": {"type": "integer", "minimum": -1, "maximum": 2.5},
                    },
                    "required": ["q_1"] if i % 3 else [],
                },
                "tags": ["on", "010", "é", "😀"],
                "meta": {},
            }
            for i in range(size)
        ],
    }


@pytest.mark.parametrize(
    "options", [{}, {"allow_unicode": True}, {"width": 1000}, {"default_flow_style": None}, {"indent": 4}]
)
def test_a_catalog_of_tools_takes_the_fast_path(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    value = catalog(60)
    text = yaml.dump(value, Dumper=yaml.CSafeDumper, **options)
    expected = parse_yaml(text)
    monkeypatch.setattr(yaml_exact, "load_exact", None)
    assert parse_yaml(text) == expected == value


OPENAPI = """openapi: 3.0.0  # a comment with [brackets], an !exclamation & more
info: {title: x, version: "1.0"}
paths:
  /pets/{id}:
    get:
      tags: [pets, "a: b"]
      responses:
        200:
          description: >-
            All is well
        404: {description: 'No [such] pet'}
        default:
          description: |
            {"json": [1,
              2]}
"""


def test_integer_keys_become_text_on_the_fast_path() -> None:
    value = load_fast(OPENAPI, OPENAPI.encode(), 200)
    assert value is not UNDECIDED
    assert list(value["paths"]["/pets/{id}"]["get"]["responses"]) == ["200", "404", "default"]
    assert identical(value, yaml_exact.load_exact(OPENAPI, "f", 200))


@pytest.mark.parametrize(
    "text",
    [
        "010: a\n", "0x1F: a\n", "+1: a\n", "-0: a\n", "1_0: a\n", "{010: a}\n", "{010}\n", "{0o17, x: y}\n", "? 010\n", "- ? 0x1F\n", "? 1\n: 010\n",
        "200: a\n'200': b\n", "1: a\n1.0: b\n", "true: a\n", "- 1: a\n- true: b\n", "- 1: a\n- 1.0: b\n", " !x a: b\n", "1.5: a\n", "~: a\n", ": a\n", "[a]: b\n", "{a: b}: c\n", "a: {[x]: y}\n",
        "<<: {a: b}\n", "a: &b 1\nc: *b\n", "&a [*a]\n", "a: !!str 1\n", "!x a: b\n", "a: .inf\n", "a: [1e400]\n", "a: 1_000\n", "a: 0b1\n", '{"a":-0x1}\n', '{"a":1_0}\n',
        "a: 1\n---\nb: 2\n", "- 1\n---\n- 2\n", "- 1\n...\n", "a\n", "12\n", "", "a: 1\na: 2\n", "a: |\n", "a: \x01\n", "\ta: b\n",
    ],
)  # fmt: skip
def test_what_the_exact_parser_must_decide_is_left_undecided(text: str) -> None:
    assert load_fast(text, text.encode(), 200) is UNDECIDED


@pytest.mark.parametrize(
    "text",
    [
        "a: |\n  &nbsp; text\n  !important\n  1_000\n  [x\n  {y\nb: []\nc: {}\n",
        "a: \"line one\n  &amp; !two\"\nb: 'x\n  [unclosed'\n",
        "- |\n  - {\n    - [\n- {}\n",
    ],
)
def test_indicators_that_turn_out_to_be_text_do_not_slow_it_down(text: str) -> None:
    assert twins(text) == "same"


@pytest.mark.parametrize(
    "text",
    [
        "a: |\n  [x\nb: [y?]\n",
        "# !x\na: |\n  !y\n",
        'a: |\n  &x\nb: "\\x26"\nc: &d 1\n',
        "a: |\n  1_0\nb: 1_0\n",
        "a: |\n  {x\nb: { }\n",
    ],
)
def test_indicators_that_may_be_more_than_text_do(text: str) -> None:
    assert twins(text) == "undecided"


def test_keys_too_deep_to_compare_or_too_long_to_print_are_left_undecided() -> None:
    key = "? " + "- " * 3000 + "x\n"
    for text in (key + key, f"- {key}- {key}", f"- {key}- 1: x\n", "? " + "1" * 5000 + "\n"):
        assert load_fast(text, text.encode(), 200) is UNDECIDED


def test_the_limit_of_depth_is_the_same() -> None:
    text = "".join(f"{' ' * i}a:\n" for i in range(40)) + " " * 40 + "- b\n"
    assert load_fast(text, text.encode(), 40) is UNDECIDED
    assert load_fast(text, text.encode(), 41) is not UNDECIDED


def test_without_a_thread_the_exact_parser_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    assert parse_yaml("a: b\n" + "# c\n" * 1000) == {"a": "b"}


def test_a_version_nobody_has_looked_at_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yaml_rs.__version__", "0.1.7")
    assert load_fast("a: b\n", b"a: b\n", 200) is UNDECIDED


def test_the_size_of_other_threads_stacks_is_left_alone() -> None:
    before = threading.stack_size()
    load_fast("a: b\n", b"a: b\n", 200)
    assert threading.stack_size() == before


CHILD = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from hostile_yaml import DEEP_UNITS, deep
from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_yaml
from toolyard.parsing.yaml_fast import load_fast
import random

def texts():
    for count in (300, 3000, 8000, 30000):
        for unit in DEEP_UNITS:
            yield unit * count
    for key in ("a:", "-", "- a:", "a:\\n{pad}-", "? a", "'q':", "- - a:"):
        for indent in (300, 511, 600, 2000):
            yield "".join(f"{' ' * i}{key.replace('{pad}', ' ' * i)}\\n" for i in range(indent))
    # As deep as the guard lets through: one line of nearly two windows, with indentation and flow on top.
    head = "".join(f"{' ' * i}a:\\n" for i in range(511))
    fill = 8192 - len(head) % 8192 + 1
    head = "#" * (fill % 8192 - 1) + "\\n" + head
    yield head + " " * 511 + "- " * 7500 + "[a: " * 120 + "[" * 135 + "x" + "]" * 255 + "\\n"
    for seed in range(150):
        yield deep(random.Random(seed))

def run():
    global done
    for text in texts():
        try:
            parse_yaml(text)
        except MalformedSource:
            pass
        source = text.encode() + b"\\n"
        load_fast(text + "\\n", source, 100_000)
        done += 1

done = 0
threading.stack_size(256 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
print("survived", done)
"""


def test_no_nesting_kills_the_process_even_on_a_small_stack() -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(Path(__file__).parent)], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    assert child.stderr == ""
    assert int(child.stdout.split()[1]) > 300
