"""Every example runs, and the README shows nothing that does not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_first_steps_runs_and_shows_report_call_and_error():
    done = subprocess.run(
        [sys.executable, "examples/first_steps.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "tool.invalid_args" in done.stdout
    assert "weather_api__get_weather" in done.stdout
    assert "state unchanged: True" in done.stdout
    assert "reopened what-if: ['ok', 'tool.not_found', 'tool.invalid_args', 'ok', 'ok', 'tool.denied']" in done.stdout
    assert done.stderr == ""


def test_the_remote_example_gives_the_same_in_process_and_over_http():
    done = subprocess.run([sys.executable, "examples/remote.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    here, there = done.stdout.split("Over HTTP\n")
    assert here.removeprefix("In process\n") == there
    assert "[33.34, 33.33, 33.33]" in there and "tool.invalid_args" in there and "same hash True" in there
    assert done.stderr == ""


def test_the_example_yard_checks_clean():
    done = subprocess.run(
        [sys.executable, "-m", "toolyard", "check", "yard.yaml"], cwd=ROOT / "examples", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("index", range(len(re.findall(r"```python\n", README))))
def test_python_blocks_of_the_readme_run(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[index]
    (tmp_path / "weather.yaml").write_text((ROOT / "examples/catalogs/weather.yaml").read_text())
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for expected in re.findall(r"# -> (.*)", block):
        assert expected in done.stdout
