"""Boxes side by side."""

from hypothesis import given, strategies as st

from toolyard.insight.graph.pack import pack

SIZES = st.lists(st.tuples(st.floats(20, 900), st.floats(20, 900)), max_size=40)


@given(SIZES, st.data())
def test_no_two_boxes_overlap_and_all_are_on_the_page(sizes, data):
    number = st.integers(0, max(len(sizes) - 1, 0))
    ties = data.draw(
        st.dictionaries(st.tuples(number, number).filter(lambda pair: pair[0] < pair[1]), st.integers(1, 9))
    )
    corners = pack(sizes, ties if sizes else {}, 10)
    assert len(corners) == len(sizes)
    rectangles = [(x, y, x + w, y + h) for (x, y), (w, h) in zip(corners, sizes, strict=True)]
    assert all(left >= -1e-6 and top >= -1e-6 for left, top, _, _ in rectangles)
    for at, one in enumerate(rectangles):
        for other in rectangles[:at]:
            apart = max(one[0] - other[2], other[0] - one[2], one[1] - other[3], other[1] - one[3])
            assert apart >= 10 - 1e-3


def test_the_page_is_well_filled():
    sizes = [(200 + 37 * (n % 7), 100 + 53 * (n % 5)) for n in range(60)]
    corners = pack(sizes, {}, 0)
    width = max(x + w for (x, _), (w, _) in zip(corners, sizes, strict=True))
    height = max(y + h for (_, y), (_, h) in zip(corners, sizes, strict=True))
    assert sum(w * h for w, h in sizes) / (width * height) > 0.75
    assert 1 < width / height < 2.4


def test_a_box_stands_nearer_to_the_one_it_belongs_to():
    sizes = [(1200, 310), *[(300, 300)] * 4, (100, 100)]
    for friend in (1, 2, 3, 4):
        corners = pack(sizes, {(friend, 5): 5}, 0)
        away = [abs(corners[box][0] + 150 - corners[5][0] - 50) for box in (1, 2, 3, 4)]
        assert away[friend - 1] == min(away)
