"""Models of the sentence-transformers library, where that is installed; here, a small library of the same shape."""

import sys

import numpy as np
import pytest

from toolyard.insight.embeddings.choice import resolve_embedder
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
