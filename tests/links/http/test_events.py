"""Server-sent events are read the same however their bytes are cut; and no more of them is kept than allowed."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from toolyard.links.http.events import EventReader
from toolyard.links.mcp.framing import guess_id

CUTS = st.lists(st.integers(min_value=0, max_value=400), max_size=12)
STREAM = st.lists(
    st.sampled_from(
        [b"data: a", b"data:b", b"data", b"data:", b"data: " + b"x" * 40, b"event: e", b"id: 1", b"id: 2\0", b"id",
         b"retry: 20", b"retry: x", b": comment", b":", b"other: x", b"\xef\xbb\xbf", b"data: \xff", b"", b"", b""]
    ),
    max_size=20,
)  # fmt: skip
ENDS = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=20, max_size=20)


def pieces(data, cuts):
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


def read_events(data, cuts, limit=30):
    reader = EventReader(limit)
    found = [event for piece in pieces(data, cuts) for event in reader.feed(piece)]
    return [(event.name, event.data, event.too_long is not None) for event in found], reader.last_id, reader.retry


@given(STREAM, ENDS, CUTS)
def test_events_are_the_same_however_they_are_cut(lines, ends, cuts):
    data = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    assert read_events(data, cuts) == read_events(data, [])


def plain_events(lines):
    """The standard's own words, line by line."""
    found, data, name, last = [], [], "message", ""
    for line in lines:
        if line == b"":
            if data:
                found.append((name, b"\n".join(data), False))
            data, name = [], "message"
            continue
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            data.append(value)
        elif key == b"event":
            name = value.decode()
        elif key == b"id" and b"\0" not in value:
            last = value.decode()
    return found, last


@given(STREAM)
def test_events_are_those_of_the_standard(lines):
    lines = [line for line in lines if not line.startswith(b"\xef")]
    found, last, _ = read_events(b"".join(line + b"\n" for line in lines), [], limit=10_000)
    assert (found, last) == plain_events(lines)


@given(st.binary(max_size=200), CUTS)
def test_any_bytes_are_read_without_harm(data, cuts):
    assert read_events(data, cuts) == read_events(data, [])


@pytest.mark.parametrize("size", [1, 1000, 70_000])
def test_a_line_over_the_limit_is_kept_by_its_ends_only(size):
    reader = EventReader(1000)
    head, tail = b'data: {"jsonrpc":"2.0","id":7,', b'"id":8}'
    for piece in [head, *[b"x" * size] * (200_000 // size), tail]:
        reader.feed(piece)
        assert len(reader._line) <= 1000 + 8192 + size
    (event,) = reader.feed(b"\n\n")
    assert event.too_long is not None
    assert guess_id(event.too_long.head, b"") == 7
    assert guess_id(b"", event.too_long.tail) == 8
    assert [item.data for item in reader.feed(b"data: next\n\n")] == [b"next"]


def test_a_long_comment_does_not_spoil_the_event_it_is_in():
    reader = EventReader(100)
    reader.feed(b"data: a\n:")
    for _ in range(100):
        reader.feed(b"c" * 1000)
    assert [(event.data, event.too_long) for event in reader.feed(b"\n\n")] == [(b"a", None)]
