"""The published JSON Schema says what the reader says."""

import re
from pathlib import Path

import jsonschema_rs
import pytest

from toolyard import ToolyardError
from toolyard.app import survey
from toolyard.app.schema import config_schema
from toolyard.parsing import parse_yaml
from toolyard.plugins import ENGINES, ENRICHMENTS, LOADERS

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
def test_a_config_with_a_wrong_key_or_value_is_invalid(validator, place, value):
    document = parse_yaml(GOOD)
    item = document
    for step in place[:-1]:
        item = item[step]
    item[place[-1]] = value
    assert not validator.is_valid(document)


DOCS = "\n".join(path.read_text() for path in sorted((Path(__file__).resolve().parents[2] / "docs").glob("*.md")))
CONFIGS = [
    block
    for block in re.findall(r"^```yaml\n(.*?)^```", DOCS, re.DOTALL | re.MULTILINE)
    if "tools:" in block and "..." not in block
]


@pytest.mark.parametrize("block", CONFIGS, ids=[f"config{number}" for number in range(len(CONFIGS))])
def test_the_configs_of_the_docs_are_valid(validator, block):
    assert validator.is_valid(parse_yaml(block))


VALUES = [
    *(None, True, False, 0, 1, -1, 2, 1.0, 1.5, -0.5, "", "x", "5", "true", "a::*"),
    *("warn", "strict", "hold", "memory", "sqlite", "postgres", "full", "deny", "INFO", "write", "session", "raise"),
    *("${N}", "${F}", "${B}", "${W}", "${N}0", "${NOT_SET:-1}", "${NOT_SET:-warn}"),
    *([], ["a::*"], ["a"], [""], {}, {"a::*": 1}, {"a": 1}, {"a::*": 0}, {"*": "${N}"}, {"path": "x"}),
]
SOURCE = {"type": "inline", "tools": [{"name": "x"}]}


def engine(**options):
    return {"tools": {"registry": [{**SOURCE, "engine": "p"}], "engines": {"p": {"type": "python", **options}}}}


def beside(**blocks):
    return {"tools": [SOURCE], **blocks}


SETTINGS = (
    *("timeout", "output_check", "max_concurrent_calls", "max_concurrent_calls_per_tool", "max_result_bytes"),
    *("retries", "retry_delay", "threads", "abandoned", "name", "sessions", "nonsense"),
)
PLACES = {
    **{f"engine.{key}": lambda v, key=key: engine(**{key: v}) for key in SETTINGS},
    **{
        f"sessions.{store}.{key}": lambda v, key=key, store=store: beside(
            sessions={**({"store": store} if store else {}), **({"dsn": "x"} if store == "postgres" else {}), key: v}
        )
        for store in ("", "memory", "sqlite", "postgres")
        for key in ("store", "path", "durability", "dsn", "schema", "ttl", "max_open")
    },
    **{f"policy.{key}": lambda v, key=key: beside(policy={key: v}) for key in ("default", "rules", "budgets")},
    **{
        f"rule.{key}": lambda v, key=key: beside(policy={"rules": [{"deny": "a::*", key: v}]})
        for key in ("deny", "ask", "effects", "tags", "sessions")
    },
    **{
        f"budget.{key}": lambda v, key=key: beside(policy={"budgets": [{"max_calls": 1, key: v}]})
        for key in ("max_calls", "tools", "per")
    },
    **{
        f"tracing.{key}": lambda v, key=key: beside(tracing={key: v})
        for key in ("logging", "jsonl", "opentelemetry", "arguments", "results")
    },
    "jsonl.max_bytes": lambda v: beside(tracing={"jsonl": {"path": "x", "max_bytes": v}}),
    "logging.level": lambda v: beside(tracing={"logging": {"level": v}}),
    **{f"top.{key}": lambda v, key=key: beside(**{key: v}) for key in ("sessions", "policy", "tracing", "server")},
    "tools.registry": lambda v: {"tools": {"registry": v}},
    "tools.engines": lambda v: {"tools": {"registry": [], "engines": v}},
    "tools.enrichments": lambda v: {"tools": {"registry": [], "enrichments": v}},
    "source.on_error": lambda v: beside(tools=[{**SOURCE, "on_error": v}]),
    "multi.default": lambda v: {"tools": {"registry": [], "engines": {"m": {"type": "multi", "default": v}}}},
    "multi.timeout": lambda v: {"tools": {"registry": [], "engines": {"m": {"type": "multi", "timeout": v}}}},
}


def accepted(document):
    try:
        survey(document)[0].close()
    except ToolyardError:
        return False
    return True


@pytest.mark.parametrize("place", PLACES)
def test_the_schema_accepts_what_the_reader_accepts(validator, monkeypatch, place):
    """Except that it cannot know what a variable will hold, and lets those pass that may hold the right thing."""
    for name, value in {"N": "3", "F": "1.5", "B": "true", "W": "sqlite"}.items():
        monkeypatch.setenv(name, value)
    for value in VALUES:
        document = PLACES[place](value)
        valid, read = validator.is_valid(document), accepted(document)
        assert valid == read or (valid and "${" in str(value)), (value, valid, read)


@pytest.mark.parametrize(
    "document",
    [
        engine(timeout="${N}", retries="${N}", retry_delay="${F}", max_concurrent_calls_per_tool={"a::*": "${N}"}),
        engine(retries=1.0, output_check="${NOT_SET:-warn}", threads="${NOT_SET:-4}"),
        beside(sessions={"store": "${W}", "path": "x", "durability": "full", "ttl": "${F}", "max_open": "${N}"}),
        beside(policy={"budgets": [{"max_calls": "${N}"}]}, tracing={"logging": "${B}", "results": "${B}"}),
        {"tools": [{**SOURCE, "engine": None}], "sessions": None, "policy": None, "tracing": None, "server": None},
        {"tools": [{"type": "file", "path": "x.json", "max_bytes": "${N}"}]},
    ],
)
def test_variables_and_nulls_are_accepted_by_both(validator, monkeypatch, document):
    for name, value in {"N": "3", "F": "1.5", "B": "true", "W": "sqlite"}.items():
        monkeypatch.setenv(name, value)
    assert validator.is_valid(document)
    assert accepted(document)


@pytest.mark.parametrize("name", ["", "tool_executions"])
def test_an_engine_cannot_have_a_name_that_sessions_use(validator, name):
    document = {"tools": {"registry": [], "engines": {name: {"type": "python"}}}}
    assert not validator.is_valid(document)
    assert not accepted(document)


def described(schema, path=""):
    """Every key of the schema that has no description."""
    if isinstance(schema, list):
        for number, item in enumerate(schema):
            yield from described(item, f"{path}[{number}]")
    if not isinstance(schema, dict):
        return
    for key, item in schema.get("properties", {}).items():
        if isinstance(item, dict) and "const" not in item and not item.get("description"):
            yield f"{path}.{key}"
        yield from described(item, f"{path}.{key}")
    for keyword in ("anyOf", "allOf", "items", "additionalProperties", "then"):
        yield from described(schema.get(keyword), path)


def test_every_key_of_a_config_says_what_it_is_for():
    config = config_schema()
    for kind, table in (("registry", LOADERS), ("engines", ENGINES), ("enrichments", ENRICHMENTS)):
        part = config["properties"]["tools"]["anyOf"][0]["properties"][kind]
        cases = (part.get("items") or part["additionalProperties"])["allOf"]
        # Other tests register plugins that say nothing about themselves.
        cases[:] = [
            case
            for case in cases
            if table.get(case["if"]["properties"]["type"]["const"]).__module__.startswith("toolyard.")
        ]
    assert {path for path in described(config) if not path.endswith(".type")} == set()
