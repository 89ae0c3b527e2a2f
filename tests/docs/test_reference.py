"""The reference is written from the code: nothing that exists is missing, and the pages are up to date."""

import importlib.util
import re

import pytest

import toolyard
from toolyard import Toolyard
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
    twins = [f"`{screen.path.removeprefix('/console/')}.json`" for screen in SCREENS]
    assert [twin for twin in twins if twin not in page] == []


def test_every_public_name_is_on_its_page():
    page = read("python-api")
    assert [name for name in toolyard.__all__ if f"`{name}" not in page] == []
