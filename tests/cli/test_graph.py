"""`toolyard graph`: a picture from the command line."""

import html
import json

import pytest

from cli import running

CATALOG = """\
desk:
  - name: list_users
    description: List all users
    parameters: {type: object, properties: {page: {type: integer}}}
    output_parameters: {type: object, properties: {users: {type: array, items: {type: object, properties: {user_id: {type: string, description: ID of the user}, email: {type: string, format: email}}}}}}
  - {name: get_user, description: Get a user by ID, parameters: {type: object, properties: {user_id: {type: string, description: ID of the user}}, required: [user_id]}}
  - {name: sing, description: Sing a song}
shop:
  - {name: list_orders, description: List the orders of a customer, parameters: {type: object, properties: {email: {type: string, format: email}}, required: [email]}}
"""
CONFIG = """\
tools:
  registry:
    - {type: file, path: tools.yaml}
  enrichments:
    - {type: dataflow, min_score: 1.0}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "tools.yaml").write_text(CATALOG)
    return tmp_path


def output(capsys, *arguments):
    return running.output(capsys, "graph", *arguments)


def counts(capsys, *arguments):
    code, out, _ = output(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


@pytest.mark.parametrize(
    ("name", "begins"), [("graph.dot", "digraph "), ("graph.mmd", "flowchart LR"), ("graph.json", "{")]
)
def test_it_writes_a_file_for_other_programs_and_says_how_much_is_in_it(capsys, folder, name, begins):
    code, out, err = output(capsys, "tools.yaml", "--out", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}: 4 tools in 2 namespaces, ")
    text = (folder / name).read_text()
    assert text.startswith(begins)
    assert "Dataflow of tools.yaml" in text


def test_it_draws_a_page(capsys, folder):
    told = counts(capsys, "tools.yaml", "--out", "graph.html", "--title", "My yard")
    page = (folder / "graph.html").read_text()
    assert "<h1>My yard</h1>" in page
    assert "default-src 'none'" in html.unescape(page)
    assert told["format"] == "html"
    assert told["tools"] == 4
    assert told["namespaces"] == 2
    assert 2 <= told["drawn"] <= told["edges"]
    assert told["linked"] == 3
    assert told["out"] == "graph.html"


def test_options_choose_what_is_drawn(capsys):
    assert counts(capsys, "tools.yaml", "-o", "a.dot", "--namespace", "desk")["tools"] == 3
    assert counts(capsys, "tools.yaml", "-o", "a.dot", "-n", "desk", "-n", "shop")["tools"] == 4
    assert counts(capsys, "tools.yaml", "-o", "a.dot", "--linked")["tools"] == 3
    assert counts(capsys, "tools.yaml", "-o", "a.dot", "--max-edges", "1")["drawn"] == 1
    assert counts(capsys, "tools.yaml", "-o", "a.dot", "--top", "0")["drawn"] == 0
    assert counts(capsys, "tools.yaml", "-o", "a.dot", "--min-score", "1")["drawn"] == 0


def test_the_dataflow_of_the_config_is_used_if_it_has_one(capsys, folder):
    (folder / "yard.yaml").write_text(CONFIG)
    assert counts(capsys, "yard.yaml", "-o", "a.dot")["edges"] == 0
    assert counts(capsys, "tools.yaml", "-o", "a.dot")["edges"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tools.yaml", "--out", "graph.png"), "an .html, .dot, .mmd or .json file"),
        (("tools.yaml", "--out", "graph.svg"), "dot -Tsvg graph.dot -o graph.svg"),
        (("tools.yaml", "--out", "a.dot", "--namespace", "shopp"), "did you mean 'shop'?"),
        (("tools.yaml", "--out", "a.dot", "--min-score", "2"), "min_score: must be 1 or less, not 2"),
        (("tools.yaml", "--out", "missing/a.dot"), "No such file or directory"),
        (("nowhere.yaml", "--out", "a.dot"), "no such file"),
    ],
)
def test_what_cannot_be_done_exits_2_and_says_why(capsys, folder, arguments, said):
    code, out, err = output(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert not (folder / "a.dot").exists()
