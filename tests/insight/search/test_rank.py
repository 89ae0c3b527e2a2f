"""How sure a search must be of what it offers."""

import pytest

from toolyard.insight.search.rank import FEW, FEW_WORDS, HYBRID_WEIGHTS, LEXICAL_WEIGHTS, MANY, SHORT, floor_of

LONG = FEW_WORDS + 1


def test_the_more_tools_there_are_the_less_sure_the_best_of_them_must_be():
    floors = [floor_of(tools, LONG) for tools in (0, 1, FEW[0], 500, 1000, MANY[0], 100_000)]
    assert floors == sorted(floors, reverse=True)
    assert (floors[0], floors[-1]) == pytest.approx((FEW[1], MANY[1]))


@pytest.mark.parametrize("tools", [1, 1000, 100_000])
def test_a_query_of_which_no_tool_has_a_word_needs_as_sure_a_hit_as_among_few(tools):
    assert floor_of(tools, LONG, wordless=True) == FEW[1]


def test_a_word_or_two_need_a_surer_hit_than_a_whole_task_where_there_are_many_tools_to_have_them_by_chance():
    floors = [floor_of(tools, FEW_WORDS) for tools in (0, FEW[0], 500, 1000, MANY[0], 100_000)]
    assert floors == sorted(floors)
    assert (floors[0], floors[1], floors[-1]) == pytest.approx((FEW[1], FEW[1], SHORT))
    assert all(floor_of(tools, FEW_WORDS) > floor_of(tools, LONG) for tools in (201, 1000, 100_000))


def test_what_abstains_asks_for_more_than_any_floor():
    assert min(HYBRID_WEIGHTS.threshold, LEXICAL_WEIGHTS.threshold) > SHORT
