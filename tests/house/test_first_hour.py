"""The page of the first hour: its files are written and its very commands run, as real processes in an empty folder."""

import re

import pytest
from docs.pages import read_pages
from docs.shell import TOKEN, pets, read_commands, run_commands, shell

from toolyard import SourceUnavailable, ToolCall, Toolyard

__all__ = ["pets", "shell"]  # fixtures

pytestmark = pytest.mark.process

PAGE = next(page for page in read_pages() if page.name == "first-hour")
TASKS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.text, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("task", [task for task, text in TASKS.items() if "```console" in text])
def test_each_task_takes_the_commands_that_the_page_says(shell, task):
    # What a reader has by then: the files of this task and of those before it.
    so_far = PAGE.text[: PAGE.text.index(TASKS[task])] + TASKS[task]
    commands = [command for command, *_ in read_commands(TASKS[task])]
    assert commands and run_commands(shell, PAGE._replace(text=so_far), TASKS[task]) == commands


def test_every_task_takes_three_steps_at_most():
    assert len(TASKS) >= 12
    for task, text in TASKS.items():
        # What is in a block of `sh` needs Docker or a model's SDK: tests/deploy and tests/adapters try those.
        typed = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        files = [block for block in PAGE._replace(text=text).blocks() if "." in block.title]
        count = len(files) + len(list(read_commands(text))) + sum(len(block.splitlines()) for block in typed)
        assert 0 < count <= 3, (task, count)


def test_an_api_behind_a_key_says_which_option_is_missing_with_the_line_that_gives_it(pets):
    source = {"type": "rest", "spec": f"{pets}/openapi.json"}
    with pytest.raises(
        SourceUnavailable, match=r'answers 401.*the source.*auth: \{type: bearer, token: "\$\{NAME\}"\}'
    ):
        Toolyard.from_config({"tools": [source]})
    source["headers"] = {"authorization": f"Bearer {TOKEN}"}
    for token, sent in (("", "no credential was sent"), ("wrong-token", "that was sent is refused")):
        engines = {"rest": {"type": "rest", "auth": {"type": "bearer", "token": token}}}
        with Toolyard.from_config({"tools": {"registry": [source], "engines": engines}}) as yard:
            yard.tool_engine.setup("s")
            [answer] = yard.tool_engine.execute("s", [ToolCall("addPet", {"name": "Tom"})])
            assert (
                sent in answer.error_info.hint
                and 'auth: {type: "bearer", token: "${API_TOKEN}"}' in answer.error_info.hint
            )
