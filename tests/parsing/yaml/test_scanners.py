"""libyaml reads; PyYAML's own scanner reads the legal YAML that libyaml refuses, and both see the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from conftest import SOAK, material
from parsing.yaml.hostile_yaml import hostile
from parsing.yaml.scanner_twins import compare_scanners
from toolyard.model.errors import MalformedSource
from toolyard.parsing import locate, parse_yaml, yaml_events

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


@given(VALUES, STYLES)
def test_both_scanners_read_what_pyyaml_writes_alike(value: Any, style: dict[str, Any]) -> None:
    assert compare_scanners(yaml.dump(value, Dumper=yaml.CSafeDumper, **style)) != "different"


@given(
    VALUES, STYLES, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), TEXTS.map(lambda t: t[:3])), max_size=4)
)
def test_what_pyyaml_writes_and_somebody_damages_is_seen_alike(
    value: Any, style: dict[str, Any], edits: list[tuple[int, int, str]]
) -> None:
    text = yaml.dump(value, Dumper=yaml.CSafeDumper, **style)
    for at, length, insertion in edits:
        text = text[:at] + insertion + text[at + length :]
    assert compare_scanners(text) != "different"


@pytest.mark.parametrize("block", range(5 if SOAK else 1))  # `soak_yaml_fuzz.py` has more
def test_hostile_texts_are_seen_alike(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        assert compare_scanners(hostile(seed)[:5_000]) != "different", f"seed {seed}"


def test_both_scanners_read_real_documents_alike() -> None:
    files = [path for path in material("**/*.y*ml") if path.stat().st_size < 50_000]
    assert files
    assert {path: compare_scanners(path.read_text(encoding="utf-8-sig")) for path in files} == dict.fromkeys(
        files, "same"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: |\n \tx\n \ty\nb: 1\n", {"a": "\tx\n\ty\n", "b": 1}),
        ("a: >-\n  \tx\n", {"a": "\tx"}),
        ("a: >-\n  \tx\n  y\nb: !!str |+ # why\n\n \n  \t\n\n", {"a": "\tx\ny", "b": "\n\n\t\n\n"}),
        ("a: |\n  - b: |\n      \tc\nd:\n  |\n  \te\n", {"a": "- b: |\n    \tc\n", "d": "\te\n"}),
        ("{a:[1], b:{c: 2}}\n", {"a": [1], "b": {"c": 2}}),
        ("e: \u2028\na: |\n \tx\u2028y\n", {"e": "\u2028", "a": "\tx\u2028y\n"}),
        ("x: &a {k: 010}\ny: *a\na: |\n \tt\n", {"x": {"k": 10}, "y": {"k": 10}, "a": "\tt\n"}),
    ],
)
def test_legal_yaml_that_libyaml_refuses_is_read(text: str, value: object) -> None:
    with pytest.raises(yaml.YAMLError):
        yaml.load(text, Loader=yaml.CSafeLoader)
    assert parse_yaml(text) == value
    assert locate(text, f"/{next(reversed(parse_yaml(text)))}", yaml=True) is not None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: |\n \tx\na: 2\n", "f:3:1: key 'a' appears twice"),
        ("a: |\n \tx\nb: " + "[" * 300 + "]" * 300 + "\n", "f:3:203: nested deeper than 200 levels"),
        ("a: |\n \tx\nb: &b " + str(["x"] * 999) + "\nc: [" + "*b, " * 2000 + "]\n", "aliases expand"),
        ("a: |\n \tx\nb: .inf\n", "f:3:4: .inf has no place in JSON"),
    ],
)
def test_the_rules_hold_for_it_as_for_any_other(text: str, where: str) -> None:
    with pytest.raises(MalformedSource, match=where.replace("[", r"\[")):
        parse_yaml(text, what="f")


@pytest.mark.parametrize("text", ["a: |\n\tx\n", "a: |\n \tx\nb: [\n"])
def test_what_both_refuse_is_explained_as_libyaml_sees_it(text: str) -> None:
    with pytest.raises(MalformedSource, match="a tab cannot indent YAML; use spaces"):
        parse_yaml(text)


def test_a_text_too_long_for_the_slow_scanner_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: {b:[1]}\n" + "# padding\n" * 100
    assert parse_yaml(text) == {"a": {"b": [1]}}
    monkeypatch.setattr(yaml_events, "MAX_PURE_CHARACTERS", len(text) - 1)
    with pytest.raises(MalformedSource, match="unexpected ':'"):
        parse_yaml(text)


CHILD = """
import os, random, sys, threading
sys.path.insert(0, sys.argv[1])
from hostile_yaml import DEEP_UNITS, deep
from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_yaml

def texts():
    # Beyond the interpreter's limit of recursion, and far beyond.
    for count in (1500, 30000):
        for unit in DEEP_UNITS:
            yield unit * count
            # What libyaml refuses goes to the other scanner, which takes its time and has no stack to run out of.
            if count == 1500 or os.environ.get("TOOLYARD_SOAK"):
                yield "|\\n \\tx\\n" + unit * count
    for key in ("a:", "-", "- a:", "a:\\n{pad}-", "? a", "'q':", "- - a:"):
        yield "".join(f"{' ' * i}{key.replace('{pad}', ' ' * i)}\\n" for i in range(600))
    for seed in range(30):
        yield deep(random.Random(seed))

def run():
    global done
    for text in texts():
        # libyaml looks at every open bracket again for each new one: beyond the usual depth that takes seconds.
        for depth in (200, 100_000) if len(text) < 20_000 else (200,):
            try:
                parse_yaml(text, max_depth=depth)
            except MalformedSource:
                pass
        done += 1

done = 0
threading.stack_size(256 * 1024)
thread = threading.Thread(target=run)
thread.start()
thread.join()
print("survived", done)
"""


@pytest.mark.process
def test_no_nesting_kills_the_process_even_on_a_small_stack() -> None:
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stderr == ""
    assert int(child.stdout.split()[1]) > 80
