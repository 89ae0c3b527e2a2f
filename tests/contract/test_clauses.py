"""Every clause of the seeds that README.md lists is held by a test that is there."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROW = re.compile(
    r"\| (?P<id>\d\.\d\d) \| (?P<clause>.+) \| `(?P<file>[\w/]+\.py)::(?P<test>test_\w+)` \| (?P<why>.*)\|"
)
LINES = [line for line in (TESTS / "contract/README.md").read_text().splitlines() if line.startswith("|")]
ROWS = [match.groupdict() for match in map(ROW.fullmatch, LINES) if match]


def functions_of(file):
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_row_of_the_table_can_be_read():
    heads = [line for line in LINES if line.startswith(("| | clause |", "|---"))]
    assert len(ROWS) == len(LINES) - len(heads) > 150
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert {row["id"][0] for row in ROWS} == set("01234")


@pytest.mark.parametrize("file", sorted({row["file"] for row in ROWS}))
def test_the_tests_that_the_table_names_are_there(file):
    named = {row["test"] for row in ROWS if row["file"] == file}
    assert named - functions_of(TESTS / file) == set()
