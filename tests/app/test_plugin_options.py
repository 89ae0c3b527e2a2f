"""The options of plugins, read off their constructors."""

from typing import Annotated

import jsonschema_rs
import pytest
from msgspec import Meta

from toolyard import ConfigError, ToolLoader, register_tool_loader
from toolyard.app import build_registry
from toolyard.app.plugin_options import plugin_options, read_plugin_options
from toolyard.plugins import ENGINES, ENRICHMENTS, LOADERS, SESSION_STORES
from toolyard.schema.options import Variable
from toolyard.schema.options_schema import option_schema

BUILT_IN = [
    pytest.param(table.get(name), id=f"{table.kind} {name}")
    for table in (LOADERS, ENGINES, ENRICHMENTS, SESSION_STORES)
    for name in sorted(table._builtins)
]


class Plugin:
    def __init__(
        self, count: int, share: float = 0.5, *, on: bool = False, word: str = "", free=None, either: int | str = 0
    ):
        pass


class Described:
    def __init__(self, most: Annotated[int, Meta(ge=1, description="How many.")] = 3, other: "int" = None):  # noqa: RUF013 (what a plugin may well say)
        pass


def schemas_of(cls):
    return {name: option_schema(option) for name, option in plugin_options(cls).items()}


def test_each_option_has_the_schema_of_its_annotation_and_its_default():
    schemas = schemas_of(Plugin)
    assert schemas["count"] == {"type": "integer"}
    assert schemas["share"] == {"type": "number", "default": 0.5}
    assert schemas["on"] == {"type": "boolean", "default": False}
    assert schemas["free"] == {}


def test_an_annotation_says_what_the_option_is_for_and_its_limits():
    schema = {"type": "integer", "minimum": 1, "description": "How many.", "default": 3}
    assert schemas_of(Described)["most"] == schema
    with pytest.raises(ConfigError, match=r"here\.most: must be 1 or more, not 0"):
        read_plugin_options(Described, {"most": 0}, "here")


def test_an_option_whose_default_is_none_may_be_null():
    assert read_plugin_options(Described, {"other": None}, "here") == {"other": None}
    assert jsonschema_rs.is_valid(schemas_of(Described)["other"], None)


def test_a_variable_becomes_what_the_option_takes_and_text_where_text_is_taken():
    three, true = Variable("3"), Variable("true")
    options = {"count": three, "share": three, "on": true, "word": three, "free": three, "either": three, "other": true}
    made = read_plugin_options(Plugin, options, "here")
    assert made == {"count": 3, "share": 3, "on": True, "word": "3", "free": "3", "either": "3", "other": "true"}
    assert not any(isinstance(value, Variable) for value in made.values())


@pytest.mark.parametrize("cls", BUILT_IN)
def test_every_option_of_what_is_built_in_says_what_it_is_for(cls):
    for name, option in plugin_options(cls).items():
        assert option.description.endswith("."), name


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

    described = schemas_of(LMToolEngine)["lm_config"]
    assert "$ref" not in str(described) and "$defs" not in described
    block = {
        "type": "openai",
        "timeout": Variable("7.5"),
        "prices": {"prompt": Variable("2")},
        "api_key": Variable("12"),
    }
    assert read_plugin_options(LMToolEngine, {"lm_config": block}, "here") == {
        "lm_config": {"type": "openai", "timeout": 7.5, "prices": {"prompt": 2}, "api_key": "12"}
    }
