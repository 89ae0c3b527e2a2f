"""Every block of code of every page: Python is run, commands are typed, configs are read, JSON is parsed."""

import json
import re

import pytest
import yaml
from warm_python import warm_toolyard

from toolyard.app.blocks import is_config
from toolyard.app.config import read_config

from .pages import INSTALLS, read_pages
from .shell import pets, read_commands, run_commands, shell, write_files

__all__ = ["pets", "shell"]  # fixtures

pytestmark = pytest.mark.process

PAGES = {page.name: page for page in read_pages()}
PYTHON = [
    (name, index)
    for name, page in PAGES.items()
    for index, block in enumerate(page.blocks("python"))
    if not block.title
]
COMMANDS = [name for name, page in PAGES.items() if page.blocks("console") and name != "first-hour"]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_say_what_the_page_says(shell, name):
    commands = [command for command, *_ in read_commands(PAGES[name].text)]
    assert commands and run_commands(shell, PAGES[name], PAGES[name].text) == commands


@pytest.mark.parametrize(("name", "index"), PYTHON)
def test_python_prints_what_the_page_says(name, index, tmp_path):
    block = PAGES[name].blocks("python")[index].text
    write_files(PAGES[name], tmp_path)
    done = warm_toolyard().run(["-c", block], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"# -> (.*)", block)


@pytest.mark.parametrize("name", PAGES)
def test_configs_are_read_and_nothing_is_in_another_language(name, tmp_path):
    for block in PAGES[name].blocks():
        match block.language:
            case "yaml":
                document = yaml.safe_load(block.text)
                if not block.title or is_config(document):
                    values = dict.fromkeys(re.findall(r"\$\{(\w+)", block.text), "x")
                    read_config({"tools": [], **document}, base=tmp_path, env=values)
            case "json":
                json.loads(block.text)
            case "sh":
                # What installs and deploys; anything else belongs into a block of `console`, which runs.
                lines = block.text.replace("\\\n", "").splitlines()
                assert all(INSTALLS.match(line) for line in lines if line and not line.startswith("#")), block.text
            case language:
                assert language in ("python", "console", "text", "toml", "dockerfile", "ini", "mermaid"), language
