import json
from pathlib import Path

import pytest

from toolyard import ConfigError, MalformedSource
from toolyard.app import build_registry, survey
from toolyard.app.config import read_config


def write(path, text):
    path.write_text(text)
    return path


def test_a_config_and_a_bare_catalog_both_build(tmp_path):
    write(tmp_path / "a.yaml", "ns: [{name: x}]")
    config = write(tmp_path / "yard.yaml", "tools: [{type: file, path: a.yaml}, {type: inline, tools: [{name: y}]}]")
    assert [t.qualified_name for t in build_registry(config)] == ["ns::x", "default::y"]
    assert [t.qualified_name for t in build_registry(tmp_path / "a.yaml")] == ["ns::x"]


def test_a_catalog_named_from_another_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "catalogs").mkdir()
    (tmp_path / "catalogs" / "tools.yaml").write_text(
        "tools:\n- {name: ping, description: d, parameters: {type: object}}\n"
    )
    monkeypatch.chdir(tmp_path)

    assert len(build_registry("catalogs/tools.yaml")) == 1


def test_an_unknown_loader_is_placed_in_the_config(tmp_path):
    config = write(tmp_path / "yard.yaml", "tools: [{type: nope}]")
    with pytest.raises(ConfigError, match=r"yard\.yaml: tools\.registry\[0\].*'nope'"):
        build_registry(config)


def test_a_config_of_over_a_megabyte_is_still_a_config(tmp_path):
    tools = "".join(f"      - {{name: t{i}, description: {'x' * 200}}}\n" for i in range(6_000))
    config = write(tmp_path / "yard.yaml", f"tools:\n  registry:\n  - type: inline\n    tools:\n{tools}")
    assert len(build_registry(config)) == 6_000


def test_a_survey_reports_every_source_and_raises_for_none(tmp_path):
    write(tmp_path / "bad.py", "1/0")
    write(tmp_path / "bad.yaml", "a: [")
    write(tmp_path / "good.yaml", "[{name: x}, {name: x}, {nam: y}]")
    config = write(
        tmp_path / "yard.yaml",
        "tools: [{type: python, target: bad.py}, {type: file, path: bad.yaml}, {type: file, path: good.yaml}]",
    )
    registry, report = survey(config)
    assert [s.state for s in report.sources] == ["failed", "failed", "ok"]
    assert (len(registry), len(report.rejected)) == (1, 2)
    with pytest.raises(MalformedSource):
        build_registry(config)


def test_a_survey_says_which_patterns_match_no_tool_and_what_may_be_meant(caplog):
    tools = [{"name": "pay", "tags": ["risky"]}, {"name": "read"}]
    policy = {
        "rules": [
            {"deny": ["bank::payy", "bank::p*"], "tags": ["riski", "risky"]},
            {"allow": "banc::*"},
            {"ask": "elsewhere::entirely"},
            {"allow": "*"},
        ],
        "budgets": [{"max_calls": 1, "tools": ["bank::read"]}, {"max_calls": 1, "tools": ["bank::reads"]}],
    }
    limits = {"max_concurrent_calls_per_tool": {"bank::pya": 1, "*": 2}, "namespaces": ["bnk"]}
    faults = {"rules": [{"type": "auth", "tool": "bank::rea?s"}]}
    engines = {"slow": {"type": "lm", "faults": faults, **limits}}
    source = {"type": "inline", "namespace": "bank", "tools": tools, "engine": "slow"}
    registry, report = survey({"tools": {"registry": [source], "engines": engines}, "policy": policy})
    registry.close()
    expected = [
        "policy.rules[0]: bank::payy matches no tool; did you mean bank::pay?",
        "policy.rules[0].tags: riski matches no tool; did you mean risky?",
        "policy.rules[1]: banc::* matches no tool; did you mean bank::*?",
        "policy.rules[2]: elsewhere::entirely matches no tool",
        "policy.budgets[1]: bank::reads matches no tool; did you mean bank::read?",
        "engine slow: faults.rules[0].tool: bank::rea?s matches no tool; did you mean bank::read?",
        "engine slow: max_concurrent_calls_per_tool: bank::pya matches no tool; did you mean bank::pay?",
        "engine slow: namespaces: bnk matches no tool; did you mean bank?",
    ]
    assert report.ok and list(report.idle) == expected
    assert sorted(record.getMessage() for record in caplog.records) == sorted(expected)


def test_the_credential_of_an_api_is_for_its_calls_too_by_the_engine_rest_as_the_config_has_it():
    auth = {"type": "bearer", "token": "t-1-secret"}
    named = {"type": "rest", "spec": "pets.yaml", "auth": auth, "engine": "rest"}
    sources = [{"type": "rest", "spec": "pets.yaml", "auth": auth}, named]
    engines = {"rest": {"type": "rest", "timeout": 5, "auth": {"type": "bearer", "token": "t-2-secret"}}}
    read = read_config({"tools": {"registry": sources, "engines": engines}}, base=Path(), where="yard.yaml")
    assert [entry.engine for entry in read.loaders] == ["tools.registry[0]", "rest"]
    assert read.engines["tools.registry[0]"].options == {"timeout": 5, "auth": auth}


def test_sources_of_one_document_with_equal_credentials_have_one_engine(tmp_path):
    spec = write(tmp_path / "pets.json", json.dumps({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}}))
    auth = {"type": "bearer", "token": "t-1-secret"}
    for named in ({"engine": "web"}, {}):
        sources = [{"type": "rest", "spec": str(spec), "namespace": name, "auth": auth, **named} for name in "ab"]
        config = {"tools": {"registry": sources, "engines": {"web": {"type": "rest", "timeout": 5}}}}
        assert {entry.engine for entry in read_config(config, base=Path()).loaders} == {"tools.registry[0]"}
        survey(config)


@pytest.mark.parametrize("engine", [{"type": "rest", "timeout": 5}, {"type": "lm", "lm_config": {"type": "schema"}}])
def test_the_credential_of_an_api_goes_with_an_engine_that_it_names_and_that_has_none(engine, tmp_path, caplog):
    spec = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}}
    auth = {"type": "bearer", "token": "t-1-secret"}
    source = {"type": "rest", "spec": str(write(tmp_path / "pets.json", json.dumps(spec))), "auth": auth}
    config = {"tools": {"registry": [{**source, "engine": "web"}], "engines": {"web": engine}}}
    read = read_config(config, base=Path(), where="yard.yaml")
    used = read.engines[read.loaders[0].engine]
    assert used.options == ({"timeout": 5, "auth": auth} if used.type == "rest" else read.engines["web"].options)
    survey(config)
    assert not [record for record in caplog.records if "no source has it" in record.getMessage()]


@pytest.mark.parametrize("blank", [{"type": "bearer", "token": ""}, [{"type": "basic", "user": "", "password": ""}]])
def test_an_empty_credential_of_a_source_leaves_the_engine_its_own_and_is_told(blank, tmp_path, caplog):
    spec = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}}
    engines = {"rest": {"type": "rest", "auth": {"type": "bearer", "token": "t-2-secret"}}}
    spec_path = write(tmp_path / "pets.json", json.dumps(spec))
    config = {"tools": {"registry": [{"type": "rest", "spec": str(spec_path), "auth": blank}], "engines": engines}}
    read = read_config(config, base=Path(), where="yard.yaml")
    assert read.loaders[0].engine is None and list(read.engines) == ["rest"]
    survey(config)
    told = [record.getMessage() for record in caplog.records if "is empty" in record.getMessage()]
    assert len(told) == 1 and "tools.registry[0] is empty: calls go without it" in told[0]
