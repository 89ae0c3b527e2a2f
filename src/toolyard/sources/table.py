"""Why a table is no catalog: how one is recognised, and what to write instead.

A row has no place for the schema of a tool's parameters, and guessing one from columns would lose what matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TABLES = frozenset({".csv", ".tsv", ".tab", ".psv", ".md", ".markdown", ".rst", ".xls", ".xlsx", ".ods", ".parquet"})
"""How files that hold tables are called."""

_HEAD = 4096
_NAMES = frozenset({"name", "tool", "tool_name", "toolname", "tool name", "function", "function_name", "api_name"})
_OTHERS = ("desc", "param", "arg", "input", "type", "namespace")
"""How another column of such a table begins."""


def find_header(data: bytes) -> list[str]:
    """The columns, if the text begins like a table of tools: separated by commas and the like, or Markdown's."""
    lines = data[:_HEAD].decode("utf-8-sig", "replace").lstrip().splitlines()
    for separator in ("\t", "|", ";", ","):
        cells = [cell.strip().strip("\"'*`").strip() for cell in (lines or [""])[0].strip().strip("|").split(separator)]
        words = {cell.lower() for cell in cells}
        if len(cells) > 1 and words & _NAMES and any(word.startswith(_OTHERS) for word in words):
            return cells
    return []


def explain_table(header: Sequence[Any] = ()) -> str:
    """What is wrong with a table, and the nearest form that is read."""
    columns = [str(cell) for cell in header if str(cell).lower() not in ("parameters", "params", "arguments", "args")]
    fields = ", ".join(f'"{cell}": ...' for cell in (columns or ["name", "description"])[:4])
    return (
        "this is a table, and a row has no place for the schema of a tool's parameters; write JSON lines instead, "
        f'one tool a line in a .jsonl file: {{{fields}, "parameters": {{"type": "object", "properties": {{...}}}}}}'
    )
