"""The reference is written from the code: nothing that exists is missing, and the pages are up to date."""

import importlib.util
import re

import pytest
from warm_python import warm_toolyard

import toolyard
from toolyard import Toolyard
from toolyard.calls.faults import TYPES
from toolyard.cli.main import app
from toolyard.serving import asgi
from toolyard.serving.console.routes import SCREENS

from .pages import ROOT

_spec = importlib.util.spec_from_file_location("docs_reference", ROOT / "docs" / "reference.py")
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


def read(page):
    return (ROOT / "docs" / f"{page}.md").read_text()


@pytest.mark.parametrize("page", reference.PAGES)
def test_a_page_of_the_reference_is_what_the_code_says(page):
    assert reference.PAGES[page]().rstrip() + "\n" == read(page), "run `make docs-reference`"


@pytest.mark.process
def test_the_page_of_the_configuration_is_what_the_options_say():
    # In a process of its own: other tests register plugins.
    program = "import runpy, sys; print(runpy.run_path(sys.argv[1])['write_configuration'](), end='')"
    made = warm_toolyard().run(["-c", program, str(ROOT / "docs" / "reference.py")])
    assert made.stdout == read("configuration"), "run `make docs-reference`"


def test_keys_of_blocks_plugins_and_what_is_inside_them_are_on_the_page_of_the_configuration():
    page = reference.write_configuration()
    for key in ("server", "sessions"):
        assert f"## `{key}`" in page
    for key in ("mcp.page_size", "rules[].deny", "logging.level", "lm_config.prices.prompt", "faults.rules[].every"):
        assert f"| `{key}` |" in page
    assert "| `path` | text | required | The file: JSON, JSON lines or YAML. |" in page


def test_every_row_of_the_configuration_says_what_its_key_is_for():
    rows = [line for line in read("configuration").splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert all(line.rstrip(" |")[-1] in ".)" for line in rows)


def test_choices_of_every_alternative_are_listed():
    page = reference.write_configuration()
    row = next(line for line in page.splitlines() if line.startswith("| `faults.rules[].type`"))
    assert all(f"`{kind}`" in row for kind in TYPES) and " or " not in row.split("|")[2]


def test_every_error_code_has_a_cause_and_a_remedy():
    told = {code for group in reference.REMEDIES.values() for code in group}
    assert told == set(reference.find_codes())
    assert all(len(words) == 2 and all(words) for group in reference.REMEDIES.values() for words in group.values())


def test_every_command_is_on_its_page():
    commands = {" ".join(words) for words in reference.list_commands(app)}
    assert len(commands) > 30
    assert commands == set(re.findall(r"^## `toolyard (.+)`$", read("commands"), re.MULTILINE))


def test_every_route_of_the_api_is_on_its_page():
    page = set(re.findall(r"^## `[A-Z]+ (\S+)`$", read("http-api"), re.MULTILINE))
    served = asgi(Toolyard.from_config({"tools": [{"type": "domains", "domains": ["core"]}]}))
    served_paths = {path for table in served.routes for path in table.paths if path.startswith(("/v1", "/arp"))}
    assert len(served_paths) > 20
    assert served_paths <= page


def test_every_twin_of_a_screen_is_on_the_page_of_the_console():
    page = read("console")
    twins = [f"`{screen.path.removeprefix('/console/').replace(':path', '')}.json`" for screen in SCREENS]
    assert [twin for twin in twins if twin not in page] == []


def test_every_public_name_is_on_its_page():
    page = read("python-api")
    assert [name for name in toolyard.__all__ if f"`{name}" not in page] == []
