"""`toolyard sample`: draw tools from the command line."""

import json

import pytest

from cli import running
from toolyard.cli import insight

CATALOG = """\
desk:
  - {name: find_user, description: Find a user by name, parameters: {type: object, properties: {name: {type: string}}, required: [name]}}
  - {name: get_user, description: Get a user, parameters: {type: object, properties: {user_id: {type: string}}, required: [user_id]}}
  - {name: paint, description: Paint a wall}
  - {name: sing, description: Sing a song}
"""


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.yaml").write_text(CATALOG)


def output(capsys, *arguments):
    return running.output(capsys, "sample", *arguments)


def test_it_prints_tools_roles_and_the_seed(capsys):
    code, out, _ = output(capsys, "tools.yaml", "tc/conflict", "-k", "2", "--seed", "1")
    assert code == 0
    assert "desk::find_user" in out
    assert "gold" in out
    assert "2 tools, conflict, seed 1" in out
    assert "drawn by tc/conflict" in out


def test_json_is_the_sample_as_data_and_a_seed_repeats_it(capsys):
    arguments = ("tools.yaml", "tc/random", "-k", "3", "--seed", "5", "--json")
    code, out, _ = output(capsys, *arguments)
    sample = json.loads(out)
    assert code == 0
    assert len(sample["tools"]) == 3
    assert sample["seed"] == 5
    assert json.loads(output(capsys, *arguments)[1]) == sample


def test_json_lines_are_the_samples_one_by_one(capsys):
    arguments = ("tools.yaml", "tc/random", "-k", "2", "-n", "3", "--seed", "1")
    code, out, _ = output(capsys, *arguments, "--jsonl")
    assert code == 0 and out.count("\n") == 3
    assert [json.loads(line) for line in out.splitlines()] == json.loads(output(capsys, *arguments, "--json")[1])


def test_lines_have_the_definitions_in_the_words_of_a_provider_where_that_is_asked(capsys):
    arguments = ("tools.yaml", "tc/random", "-k", "2", "-n", "2", "--seed", "1", "--format", "openai")
    for line in map(json.loads, output(capsys, *arguments, "--jsonl")[1].splitlines()):
        assert [each["function"]["name"].replace("__", "::") for each in line["definitions"]] == line["tools"]
    code, _, err = output(capsys, *arguments)
    assert code == 2 and "--format is for --jsonl" in err


def test_a_count_draws_a_series(capsys):
    code, out, _ = output(capsys, "tools.yaml", "tc/coverage", "-k", "2", "-n", "2", "--seed", "1", "--json")
    samples = json.loads(out)
    assert code == 0
    assert len({name for sample in samples for name in sample["tools"]}) == 4


def test_options_are_given_as_name_and_value(capsys):
    mix = '[{"type": "tc/random", "weight": 2}]'
    code, out, _ = output(capsys, "tools.yaml", "tc/mix", "-k", "2", "-o", f"samplers={mix}", "--json")
    assert code == 0
    assert json.loads(out)["details"]["sampler"] == "tc/random"
    code, out, _ = output(capsys, "tools.yaml", "tc/irrelevant", "-k", "1", "-o", "query=sing a song", "--json")
    assert json.loads(out)["details"]["query"] == "sing a song"
    code, out, err = output(capsys, "tools.yaml", "tc/random", "-k", "1", "-o", "namespace")
    assert (code, out) == (2, "")
    assert "NAME=VALUE" in err


def test_too_few_tools_exit_1_and_tell_the_first_of_those_that_were_found(capsys, monkeypatch):
    monkeypatch.setattr(insight, "_SHOWN", 3)
    code, out, err = output(capsys, "tools.yaml", "tc/random", "-k", "9")
    assert (code, out) == (1, "")
    assert "found 4 of 9 tools" in err
    assert err.count("desk::") == 3 and " and 1 more" in err
    code, out, _ = output(capsys, "tools.yaml", "tc/random", "-k", "9", "--json")
    error = json.loads(out)["error"]
    assert code == 1
    assert error["type"] == "SamplingError"
    assert error["requested"] == 9
    assert len(error["tools"]) == 4


def test_enrichments_that_a_sampler_needs_run_for_a_catalog_which_has_no_config(capsys):
    inner = 'samplers=["tc/chain", "tc/neighbor"]'
    code, out, _ = output(capsys, "tools.yaml", "tc/mix", "-k", "2", "-n", "6", "--seed", "1", "-o", inner, "--json")
    drawn = json.loads(out)
    assert code == 0 and {sample["topology"] for sample in drawn} == {"chain", "neighbors"}
    assert all(sample["edges"] for sample in drawn if sample["topology"] == "chain")


def test_what_cannot_be_done_exits_2_and_says_what_to_do(capsys):
    code, _, err = output(capsys, "tools.yaml", "tc/randm", "-k", "2")
    assert code == 2
    assert "did you mean 'tc/random'" in err
    code, _, err = output(capsys, "tools.yaml", "tc/sparse", "-k", "2", "-o", "hardnes=1")
    assert code == 2
    assert "did you mean 'hardness'" in err


TWO = """\
a:
  - {name: one}
b:
  - {name: two}
c:
  - {name: three}
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("-o", "namespace=a", "-o", "namespace=b"),
        ("-o", 'namespace=["a"]', "-o", "namespace=b"),
        ("--namespace", "a", "--namespace", "b"),
        ("--namespace", "a", "-o", "namespace=b"),
    ],
)
def test_an_option_that_takes_a_list_collects_what_is_given_often(capsys, tmp_path, arguments):
    (tmp_path / "two.yaml").write_text(TWO)
    code, out, _ = output(capsys, "two.yaml", "tc/random", "-k", "2", "--seed", "1", "--json", *arguments)
    assert code == 0
    assert sorted(json.loads(out)["tools"]) == ["a::one", "b::two"]


def test_one_namespace_draws_from_it_alone(capsys, tmp_path):
    (tmp_path / "two.yaml").write_text(TWO)
    code, out, _ = output(capsys, "two.yaml", "tc/random", "-k", "1", "--namespace", "c", "--json")
    assert (code, json.loads(out)["tools"]) == (0, ["c::three"])
    code, _, err = output(capsys, "two.yaml", "tc/random", "-k", "1", "--namespace", "d")
    assert code == 2
    assert "no tool is in the namespace 'd'" in err


def test_samplers_of_a_mix_may_be_given_one_by_one(capsys):
    mix = ("-o", "samplers=tc/random", "-o", 'samplers={"type": "tc/sparse", "weight": 0}')
    code, out, _ = output(capsys, "tools.yaml", "tc/mix", "-k", "2", "--json", *mix)
    assert code == 0
    assert json.loads(out)["details"]["sampler"] == "tc/random"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("strategy", "strategy: must be one of proportional, uniform"),
        ("namespace_weights", "namespace_weights: must be a mapping"),
        ("no_such", "has no option 'no_such'"),
    ],
)
def test_an_option_of_one_value_that_is_given_twice_is_refused(capsys, name, told):
    code, out, err = output(capsys, "tools.yaml", "tc/random", "-k", "2", "-o", f"{name}=x", "-o", f"{name}=y")
    assert (code, out) == (2, "")
    assert told in err
