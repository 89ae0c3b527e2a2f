"""`paused_gc` nests, overlaps across threads, and gives back the state it found."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from waiting import SOON

from toolyard.parsing import paused_gc


@pytest.fixture(autouse=True)
def collector_running() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_collector_stands_still_inside_and_runs_after() -> None:
    with paused_gc():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_only_the_outermost_block_resumes() -> None:
    with paused_gc():
        with paused_gc():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_inside_resumes_all_the_same() -> None:
    with pytest.raises(ZeroDivisionError), paused_gc():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_process_without_collector_stays_without() -> None:
    gc.disable()
    with paused_gc():
        pass
    assert not gc.isenabled()


def test_overlapping_threads_resume_when_the_last_one_ends() -> None:
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen: list[bool] = []

    def first() -> None:
        with paused_gc():
            first_in.set()
            second_in.wait(SOON)
        first_out.set()

    def second() -> None:
        first_in.wait(SOON)
        with paused_gc():
            second_in.set()
            first_out.wait(SOON)
            seen.append(gc.isenabled())

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [False]
    assert gc.isenabled()


def count_young(built: list[list[int]]) -> int:
    mine = set(map(id, built))
    return sum(id(one) in mine for generation in (0, 1) for one in gc.get_objects(generation))


def test_many_new_objects_move_to_the_oldest_generation_and_few_do_not() -> None:
    gc.unfreeze()
    with paused_gc():
        few = [[number] for number in range(100)]
    assert count_young(few) == 100
    with paused_gc():
        many = [[number] for number in range(60_000)]
    assert count_young(many) == 0
    assert gc.get_freeze_count() == 0, "a cycle among them is found in the end"


def test_objects_frozen_by_the_program_stay_frozen() -> None:
    kept = [[number] for number in range(1000)]
    gc.freeze()
    with paused_gc():
        built = [[number] for number in range(60_000)]
    assert gc.get_freeze_count() >= len(kept)
    assert count_young(built) == len(built)
