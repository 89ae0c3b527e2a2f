"""Domains in a config: a source like any other, and the yard knows which namespaces are theirs."""

import jsonschema_rs
import pytest

from toolyard import ConfigError, DomainToolLoader, MalformedSource, ToolCall, Toolyard
from toolyard.app.schema import config_schema

AIR = "from toolyard import Tool\ndef load_tools():\n    return [Tool('rain', 'yard_conf_air')]\n"


def yard(*sources, **blocks):
    return Toolyard.from_config({"tools": list(sources), **blocks})


@pytest.mark.parametrize("domains", [["core"], "core", "core,", ["core", "core"]])
def test_a_config_enables_domains_and_their_tools_are_answered(domains):
    with yard({"type": "domains", "domains": domains}, {"type": "inline", "tools": [{"name": "x"}]}) as made:
        assert made.domains == {"core"}
        assert made.tool_registry.namespaces() == ["core", "default"]
        made.tool_engine.setup("s")
        result = made.tool_engine.execute("s", [ToolCall("core::calc", {"expression": "19*23"})])[0]
        assert result.result == {"expression": "19*23", "value": 437}


def test_a_yard_without_domains_has_none():
    with yard({"type": "inline", "tools": [{"name": "x"}], "namespace": "core"}) as made:
        assert made.domains == frozenset()


def test_domains_of_several_sources_and_of_later_ones_count(tmp_path, monkeypatch):
    (tmp_path / "yard_conf_air.py").write_text(AIR)
    monkeypatch.syspath_prepend(str(tmp_path))
    with yard({"type": "domains", "domains": "yard_conf_air"}) as made:
        assert made.domains == {"yard_conf_air"}
        made.tool_registry.attach(DomainToolLoader())
        assert made.domains == {"yard_conf_air", "core"}
        assert [loader.source for loader in made.tool_registry.loaders] == ["domains:yard_conf_air", "domains:core"]


def test_a_bad_domain_does_not_stop_the_others_unless_the_config_says_so():
    with yard({"type": "domains", "domains": ["core", "cores"]}) as made:
        assert made.domains == {"core"}
        assert "did you mean 'core'?" in made.tool_registry.report.rejected[0].reason
    with pytest.raises(MalformedSource, match="domains:cores"):
        yard({"type": "domains", "domains": ["core", "cores"], "on_error": "raise"})


def test_variables_name_domains_as_text(tmp_path):
    config = {"tools": [{"type": "domains", "domains": "${TOOL_REGISTRY_DOMAINS:-core}"}]}
    with Toolyard.from_config(config, env={}) as made:
        assert made.domains == {"core"}
    with Toolyard.from_config(config, env={"TOOL_REGISTRY_DOMAINS": "core, nope"}) as made:
        assert made.domains == {"core"}
        assert len(made.tool_registry.report.rejected) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"domain": "core"}, "did you mean 'domains'"),
        ({"domains": 3}, "domains: must be a list, or text, not integer"),
        ({"domains": [""]}, "names no domain"),
        ({"domains": "core", "on_error": "ignore"}, "on_error"),
        ({"domains": "core", "engin": "x"}, "did you mean 'engine'"),
    ],
)
def test_wrong_options_are_placed_in_the_config(options, says):
    with pytest.raises(ConfigError, match=r"tools\.registry\[0\]") as raised:
        yard({"type": "domains", **options})
    assert says in str(raised.value)


def test_a_domain_may_have_an_engine_of_its_own():
    tools = {
        "registry": [{"type": "domains", "engine": "strict"}],
        "engines": {"strict": {"type": "python", "timeout": 5}},
    }
    with Toolyard.from_config({"tools": tools}) as made:
        made.tool_engine.setup("s")
        assert made.tool_engine.execute("s", [ToolCall("core::echo", {"text": "a"})])[0].result == {"text": "a"}


def test_editors_are_told_what_domains_may_be():
    validator = jsonschema_rs.validator_for(config_schema())
    for domains in (["core"], "core", "${DOMAINS}"):
        assert validator.is_valid({"tools": [{"type": "domains", "domains": domains}]})
    for domains in (3, [3], {"core": 1}):
        assert not validator.is_valid({"tools": [{"type": "domains", "domains": domains}]})
