"""Lines that come in pieces."""

from hypothesis import given, strategies as st

from toolyard.parsing.lines import LineReader, SkippedLine


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=8), st.data())
def test_lines_are_the_same_however_they_arrive(lines, data):
    most, found = 20, []
    reader = LineReader(most)
    text = b"\n".join(lines)
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += reader.feed(text[:size])
        text = text[size:]
    found += reader.finish()
    shown = [None if isinstance(line, SkippedLine) else line for line in found]
    assert shown == [line if len(line) <= most else None for line in lines if line]


def test_of_a_line_that_is_too_long_both_ends_are_kept():
    reader = LineReader(20)
    (line,) = [line for piece in (b"a" * 300, b"x" * 1000, b"z" * 300, b"\nnext\n") for line in reader.feed(piece)][:1]
    assert (line.head, line.tail) == (b"a" * 256, b"z" * 256)
