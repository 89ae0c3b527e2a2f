"""Pairs of real tools, labelled by hand: what they are, and how well the enrichment agrees."""

import json

import numpy as np
import pytest

from benchmarks import eval_dataflow
from toolyard.insight.cache import CACHE_DIR_VARIABLE

PAIRS = eval_dataflow.read_pairs()


def test_the_labelled_set_is_large_mixed_and_explained():
    rows = [json.loads(line) for line in eval_dataflow.PAIRS.read_text("utf-8").splitlines()]
    fed = sum(row["label"] for row in rows)
    assert len(rows) >= 240
    assert 0.4 <= fed / len(rows) <= 0.6
    assert all(len(row["reason"]) >= 4 for row in rows)
    assert len({row["source"]["file"] for row in rows}) >= 60
    names = {
        (row["source"]["file"], row["source"]["name"], row["target"]["file"], row["target"]["name"]) for row in rows
    }
    assert len(names) == len(rows)
    for half in ("tune", "check"):
        labels = [row["label"] for row in rows if row["half"] == half]
        assert len(labels) >= 100
        assert 0.3 <= sum(labels) / len(labels) <= 0.7


def test_each_specification_is_in_one_half_only():
    halves = {}
    for line in eval_dataflow.PAIRS.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["source"]["file"].startswith("openapi/"):
            halves.setdefault(row["source"]["file"], set()).add(row["half"])
    assert len(halves) > 50
    assert all(len(found) == 1 for found in halves.values())


def test_without_a_model_nine_of_ten_edges_are_right_and_eight_of_ten_are_found():
    answers = eval_dataflow.evaluate(PAIRS, eval_dataflow.TextVectors(tokens=True))
    labels = np.array([pair.label for pair in PAIRS])
    precision, recall = eval_dataflow.figures(labels, answers)
    assert precision >= eval_dataflow.PRECISION
    assert recall >= eval_dataflow.RECALL
    id_owners = np.array([pair.half == "check" for pair in PAIRS])
    precision, recall = eval_dataflow.figures(labels[id_owners], answers[id_owners])
    assert min(precision, recall) >= 0.8


def test_with_the_model_the_same_holds_for_a_sample(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path))
    vectors = eval_dataflow.TextVectors(tokens=False)
    assert not vectors.tokens, "make setup installs the weights"
    some = [pair for pair in PAIRS if pair.outputs == "implied"]
    answers = eval_dataflow.evaluate(some, vectors)
    precision, recall = eval_dataflow.figures(np.array([pair.label for pair in some]), answers)
    assert precision >= eval_dataflow.PRECISION
    assert recall >= eval_dataflow.RECALL


@pytest.mark.parametrize("flags", [[], ["--errors"]])
def test_the_report_says_both_halves(capsys, monkeypatch, flags):
    monkeypatch.setattr(eval_dataflow, "default_embedder", lambda: None)
    monkeypatch.setattr(eval_dataflow, "read_pairs", lambda: PAIRS[:60])
    monkeypatch.setattr(eval_dataflow, "EDGES", eval_dataflow.DATA / "nowhere")
    eval_dataflow.main(flags)
    said = capsys.readouterr().out
    assert "check (held out)" in said
    assert "not installed" in said
