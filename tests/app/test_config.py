from collections.abc import Sequence
from typing import Annotated

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta

from toolyard import ConfigError, ToolEngine, ToolLoader, register_tool_loader
from toolyard.app import build_registry
from toolyard.app.config import plugin_options, read_anything, read_config, read_plugin_options
from toolyard.calls.policy import Budget, PolicyOptions, RuleOptions
from toolyard.calls.tracer import JsonlOptions, TracingOptions
from toolyard.plugins import ENGINES, ENRICHMENTS, LOADERS, SESSION_STORES
from toolyard.schema.options import Variable
from toolyard.schema.options_schema import option_schema


def test_relative_paths_are_taken_from_the_configs_folder_and_variables_expanded(tmp_path):
    document = {
        "tools": [
            {"type": "file", "path": "${DIR}/a.yaml"},
            {"type": "python", "target": "b.py"},
            {"type": "python", "target": "pkg.mod"},
        ]
    }
    entries = read_config(document, base=tmp_path, env={"DIR": "sub"}).loaders
    made = [read_plugin_options(LOADERS.get(entry.type), entry.options, entry.where, tmp_path) for entry in entries]
    assert made == [
        {"path": str(tmp_path / "sub/a.yaml")},
        {"target": str(tmp_path / "b.py")},
        {"target": "pkg.mod"},
    ]


def test_a_path_that_is_no_text_is_refused_with_its_place():
    with pytest.raises(ConfigError, match=r"config: tools.registry\[0\].path: must be text, not integer"):
        build_registry({"tools": [{"type": "file", "path": 5}]})


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "a config is a mapping"),
        ({"tools": 3}, "'tools' must be a list or a mapping"),
        ({"tools": {"registry": {}}}, "tools.registry must be a list"),
        ({"tools": {"registry": [], "engines": 3}}, "tools.engines must be a mapping"),
        ({"tools": {"registry": [], "enrichments": 3}}, "tools.enrichments: must be a list"),
        ({"tools": [], "server": 17}, "server must be a mapping"),
        ({"tools": {"registry": [], "engines": {"a": {"typ": "python"}}}}, "did you mean that by 'typ'?"),
        ({"tools": [], "sesions": {}}, "did you mean 'sessions'"),
        (
            {"tools": [], "engines": {}},
            "unknown key 'engines'; it stands under 'tools', beside 'registry', the sources",
        ),
        ({"tools": [], "enrichments": []}, "unknown key 'enrichments'; it stands under 'tools', beside 'registry'"),
        ({"server": {}, "registry": []}, "unknown key 'registry'; it stands under 'tools'"),
        ({"tools": [], "sessions": {"stor": "sqlite"}}, "sessions: unknown key 'stor'; did you mean 'store'?"),
        ({"tools": [], "sessions": {"store": "sqlit"}}, "did you mean 'sqlite'"),
        ({"tools": [], "sessions": {"path": "x"}}, "is for store: sqlite, and the store is memory"),
        ({"tools": [], "sessions": {"store": "postgres"}}, "needs a dsn"),
        ({"tools": [], "sessions": {"ttl": 0}}, "sessions.ttl: must be above 0, not 0"),
        ({"tools": [], "sessions": {"max_open": True}}, "must be a whole number"),
        ({"tools": [{"type": "file", "path": "x", "engine": ["y"]}]}, "not among tools.engines"),
        (
            {"tools": [{"type": "file", "path": "x", "engine": {"type": "lm", "k": "v"}}]},
            "engine of the type mapping is",
        ),
        ({"tools": [{"type": "file", "path": "${X"}]}, "without a variable"),
        ({"tool": []}, "did you mean 'tools'"),
    ],
)
def test_a_wrong_config_says_what_and_where(tmp_path, document, says):
    with pytest.raises(ConfigError) as caught:
        read_config(document, base=tmp_path, where="yard.yaml", env={})
    assert says in str(caught.value)
    assert "yard.yaml" in str(caught.value)


def test_what_stands_beside_the_tools_is_read_with_variables_replaced(tmp_path):
    config = read_config(
        {
            "tools": {"registry": [], "engines": {"py": {"type": "python", "timeout": 5}}},
            "sessions": {"store": "postgres", "dsn": "postgres://u:${DB_PASSWORD}@h/d", "ttl": 60},
            "policy": {"default": "deny"},
            "tracing": {"jsonl": {"path": "${LOG:-calls.jsonl}"}},
        },
        base=tmp_path,
        env={"DB_PASSWORD": "hunter2-and-more"},
    )
    assert config.engines["py"].options == {"timeout": 5}
    assert (config.sessions.store, config.sessions.ttl) == ("postgres", 60.0)
    assert config.sessions.options == {"dsn": "postgres://u:hunter2-and-more@h/d"}
    assert config.policy == PolicyOptions(default="deny")
    assert config.tracing == TracingOptions(jsonl=JsonlOptions(path="calls.jsonl"))


def test_secrets_are_known_by_the_name_of_their_variable_or_key_and_not_shown(tmp_path):
    config = read_config(
        {
            "tools": [{"type": "file", "path": "x", "headers": {"X-Api-Key": "written-in-the-file"}}],
            "sessions": {"store": "postgres", "dsn": "postgres://u:${DB_PASSWORD}@h/d"},
        },
        base=tmp_path,
        env={"DB_PASSWORD": "hunter2-and-more"},
    )
    assert set(config.secrets) == {"written-in-the-file", "hunter2-and-more"}
    assert "hunter2" not in repr(config) + repr(config.sessions)


def test_a_variable_that_is_the_whole_value_becomes_the_number_or_flag_that_is_wanted(tmp_path):
    config = read_config(
        {
            "tools": [],
            "sessions": {"store": "${S}", "path": "${N}", "ttl": "${F}", "max_open": "${N}"},
            "policy": {"budgets": [{"max_calls": "${N}"}], "rules": [{"allow": "a::*", "tags": ["${N}"]}]},
            "tracing": {"logging": "${B}", "results": "${NO:-false}", "jsonl": {"path": "${N}", "max_bytes": "${N}"}},
        },
        base=tmp_path,
        env={"S": "sqlite", "N": "17", "F": "1.5", "B": "true"},
    )
    assert (config.sessions.ttl, config.sessions.max_open) == (1.5, 17)
    assert config.sessions.options == {"path": str(tmp_path / "17")}
    assert config.policy.budgets == (Budget(17),)
    assert config.policy.rules == (RuleOptions(allow=("a::*",), tags=("17",)),)
    assert type(config.policy.rules[0].tags[0]) is str
    jsonl = JsonlOptions(path="17", max_bytes=17)
    assert config.tracing == TracingOptions(logging=True, results=False, jsonl=jsonl)


@pytest.mark.parametrize("value", ["1${N}", "${W}", "${T}"])
def test_text_that_is_not_one_number_stays_text_and_is_refused(tmp_path, value):
    document = {"tools": [], "sessions": {"max_open": value}}
    with pytest.raises(ConfigError, match="must be a whole number, not text"):
        read_config(document, base=tmp_path, env={"N": "1", "W": "many", "T": "True"})


def test_enrichments_may_be_left_empty_and_nothing_else_passes_for_empty(tmp_path):
    assert read_config({"tools": {"registry": [], "enrichments": None}}, base=tmp_path).enrichments == []
    with pytest.raises(ConfigError, match=r"tools\.enrichments: must be a list"):
        read_config({"tools": {"registry": [], "enrichments": {}}}, base=tmp_path)


def test_a_file_in_another_language_is_told_which_ones_a_config_is_written_in(tmp_path):
    (tmp_path / "yard.toml").write_text("[tools]\nregistry = []\n")
    with pytest.raises(ConfigError, match=r"yard\.toml:2:1: .*; a config is written in YAML or JSON"):
        read_anything(tmp_path / "yard.toml")


BUILT_IN = [
    pytest.param(table.get(name), id=f"{table.kind} {name}")
    for table in (LOADERS, ENGINES, ENRICHMENTS, SESSION_STORES)
    for name in table.names()
    if table.get(name).__module__.startswith("toolyard.")
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


def test_a_shared_option_is_described_where_it_is_declared_unless_a_plugin_means_something_else_by_its_name():
    class Loader(ToolLoader):
        def __init__(self, namespaces: Sequence[str] = (), on_error: str = "skip", namespace: int = 0):
            pass

        def load(self):
            return []

    class Limits(msgspec.Struct):
        timeout: Annotated[float, Meta(ge=5, description="Seconds.")]

    class Engine(ToolEngine):
        option_structs = (Limits,)

        def __init__(self, registry=None, *, timeout: float = 5, retries: str = "", **settings):
            pass

    assert read_plugin_options(Loader, {"namespaces": ["a"], "namespace": 3}, "here")["namespaces"] == ["a"]
    assert schemas_of(Loader)["on_error"]["enum"] == ["raise", "skip"]
    assert schemas_of(Engine)["timeout"] == {"type": "number", "minimum": 5, "description": "Seconds.", "default": 5}
    assert schemas_of(Engine)["retries"] == {"type": "string", "default": ""}


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
