"""`toolyard open`: a console on a free port, shown in a browser unless somebody minds."""

import os
import signal
import stat
import subprocess
import urllib.request

import pytest
from waiting import until
from warm_python import warm_toolyard

pytestmark = pytest.mark.process


def opened(folder, *arguments, **environment):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("TOOL_REGISTRY", "TOOLYARD"))}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": {**env, **environment}}
    return warm_toolyard().start(["-m", "toolyard", "open", *arguments], cwd=folder, **options)


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.communicate()
    return process.returncode


def test_it_prints_the_address_of_the_console_of_a_file(tmp_path):
    (tmp_path / "mine.py").write_text('def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n')
    process = opened(tmp_path, "mine.py", "--no-browser")
    url = process.stdout.readline().strip()
    with urllib.request.urlopen(url) as answer:
        assert url.endswith("/console/tools") and b">add</span>" in answer.read()
    assert stop(process) == 0


def test_it_shows_the_console_in_the_browser_of_whoever_asks(tmp_path):
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    process = opened(tmp_path, BROWSER=str(browser))
    url = process.stdout.readline().strip()
    until(lambda: seen.exists() and seen.read_text().strip())
    assert seen.read_text().strip() == url
    assert stop(process) == 0
