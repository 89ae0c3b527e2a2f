"""Things are worked out once, and never too many of them are kept for the next run."""

from tests.insight.dataflow.yard import TEXT, tool
from toolyard.insight.dataflow import memo
from toolyard.insight.dataflow.compute import compute, limits_of
from toolyard.insight.dataflow.memo import forget, forget_too_many, remembered
from toolyard.insight.dataflow.profile import told_of
from toolyard.insight.dataflow.tokens import token_vectors


def counting(most):
    asked = []

    @remembered(most)
    def double(number):
        asked.append(number)
        return 2 * number

    return double, asked


def test_each_thing_is_worked_out_once():
    double, asked = counting(10)
    assert [double(number) for number in (1, 2, 1, 2, 3)] == [2, 4, 2, 4, 6]
    assert asked == [1, 2, 3]


def test_as_many_as_are_allowed_are_kept_for_the_next_run():
    double, asked = counting(3)
    for number in (1, 2, 3):
        double(number)
    forget_too_many()
    double(2)
    assert asked == [1, 2, 3]


def test_when_there_are_too_many_the_next_run_begins_again():
    double, asked = counting(3)
    for number in (1, 2, 3, 4):
        double(number)
    forget_too_many()
    double(2)
    assert asked == [1, 2, 3, 4, 2]


def test_after_a_run_over_more_names_than_are_kept_they_are_gone(monkeypatch):
    forget()
    monkeypatch.setattr(memo, "_MEMOS", [one._replace(most=5) for one in memo._MEMOS])
    wide = [tool("get_order", takes={f"field_{'x' * number}": TEXT for number in range(1, 8)})]
    told_of(wide[0])
    assert max(one.work.cache_info().currsize for one in memo._MEMOS) > 5
    compute(wide, map(told_of, wide), token_vectors, limits_of(0.5, 10))
    assert max(one.work.cache_info().currsize for one in memo._MEMOS) <= 5


def test_all_is_worked_out_anew_once_it_is_forgotten():
    double, asked = counting(3)
    double(1)
    forget()
    assert double(1) == 2
    assert asked == [1, 1]
