"""The nearest vectors: exactly where there are few, nearly always the true ones where there are many."""

import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st

from toolyard.insight.dense import DenseIndex
from toolyard.insight.embedders.base import unit


def vectors_of(count, *, groups=None, width=32, seed=0, spread=0.7):
    """Around `groups` centres, as the vectors of tools are, or without any structure."""
    random = np.random.default_rng(seed)
    noise = unit(random.standard_normal((count, width), np.float32))
    if groups is None:
        return noise
    centres = unit(np.random.default_rng(99).standard_normal((groups, width), np.float32))
    return unit(centres[random.integers(0, groups, count)] + spread * noise)


def exact(vectors, query, k, where=None):
    scores = vectors @ query
    places = np.arange(len(vectors)) if where is None else np.flatnonzero(where)
    return places[np.lexsort((places, -scores[places]))][:k]


def recall(index, vectors, queries, k=5):
    found = [set(index.search(query, k)[0]) & set(exact(vectors, query, k)) for query in queries]
    return sum(map(len, found)) / (k * len(queries))


@given(st.integers(0, 60), st.integers(0, 12), st.integers(0, 5))
def test_few_vectors_are_found_exactly_best_first(count, k, seed):
    vectors = vectors_of(count, seed=seed, width=8) if count else np.empty((0, 8), np.float32)
    query = vectors_of(1, seed=100 + seed, width=8)[0]
    index = DenseIndex(vectors)
    places, scores = index.search(query, k)
    assert index.is_exact
    assert places.tolist() == exact(vectors, query, k).tolist()
    assert np.allclose(scores, (vectors @ query)[places])
    assert (np.diff(scores) <= 0).all()


def test_of_equal_vectors_the_first_are_found():
    same = np.zeros((50, 8), np.float32)
    same[:, 3] = 1
    places, _ = DenseIndex(same).search(same[0], 5)
    assert places.tolist() == [0, 1, 2, 3, 4]


def test_many_vectors_are_sorted_into_cells_and_found():
    vectors = vectors_of(12_000, groups=150)
    index = DenseIndex(vectors, exact_below=5000)
    assert not index.is_exact
    assert index.looked_at < 0.25
    queries = vectors_of(200, groups=150, seed=7)
    assert recall(index, vectors, queries) >= 0.95


def test_vectors_without_structure_are_all_compared():
    vectors = vectors_of(6000, width=64)
    index = DenseIndex(vectors, exact_below=2000)
    queries = vectors_of(30, width=64, seed=5)
    assert recall(index, vectors, queries) == 1
    assert index.looked_at == 1


@pytest.mark.parametrize("step", [1, 250, 1500])
def test_a_grown_index_finds_as_much_as_one_made_at_once(step):
    vectors = vectors_of(9000, groups=100)
    index = DenseIndex(vectors[:6000].copy(), exact_below=3000)
    places = []
    for start in range(6000, 9000 if step > 1 else 6010, step):
        places += index.add(vectors[start : start + step])
    assert places == list(range(6000, len(index)))
    assert np.array_equal(index.vectors, vectors[: len(index)])
    queries = vectors_of(100, groups=100, seed=3)
    assert recall(index, vectors[: len(index)], queries) >= 0.95
    assert index.search(vectors[places[-1]], 1)[0].tolist() == [places[-1]]


def test_an_index_that_begins_empty_grows_past_the_limit():
    vectors = vectors_of(5000, groups=40)
    index = DenseIndex(exact_below=2000)
    for start in range(0, 5000, 500):
        index.add(vectors[start : start + 500])
    assert len(index) == 5000
    assert not index.is_exact
    assert recall(index, vectors, vectors_of(60, groups=40, seed=3)) >= 0.95


def test_the_callers_vectors_are_neither_copied_nor_changed():
    vectors = vectors_of(10)
    vectors.flags.writeable = False
    index = DenseIndex(vectors)
    assert np.shares_memory(index.vectors, vectors)
    index.add(vectors_of(3, seed=4))
    assert np.array_equal(index.vectors[:10], vectors)


@pytest.mark.parametrize("exact_below", [100_000, 1000])
def test_removed_places_are_found_no_more(exact_below):
    vectors = vectors_of(4000, groups=40)
    index = DenseIndex(vectors, exact_below=exact_below)
    query = vectors[17]
    first = index.search(query, 6)[0]
    index.remove(first[:3].tolist())
    assert not set(first[:3].tolist()) & set(index.search(query, 6)[0].tolist())
    index.add(vectors_of(5, groups=40, seed=9))
    assert not set(first[:3].tolist()) & set(index.search(query, 6)[0].tolist())
    assert len(index) == 4005


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("exact_below", [100_000, 1000])
def test_only_what_is_allowed_is_found_and_all_of_it(share, exact_below):
    vectors = vectors_of(4000, groups=40)
    where = np.random.default_rng(3).random(4000) < share
    index = DenseIndex(vectors, exact_below=exact_below)
    for query in vectors_of(20, groups=40, seed=2):
        found = index.search(query, 5, where=where)[0]
        assert where[found].all()
        if share <= 0.1:
            assert found.tolist() == exact(vectors, query, 5, where).tolist()


def test_nothing_allowed_is_nothing_found():
    vectors = vectors_of(10)
    places, scores = DenseIndex(vectors).search(vectors[0], 5, where=np.zeros(10, np.bool_))
    assert len(places) == len(scores) == 0


def test_the_same_vectors_give_the_same_index():
    vectors = vectors_of(5000, groups=50)
    one, other = (DenseIndex(vectors, exact_below=1000) for _ in range(2))
    for query in vectors_of(20, groups=50, seed=1):
        assert one.search(query, 10)[0].tolist() == other.search(query, 10)[0].tolist()


def test_searches_go_on_while_vectors_are_added():
    vectors = vectors_of(6000, groups=50)
    index = DenseIndex(vectors[:1000].copy(), exact_below=2000)
    stop, faults = threading.Event(), []

    def look():
        while not stop.is_set():
            place = index.search(vectors[5], 1)[0]
            if place.tolist() != [5]:
                faults.append(place)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for start in range(1000, 6000, 500):
        index.add(vectors[start : start + 500])
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert len(index) == 6000


def test_several_queries_are_each_answered():
    vectors = vectors_of(50)
    found = DenseIndex(vectors).search_many(vectors[:3], 1)
    assert [places.tolist() for places, _ in found] == [[0], [1], [2]]
