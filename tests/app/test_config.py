import pytest

from toolyard import ConfigError
from toolyard.app.config import is_config, registry_entries


@pytest.mark.parametrize(
    ("document", "config"),
    [
        ({"tools": {"registry": []}}, True),
        ({"tools": [{"type": "file", "path": "x"}]}, True),
        ({"tools": {"registrry": []}}, True),
        ({"tools": [{"name": "a"}]}, False),
        ({"tools": {"a": {"description": "x"}}}, False),
        ([{"name": "a"}], False),
        ({"a": [{"name": "b"}]}, False),
    ],
)
def test_a_config_is_told_from_a_catalog(document, config):
    assert is_config(document) is config


def test_relative_paths_are_taken_from_the_configs_folder_and_variables_expanded(tmp_path):
    document = {
        "tools": [
            {"type": "file", "path": "${DIR}/a.yaml"},
            {"type": "python", "target": "b.py"},
            {"type": "python", "target": "pkg.mod"},
        ]
    }
    entries = registry_entries(document, base=tmp_path, env={"DIR": "sub"})
    assert [entry.options for entry in entries] == [
        {"path": str(tmp_path / "sub/a.yaml")},
        {"target": str(tmp_path / "b.py")},
        {"target": "pkg.mod"},
    ]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "a config is a mapping"),
        ({"tools": 3}, "'tools' must be a list or a mapping"),
        ({"tools": {"registry": {}}}, "tools.registry must be a list"),
        ({"tools": {"registry": [], "engines": 3}}, "tools.engines must be a mapping"),
        ({"tools": {"registry": [], "enrichments": 3}}, "tools.enrichments must be a list"),
        ({"tools": [], "server": 17}, "server must be a mapping"),
        ({"tools": [{"type": "file", "path": 5}]}, "path must be text"),
        ({"tools": [{"type": "file", "path": "x", "engine": ["y"]}]}, "not among tools.engines"),
        ({"tools": [{"type": "file", "path": "${X"}]}, "without a variable"),
        ({"tool": []}, "did you mean 'tools'"),
    ],
)
def test_a_wrong_config_says_what_and_where(tmp_path, document, says):
    with pytest.raises(ConfigError) as caught:
        registry_entries(document, base=tmp_path, where="yard.yaml", env={})
    assert says in str(caught.value)
    assert "yard.yaml" in str(caught.value)


def test_blocks_that_nothing_acts_on_yet_are_said_to_be_so(tmp_path, caplog):
    document = {"tools": {"registry": [], "engines": {"lm": {"type": "lm"}}}, "policy": {"default": "deny"}}
    assert registry_entries(document, base=tmp_path, where="yard.yaml", env={}) == []
    assert "yard.yaml: policy, tools.engines: checked, but nothing here acts on it yet" in caplog.text
