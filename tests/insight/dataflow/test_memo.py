"""Things are worked out once, and never too many of them are kept."""

from toolyard.insight.dataflow.memo import forget, remembered


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


def test_when_there_are_too_many_it_begins_again():
    double, asked = counting(3)
    assert [double(number) for number in (1, 2, 3, 1, 4, 1)] == [2, 4, 6, 2, 8, 2]
    assert asked == [1, 2, 3, 4, 1]


def test_all_is_worked_out_anew_once_it_is_forgotten():
    double, asked = counting(3)
    double(1)
    forget()
    assert double(1) == 2
    assert asked == [1, 1]
