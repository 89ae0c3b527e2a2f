"""`toolyard search`: find tools from the command line."""

import json

import pytest

from cli import running

CATALOG = """\
desk:
  - {name: send_email, description: Send an email to a person, tags: [mail]}
  - {name: paint, description: Paint a wall}
home:
  - {name: send_letter, description: Send a letter to a person}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One for all: the model need not embed the same texts for each."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def clean(tmp_path, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(cache))
    (tmp_path / "tools.yaml").write_text(CATALOG)


def output(capsys, *arguments):
    return running.output(capsys, "search", *arguments)


def test_it_prints_what_fits_and_how_it_was_looked_for(capsys):
    code, out, _ = output(capsys, "tools.yaml", "send_email")
    assert code == 0
    assert "desk::send_email" in out
    assert "1.00" in out
    assert "sure" in out
    assert "hybrid search" in out or "lexical search" in out


def test_json_has_scores_reasons_and_definitions(capsys):
    code, out, _ = output(capsys, "tools.yaml", "send_letter", "-k", "1", "--json")
    answer = json.loads(out)
    (hit,) = answer["hits"]
    assert (code, hit["name"], hit["score"], hit["tool"]["description"]) == (
        0,
        "home::send_letter",
        1.0,
        "Send a letter to a person",
    )
    assert answer["mode"] in ("hybrid", "lexical")


def test_nothing_that_fits_is_exit_code_one_and_says_what_to_do(capsys):
    code, out, err = output(capsys, "tools.yaml", "who won the chess championship of 1972")
    assert (code, out.startswith("0 tools")) == (1, True)
    assert "--threshold 0" in err


def test_filters_narrow_it_down(capsys):
    code, out, _ = output(
        capsys, "tools.yaml", "send something to a person", "--threshold", "0", "-n", "home", "--json"
    )
    assert (code, [hit["name"] for hit in json.loads(out)["hits"]]) == (0, ["home::send_letter"])
    code, out, _ = output(
        capsys, "tools.yaml", "send something to a person", "--threshold", "0", "-t", "mail", "--json"
    )
    assert (code, [hit["name"] for hit in json.loads(out)["hits"]]) == (0, ["desk::send_email"])


def test_too_many_hits_are_refused(capsys):
    code, _, err = output(capsys, "tools.yaml", "x", "-k", "1000")
    assert code == 2
    assert "-k must be from 1 to 100, not 1000" in err
