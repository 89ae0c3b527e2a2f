"""The reference page: every key, and current."""

from pathlib import Path

import pytest
from warm_python import warm_toolyard

from toolyard.app.schema import config_reference
from toolyard.calls.faults import TYPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


@pytest.mark.process
def test_the_page_in_the_docs_is_what_the_options_say():
    # In a process of its own: other tests register plugins.
    made = warm_toolyard().run(["-m", "toolyard", "schema", "--markdown"])
    assert made.stdout == PAGE.read_text(), "run `make docs-reference`"


def test_keys_of_blocks_plugins_and_what_is_inside_them_are_there():
    page = config_reference()
    for key in ("server", "sessions"):
        assert f"## `{key}`" in page
    for key in ("mcp.page_size", "rules[].deny", "logging.level", "lm_config.prices.prompt", "faults.rules[].every"):
        assert f"| `{key}` |" in page
    assert "| `path` | text | required | The file: JSON, JSON lines or YAML. |" in page


def test_every_row_says_what_its_key_is_for():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert all(line.rstrip(" |")[-1] in ".)" for line in rows)


def test_choices_of_every_alternative_are_listed():
    row = next(line for line in config_reference().splitlines() if line.startswith("| `faults.rules[].type`"))
    assert all(f"`{kind}`" in row for kind in TYPES) and " or " not in row.split("|")[2]
