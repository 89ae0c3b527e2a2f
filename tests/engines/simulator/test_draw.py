"""Tables of 256 values: every value is in them, and every part is like the whole."""

from toolyard.engines.simulator.draw import SIZE, ByteTable, NumberTable, join_tables, mix_examples


def test_rows_hold_every_value_and_keep_numbers_apart_from_flags():
    assert set(ByteTable(["a", "b", "c"]).row) == {"a", "b", "c"}
    assert {type(value) for value in ByteTable([1]).row} == {int}
    assert {type(value) for value in ByteTable([True]).row} == {bool}
    assert {type(value) for value in ByteTable([1.0]).row} == {float}
    assert sorted(set(NumberTable(3, 9).row)) == [3, 4, 5, 6, 7, 8, 9]
    assert all(value % 5 == 0 for value in NumberTable(1, 1000, step=5).row)


def test_every_part_of_a_row_is_like_the_whole():
    mixed = mix_examples(NumberTable(0, 10_000), ["example"]).row
    nulls = join_tables([ByteTable(["a"])], True).row
    assert len(mixed) == len(nulls) == SIZE
    assert 48 <= sum(value == "example" for value in mixed[128:]) <= 80
    assert 12 <= sum(value is None for value in nulls[128:]) <= 20
