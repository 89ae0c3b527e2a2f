"""What was derived from a whole set of tools: whole or not there, found by everything that matters, bounded."""

import json
import sqlite3
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from insight.embedder_stub import HashEmbedder
from toolyard import ToolRegistry
from toolyard.insight.cache import FILE, ItemCache, hash_catalog, read_arrays, store_arrays
from toolyard.insight.dataflow.enrichment import DataflowEnrichment
from toolyard.insight.embeddings.vectors import EmbeddingsEnrichment
from toolyard.insight.neighbors import NeighborsEnrichment
from toolyard.insight.outputs.enrichment import OutputParametersEnrichment
from toolyard.model.tool import Tool

SCHEMA = {"type": "object", "properties": {"user_id": {"type": "string"}}}
TOOLS = tuple(
    Tool(f"tool_{number}", "ns", f"Does {number}.", {"properties": {"a": {"type": "string"}}}) for number in range(20)
)
ARRAYS = {"scores": np.arange(12, dtype=np.float32).reshape(3, 4), "places": np.array([3, 1, 2])}


def test_arrays_come_back_as_they_were_read_only(tmp_path):
    key = hash_catalog(TOOLS, "x")
    assert read_arrays(ItemCache(tmp_path), "kind", key) is None
    store_arrays(ItemCache(tmp_path), "kind", key, ARRAYS)
    found = read_arrays(ItemCache(tmp_path), "kind", key)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
        assert not found[name].flags.writeable


def test_kinds_and_keys_are_kept_apart(tmp_path):
    cache = ItemCache(tmp_path)
    store_arrays(cache, "kind", hash_catalog(TOOLS, "x"), ARRAYS)
    assert read_arrays(cache, "other", hash_catalog(TOOLS, "x")) is None
    assert read_arrays(cache, "kind", hash_catalog(TOOLS, "y")) is None


@pytest.mark.parametrize("spoil", [lambda kept: b"", lambda kept: b"rubbish" * 20, lambda kept: kept[:-24], None])
def test_damaged_arrays_are_not_returned_and_can_be_stored_again(tmp_path, spoil):
    cache = ItemCache(tmp_path)
    store_arrays(cache, "kind", b"k", ARRAYS)
    with sqlite3.connect(tmp_path / FILE) as db:
        (kept,) = db.execute("SELECT value FROM items").fetchone()
        at = kept.index(ARRAYS["scores"].tobytes())
        db.execute(
            "UPDATE items SET value = ?", (kept[:at] + b"\7" + kept[at + 1 :] if spoil is None else spoil(kept),)
        )
    db.close()
    assert read_arrays(cache, "kind", b"k") is None
    store_arrays(cache, "kind", b"k", ARRAYS)
    assert np.array_equal(read_arrays(cache, "kind", b"k")["scores"], ARRAYS["scores"])


def test_python_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match="Python objects"):
        store_arrays(ItemCache(tmp_path), "kind", b"k", {"a": np.array([{"a": 1}], dtype=object)})


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda name: name != "file"),
        arrays(
            st.sampled_from([np.int32, np.float32, np.float64, np.uint8, np.bool_]),
            array_shapes(min_dims=0, min_side=0),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_arrays_come_back(tmp_path_factory, given_arrays):
    cache = ItemCache(tmp_path_factory.mktemp("store"))
    store_arrays(cache, "kind", b"k", given_arrays)
    found = read_arrays(cache, "kind", b"k")
    assert found.keys() == given_arrays.keys()
    for name, array in given_arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_beyond_the_limit_the_oldest_arrays_of_the_kind_are_deleted(tmp_path):
    cache = ItemCache(tmp_path)
    block = {"a": np.zeros(1000, np.float32)}
    store_arrays(cache, "other", b"1", block)
    for key in (b"1", b"2", b"3", b"4"):
        store_arrays(cache, "kind", key, block, limit=3 * 4400)
    assert [key for key in (b"1", b"2", b"3", b"4") if read_arrays(cache, "kind", key)] == [b"2", b"3", b"4"]
    assert read_arrays(cache, "other", b"1")


def test_arrays_larger_than_the_limit_are_not_stored(tmp_path):
    cache = ItemCache(tmp_path)
    store_arrays(cache, "kind", b"small", {"a": np.zeros(100, np.uint8)}, limit=1000)
    store_arrays(cache, "kind", b"large", {"a": np.zeros(2000, np.uint8)}, limit=1000)
    assert read_arrays(cache, "kind", b"large") is None
    assert read_arrays(cache, "kind", b"small") is not None


def test_many_writers_of_one_key_leave_one_whole_set(tmp_path):
    cache = ItemCache(tmp_path)
    threads = [threading.Thread(target=store_arrays, args=(cache, "kind", b"k", ARRAYS)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(read_arrays(cache, "kind", b"k")["scores"], ARRAYS["scores"])


def test_without_a_folder_nothing_is_stored(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    for cache in (ItemCache(False), ItemCache(taken)):
        store_arrays(cache, "kind", b"k", ARRAYS)
        assert read_arrays(cache, "kind", b"k") is None


def _catalog(folder, *descriptions, outputs=True):
    """A catalog with a tool for each description."""
    answer = SCHEMA if outputs else {}
    entries = [
        {"name": f"tool_{number}", "description": text, "parameters": SCHEMA, "output_parameters": answer}
        for number, text in enumerate(descriptions)
    ]
    path = folder / "tools.json"
    path.write_text(json.dumps(entries))
    return path


def _start(path, folder):
    kinds = (EmbeddingsEnrichment, DataflowEnrichment, NeighborsEnrichment)
    models = [HashEmbedder() for _ in kinds]
    registry = ToolRegistry.from_file(path)
    registry.enrich(OutputParametersEnrichment(cache=folder))
    registry.enrich(*(kind(model=model, cache=folder) for kind, model in zip(kinds, models, strict=True)))
    return registry.artifacts, sum(len(model.texts) for model in models)


@pytest.mark.parametrize("outputs", [True, False])
def test_a_warm_start_finds_the_same_and_embeds_nothing(tmp_path, outputs):
    path = _catalog(
        tmp_path, *(f"FixedArtifacts the user of number {number}." for number in range(30)), outputs=outputs
    )
    (one, embedded), (other, again) = (_start(path, tmp_path) for _ in range(2))
    assert embedded > 0 and again == 0
    assert one["neighbors"].rows.places.tolist() == other["neighbors"].rows.places.tolist()
    assert np.array_equal(one["embeddings"].matrix, other["embeddings"].matrix)
    for before, after in zip(one["dataflow"].arrays, other["dataflow"].arrays, strict=True):
        assert np.array_equal(before, after)
    assert [file.name for file in tmp_path.iterdir() if file.is_dir()] == []


def test_arrays_of_an_older_version_are_left_alone(tmp_path):
    path = _catalog(tmp_path, "FixedArtifacts the user.")
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "dataflow-00").write_bytes(b"toolyard" + bytes(80))
    _start(path, tmp_path)
    assert [file.name for file in (tmp_path / "arrays").iterdir()] == ["dataflow-00"]


CHANGES = [
    {"name": "renamed"},
    {"namespace": "moved"},
    {"description": "Does something else."},
    {"parameters": {"properties": {"a": {"type": "integer"}}}},
    {"output_parameters": {"properties": {"b": {}}}},
]


@given(st.integers(0, len(TOOLS) - 1), st.sampled_from(CHANGES))
def test_any_change_of_a_definition_is_another_key(place, change):
    changed = [*TOOLS[:place], TOOLS[place].replace(**change), *TOOLS[place + 1 :]]
    assert hash_catalog(changed) != hash_catalog(TOOLS)


@given(st.integers(0, len(TOOLS) - 1), st.sampled_from([{"metadata": {"x": 1}}, {"tags": ("t",)}, {"source": "s"}]))
def test_what_is_not_part_of_a_definition_is_not_part_of_the_key(place, change):
    changed = [*TOOLS[:place], TOOLS[place].replace(**change), *TOOLS[place + 1 :]]
    assert hash_catalog(changed) == hash_catalog(TOOLS)


def test_order_number_and_parts_matter():
    assert hash_catalog(TOOLS[::-1]) != hash_catalog(TOOLS)
    assert hash_catalog(TOOLS[:-1]) != hash_catalog(TOOLS)
    assert hash_catalog(TOOLS, "a") != hash_catalog(TOOLS, "b") != hash_catalog(TOOLS)
    assert hash_catalog(()) == hash_catalog([])


def test_equal_definitions_have_equal_keys_in_any_process_and_container():
    copies = [tool.replace() for tool in TOOLS]
    assert hash_catalog(copies, "a", 1) == hash_catalog(TOOLS, "a", 1)


def test_a_description_with_a_lone_surrogate_has_a_key():
    odd = TOOLS[0].replace(description="\ud83d")
    assert hash_catalog([odd]) == hash_catalog([odd.replace()]) != hash_catalog(TOOLS[:1])
