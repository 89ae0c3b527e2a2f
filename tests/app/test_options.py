"""Options of plugins as JSON Schema, and config values as those schemas mean them."""

import pytest

from toolyard import ToolLoader, register_tool_loader
from toolyard.app import build_registry
from toolyard.app.env import Variable
from toolyard.app.options import option_schemas, typed, typed_options


class Plugin:
    def __init__(
        self, count: int, share: float = 0.5, *, on: bool = False, word: str = "", free=None, either: int | str = 0
    ):
        pass


def test_each_option_has_the_schema_of_its_annotation_and_its_default():
    schemas = option_schemas(Plugin)
    assert schemas["count"] == {"type": "integer"}
    assert schemas["share"] == {"type": "number", "default": 0.5}
    assert schemas["on"] == {"type": "boolean", "default": False}
    assert schemas["free"] == {}


def test_a_variable_becomes_what_the_option_takes_and_text_where_text_is_taken():
    three, true = Variable("3"), Variable("true")
    options = {"count": three, "share": three, "on": true, "word": three, "free": three, "either": three, "other": true}
    made = typed_options(Plugin, options)
    assert made == {"count": 3, "share": 3, "on": True, "word": "3", "free": "3", "either": "3", "other": "true"}
    assert not any(isinstance(value, Variable) for value in made.values())


@pytest.mark.parametrize(
    ("value", "schema", "made"),
    [
        (3.0, {"type": "integer"}, 3),
        (3.0, {"type": "number"}, 3.0),
        (3.5, {"type": "integer"}, 3.5),
        (3.0, {}, 3.0),
        ("3", {"type": "integer"}, "3"),
        (Variable("3.0"), {"type": "integer"}, 3),
        (Variable("1e3"), {"type": "number"}, 1000.0),
        (Variable("-2"), {"anyOf": [{"type": "integer"}, {"type": "null"}]}, -2),
        (Variable("True"), {"type": "boolean"}, "True"),
        (Variable("inf"), {"type": "number"}, "inf"),
        (Variable("1_0"), {"type": "integer"}, "1_0"),
        (Variable("true"), {"type": "integer"}, "true"),
        (Variable("warn"), {"enum": ["warn"]}, "warn"),
        ({"a": [Variable("1")]}, {"properties": {"a": {"items": {"type": "integer"}}}}, {"a": [1]}),
        ({"a": Variable("1")}, {"additionalProperties": {"type": "integer"}}, {"a": 1}),
        ({"a": Variable("1")}, {"additionalProperties": False}, {"a": "1"}),
    ],
)
def test_a_value_is_read_as_its_schema_means_it(value, schema, made):
    assert typed(value, schema) == made
    assert type(typed(value, schema)) is type(made)


@register_tool_loader("test-open-ended")
class OpenEnded(ToolLoader):
    def __init__(self, **options):
        self.options = options

    def load(self):
        return []


def test_a_loader_that_takes_anything_is_not_told_what_was_meant():
    with build_registry({"tools": [{"type": "test-open-ended", "engines": 3}]}) as registry:
        assert registry.report.ok and len(registry) == 0


def test_an_option_with_keys_of_its_own_is_described_in_place_and_read_by_them():
    from toolyard.engines.lm import LMToolEngine

    described = option_schemas(LMToolEngine)["lm_config"]
    assert "$ref" not in str(described) and "$defs" not in described
    block = {
        "type": "openai",
        "timeout": Variable("7.5"),
        "prices": {"prompt": Variable("2")},
        "api_key": Variable("12"),
    }
    assert typed_options(LMToolEngine, {"lm_config": block}) == {
        "lm_config": {"type": "openai", "timeout": 7.5, "prices": {"prompt": 2}, "api_key": "12"}
    }
