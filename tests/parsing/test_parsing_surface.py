"""What the folder offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import toolyard.parsing


def test_the_public_names_are_these() -> None:
    assert toolyard.parsing.__all__ == [
        "iter_json_lines",
        "locate",
        "parse_json",
        "parse_yaml",
        "paused_gc",
        "read_bytes",
    ]
    assert all(callable(getattr(toolyard.parsing, name)) for name in toolyard.parsing.__all__)


@pytest.mark.process
def test_importing_it_loads_no_yaml_parser() -> None:
    code = "import sys, toolyard.parsing; print(sorted({'yaml', 'jiter', 'orjson'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.process
def test_json_needs_no_yaml_parser_even_to_explain_an_error() -> None:
    code = (
        "import sys\nfrom toolyard.parsing import parse_json\n"
        "try:\n    parse_json('{')\nexcept ValueError:\n    print(sorted({'yaml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
