"""The required tests of the JSON-Schema-Test-Suite, through `toolyard.schema`."""

import json

import pytest

from conftest import material
from toolyard.model.errors import InvalidSchemaError
from toolyard.schema.compile import WALK_STEPS, compile_schema
from toolyard.schema.walk import Walk

DRAFTS = {"draft2020-12": None, "draft7": "http://json-schema.org/draft-07/schema#"}

# Schemas that live elsewhere are never fetched, so these cases are refused when they are compiled. The
# two of vocabulary.json name a meta-schema on another host.
REMOTE = {
    ("draft2020-12", "refRemote.json"): 15,
    ("draft2020-12", "dynamicRef.json"): 5,
    ("draft2020-12", "vocabulary.json"): 2,
    ("draft7", "refRemote.json"): 11,
}


def vectors(draft):
    return material(f"jsonschema/tests/{draft}/*.json")


def prepared(schema, uri):
    return {"$schema": uri, **schema} if uri and isinstance(schema, dict) and "$schema" not in schema else schema


def leads_into(value, pointer):
    """Whether there is something at the pointer's end."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return False
    return True


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_vector_passes_but_for_refused_remote_references(draft):
    wrong, walked, refused, checked = [], [], {}, 0
    for path in vectors(draft):
        for case in json.loads(path.read_text()):
            try:
                compiled = compile_schema(prepared(case["schema"], DRAFTS[draft]))
            except InvalidSchemaError as error:
                assert "localhost:1234" in str(error), (path.name, case["description"])
                refused[draft, path.name] = refused.get((draft, path.name), 0) + 1
                continue
            for test in case["tests"]:
                checked += 1
                if compiled.is_valid(test["data"]) is not test["valid"]:
                    wrong.append((path.name, case["description"], test["description"]))
                found = compiled.violations(test["data"])
                if bool(found) is test["valid"] or not all(leads_into(test["data"], one.pointer) for one in found):
                    wrong.append((path.name, case["description"], test["description"], "violations"))
                walk = Walk(compiled.explainer, WALK_STEPS)
                is_plain = isinstance(compiled.explainer.schema, bool) or compiled.explainer.references.is_plain
                if is_plain and bool(walk.find_faults(test["data"], 10)) is test["valid"]:
                    walked.append((path.name, case["description"], test["description"]))
    assert wrong == []
    assert walked == []
    assert checked > 30
    expected = {key: count for key, count in REMOTE.items() if key[0] == draft}
    present = {path.name for path in vectors(draft)}
    assert refused == {key: count for key, count in expected.items() if key[1] in present}
