"""The published JSON Schema says what the reader says."""

import re
from pathlib import Path

import jsonschema_rs
import pytest

from toolyard.app.schema import config_schema
from toolyard.parsing import parse_yaml

GOOD = """
tools:
  registry:
    - {type: file, path: a.yaml, namespace: x, engine: py, on_error: skip}
    - {type: inline, tools: [{name: y}], namespace: y}
  engines:
    py: {type: python, timeout: 3.5, output_check: strict, max_concurrent_calls: 4, retries: 2, threads: "${N:-4}"}
sessions: {store: sqlite, path: s.db, durability: full, ttl: 3600}
policy: {default: deny, rules: [{allow: "x::*"}]}
tracing: {logging: true}
"""


@pytest.fixture(scope="module")
def validator():
    return jsonschema_rs.validator_for(config_schema())


def test_a_good_config_is_valid_and_a_flat_list_too(validator):
    assert validator.is_valid(parse_yaml(GOOD))
    assert validator.is_valid({"tools": [{"type": "file", "path": "a.yaml"}]})


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tools", "registry", 0, "pth"), "x"),
        (("tools", "engines", "py", "timeot"), 3),
        (("tools", "engines", "py", "type"), "pyhton"),
        (("tools", "engines", "py", "output_check"), "hard"),
        (("tools", "engines", "py", "sessions"), {}),
        (("sessions", "stor"), "x"),
        (("policy", "defalt"), "deny"),
        (("tracing", "jsnl"), {}),
        (("tool",), []),
    ],
)
def test_a_wrong_key_or_value_is_not(validator, place, value):
    document = parse_yaml(GOOD)
    item = document
    for step in place[:-1]:
        item = item[step]
    item[place[-1]] = value
    assert not validator.is_valid(document)


README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", README, re.DOTALL), ids=["sessions", "sources"])
def test_the_configs_of_the_readme_are_valid(validator, block):
    assert validator.is_valid(parse_yaml(block))
