"""Answers that are kept: the ones in use stay, and together they never take more than their room."""

from hypothesis import given, strategies as st

from toolyard.serving.kept import Kept
from toolyard.serving.response import Response

ONE, OTHER = object(), object()


def test_those_in_use_stay_when_there_are_too_many():
    kept = Kept(most=3)
    for key in "abc":
        kept.put(ONE, key, Response(body=key.encode()))
    assert kept.get(ONE, "a").body == b"a"
    kept.put(ONE, "d", Response(body=b"d"))
    assert [kept.get(ONE, key) is not None for key in "abcd"] == [True, False, True, True]


def test_another_snapshot_begins_anew():
    kept = Kept()
    kept.put(ONE, "a", Response(body=b"old"))
    assert kept.get(OTHER, "a") is None
    kept.put(OTHER, "b", Response(body=b"new"))
    assert kept.get(ONE, "a") is None and kept.get(OTHER, "a") is None and kept.get(OTHER, "b").body == b"new"


def test_an_answer_that_takes_all_the_room_alone_is_not_kept_and_drives_nothing_out():
    kept = Kept(most_bytes=10)
    kept.put(ONE, "a", Response(body=b"12345"))
    assert kept.put(ONE, "b", Response(body=b"x" * 11)).body == b"x" * 11
    assert kept.get(ONE, "b") is None and kept.get(ONE, "a") is not None


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12), st.booleans()), max_size=60))
def test_what_is_kept_is_what_was_used_last_within_the_room(steps):
    kept, model = Kept(most=3, most_bytes=20), {}
    for key, size, reading in steps:
        if reading:
            found = kept.get(ONE, key)
            assert (None if found is None else len(found.body)) == model.get(key)
            if key in model:
                model[key] = model.pop(key)
            continue
        kept.put(ONE, key, Response(body=b"x" * size))
        model.pop(key, None)
        model[key] = size
        while len(model) > 3 or sum(model.values()) > 20:
            del model[next(iter(model))]
    assert {key: len(answer.body) for key, answer in kept._answers.items()} == model
    assert kept._bytes == sum(model.values())
