"""Arrays of a whole set of tools: whole or not there, found by everything that matters, bounded."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from toolyard.insight.arrays import ArrayStore, set_key
from toolyard.model.tool import Tool

TOOLS = tuple(
    Tool(f"tool_{number}", "ns", f"Does {number}.", {"properties": {"a": {"type": "string"}}}) for number in range(20)
)
ARRAYS = {"scores": np.arange(12, dtype=np.float32).reshape(3, 4), "places": np.array([3, 1, 2])}


def test_arrays_come_back_as_they_were_read_only(tmp_path):
    store = ArrayStore(tmp_path)
    key = set_key(TOOLS, "x")
    assert store.get("kind", key) is None
    put = store.put("kind", key, ARRAYS)
    found = ArrayStore(tmp_path).get("kind", key)
    assert found is not None
    for both in (put, found):
        assert both.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert type(both[name]) is np.ndarray
            assert both[name].dtype == array.dtype
            assert np.array_equal(both[name], array)
            assert not both[name].flags.writeable


def test_kinds_and_keys_are_kept_apart(tmp_path):
    store = ArrayStore(tmp_path)
    store.put("kind", set_key(TOOLS, "x"), ARRAYS)
    assert store.get("other", set_key(TOOLS, "x")) is None
    assert store.get("kind", set_key(TOOLS, "y")) is None


def test_empty_arrays_are_kept_too(tmp_path):
    store = ArrayStore(tmp_path)
    store.put("kind", b"k", {"none": np.empty((0, 4), np.float32)})
    found = store.get("kind", b"k")
    assert found is not None
    assert found["none"].shape == (0, 4)


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"rubbish" * 20, b"toolyard" + b"\xff" * 60, None])
def test_arrays_that_are_not_whole_are_not_found_and_can_be_put_again(tmp_path, damage):
    store = ArrayStore(tmp_path)
    store.put("kind", b"k", ARRAYS)
    file = next((tmp_path / "arrays").iterdir())
    file.write_bytes(file.read_bytes()[:-24] if damage is None else damage)
    assert store.get("kind", b"k") is None
    assert np.array_equal(store.put("kind", b"k", ARRAYS)["scores"], ARRAYS["scores"])
    assert store.get("kind", b"k") is not None


def test_python_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match="Python objects"):
        ArrayStore(tmp_path).put("kind", b"k", {"a": np.array([{"a": 1}], dtype=object)})


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8),
        arrays(
            st.sampled_from([np.int32, np.float32, np.float64, np.uint8, np.bool_]),
            array_shapes(min_dims=0, min_side=0),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_arrays_come_back(tmp_path_factory, given_arrays):
    store = ArrayStore(tmp_path_factory.mktemp("store"))
    store.put("kind", b"k", given_arrays)
    found = store.get("kind", b"k")
    assert found.keys() == given_arrays.keys()
    for name, array in given_arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_beyond_its_limit_what_was_not_used_for_longest_goes(tmp_path):
    store = ArrayStore(tmp_path, limit=3 * 4200)
    block = {"a": np.zeros(1000, np.float32)}
    for moment, key in enumerate((b"1", b"2", b"3")):
        store.put("kind", key, block)
        os.utime(store._place("kind", key), (moment, moment))
    assert store.get("kind", b"1") is not None  # used, so the second is the oldest now
    store.put("kind", b"4", block)
    assert [key for key in (b"1", b"2", b"3", b"4") if store.get("kind", key) is not None] == [b"1", b"3", b"4"]


def test_what_is_mapped_stays_readable_after_it_was_removed(tmp_path):
    store = ArrayStore(tmp_path, limit=sum(array.nbytes for array in ARRAYS.values()))
    held = store.put("kind", b"1", ARRAYS)
    store.put("kind", b"2", ARRAYS)
    assert store.get("kind", b"1") is None
    assert np.array_equal(held["scores"], ARRAYS["scores"])


def test_what_is_larger_than_the_limit_is_not_kept_and_costs_others_nothing(tmp_path):
    store = ArrayStore(tmp_path, limit=1000)
    store.put("kind", b"small", {"a": np.zeros(100, np.uint8)})
    assert store.put("kind", b"large", {"a": np.zeros(2000, np.uint8)})["a"].nbytes == 2000
    assert store.get("kind", b"large") is None
    assert store.get("kind", b"small") is not None


def test_a_folder_in_the_place_of_arrays_makes_way(tmp_path):
    store = ArrayStore(tmp_path)
    place = store._place("kind", b"k")
    (place / "inside").mkdir(parents=True)
    assert store.get("kind", b"k") is None
    store.put("kind", b"k", ARRAYS)
    assert np.array_equal(store.get("kind", b"k")["scores"], ARRAYS["scores"])
    assert list((tmp_path / "arrays").iterdir()) == [place]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_arrays_of_somebody_else_are_read_and_left_alone(tmp_path):
    store = ArrayStore(tmp_path)
    store.put("kind", b"k", ARRAYS)
    place = store._place("kind", b"k")
    place.chmod(0o444)
    # Every folder on the way must let others through.
    for folder in (place.parent, *place.parent.parents):
        if folder.stat().st_uid == 0 and len(folder.parts) > 2:
            folder.chmod(folder.stat().st_mode | 0o755)
    pid = os.fork()
    if pid == 0:
        found = None
        try:
            os.setuid(65534)
            found = store.get("kind", b"k")
        finally:
            os._exit(0 if found is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert place.exists()


def test_many_writers_of_one_key_leave_one_whole_set(tmp_path):
    store = ArrayStore(tmp_path)
    threads = [threading.Thread(target=store.put, args=("kind", b"k", ARRAYS)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(store.get("kind", b"k")["scores"], ARRAYS["scores"])
    assert len(list((tmp_path / "arrays").iterdir())) == 1


def test_without_a_place_nothing_is_kept_and_nothing_fails(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    for store in (ArrayStore(False), ArrayStore(taken)):
        assert np.array_equal(store.put("kind", b"k", ARRAYS)["scores"], ARRAYS["scores"])
        assert store.get("kind", b"k") is None


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
    assert set_key(changed) != set_key(TOOLS)


@given(st.integers(0, len(TOOLS) - 1), st.sampled_from([{"metadata": {"x": 1}}, {"tags": ("t",)}, {"source": "s"}]))
def test_what_is_not_part_of_a_definition_is_not_part_of_the_key(place, change):
    changed = [*TOOLS[:place], TOOLS[place].replace(**change), *TOOLS[place + 1 :]]
    assert set_key(changed) == set_key(TOOLS)


def test_order_number_and_parts_matter():
    assert set_key(TOOLS[::-1]) != set_key(TOOLS)
    assert set_key(TOOLS[:-1]) != set_key(TOOLS)
    assert set_key(TOOLS, "a") != set_key(TOOLS, "b") != set_key(TOOLS)
    assert set_key(()) == set_key([])


def test_equal_definitions_have_equal_keys_in_any_process_and_container():
    copies = [tool.replace() for tool in TOOLS]
    assert set_key(copies, "a", 1) == set_key(TOOLS, "a", 1)


def test_a_description_with_half_a_character_has_a_key():
    odd = TOOLS[0].replace(description="\ud83d")
    assert set_key([odd]) == set_key([odd.replace()]) != set_key(TOOLS[:1])
