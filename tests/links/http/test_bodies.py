"""Bodies are decoded, and events read, the same however their bytes are cut; no more of them is kept than allowed."""

import contextlib
import gzip
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from toolyard.links.http.bodies import (
    MANY_CHUNKS,
    MAX_MEMBERS,
    DecodedBody,
    EventReader,
    FragmentedBodyError,
    TooLargeError,
    TruncatedError,
    UndecodableError,
)
from toolyard.links.mcp.framing import guess_id

MIB = 1 << 20


def raw_deflate(data):
    maker = zlib.compressobj(wbits=-15)
    return maker.compress(data) + maker.flush()


ENCODERS = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "X-GZIP ": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
}


def decode(data, encoding, limit=MIB, step=7):
    body = DecodedBody(limit, encoding)
    for at in range(0, len(data), step):
        body.add(data[at : at + step])
    return body.finish()


@given(st.binary(max_size=2000), st.sampled_from(sorted(ENCODERS)), st.integers(1, 300))
def test_a_body_is_decoded_the_same_however_it_is_split(data, encoding, step):
    assert decode(ENCODERS[encoding](data), encoding, step=step) == data


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=6), st.integers(0, 9), st.integers(1, 300))
def test_several_gzip_members_and_padding_are_one_body(parts, zeros, step):
    data = b"".join(gzip.compress(part) for part in parts) + b"\0" * zeros
    assert decode(data, "gzip", step=step) == b"".join(parts)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "Deflate"])
def test_a_body_that_ends_early_is_truncated(encoding):
    data = ENCODERS[encoding](bytes(range(256)) * 10)
    for cut in (1, 2, len(data) // 2, len(data) - 1):
        with pytest.raises(TruncatedError):
            decode(data[:cut], encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_no_bytes_at_all_are_an_empty_body(encoding):
    assert decode(b"", encoding) == b""


@given(st.binary(min_size=1, max_size=200), st.sampled_from(["gzip", "deflate"]))
def test_garbage_is_decoded_or_refused(data, encoding):
    with contextlib.suppress(TruncatedError, UndecodableError, TooLargeError):
        assert len(decode(data, encoding, limit=10_000)) <= 10_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip,deflate", "compress", "chunked", "\u00e4"])
def test_other_encodings_are_refused(encoding):
    with pytest.raises(UndecodableError):
        DecodedBody(MIB, encoding)


@pytest.mark.parametrize(("encoding", "tail"), [("gzip", b"tail"), ("deflate", b"t"), ("Deflate", b"\0")])
def test_data_after_the_compressed_stream_is_refused(encoding, tail):
    with pytest.raises(UndecodableError):
        decode(ENCODERS[encoding](b"body") + tail, encoding)


@pytest.mark.parametrize("encoding", sorted(ENCODERS))
def test_the_limit_is_exact(encoding):
    data = b"x" * 1000
    limit = max(1000, len(ENCODERS[encoding](data)))
    assert decode(ENCODERS[encoding](data), encoding, limit=limit) == data
    with pytest.raises(TooLargeError):
        decode(ENCODERS[encoding](b"x" * (limit + 1)), encoding, limit=limit)


def test_a_bomb_is_cut_while_it_is_small():
    maker = zlib.compressobj(1, wbits=31)
    bomb = b"".join(maker.compress(bytes(MIB)) for _ in range(50)) + maker.flush()
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            decode(bomb, "gzip", limit=2 * MIB, step=65536)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_endless_empty_members_are_refused():
    with pytest.raises(UndecodableError):
        decode(gzip.compress(b"") * (MAX_MEMBERS + 1), "gzip", step=65536)


def test_many_small_pieces_are_refused_before_they_cost_much():
    body = DecodedBody(MIB)
    with pytest.raises(FragmentedBodyError):
        for _ in range(MANY_CHUNKS + 1):
            body.add(b"ab")


def test_a_few_small_pieces_or_many_large_ones_are_fine():
    body = DecodedBody(4 * MIB)
    for piece in (b"x" * 200, b"ab"):
        for _ in range(MANY_CHUNKS):
            body.add(piece)
    assert len(body.finish()) == MANY_CHUNKS * 202


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
