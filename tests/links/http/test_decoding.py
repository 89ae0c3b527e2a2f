"""Decoding of response bodies, with limits."""

import contextlib
import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given, strategies as st

from toolyard.links.http.decoding import (
    MANY_CHUNKS,
    MAX_MEMBERS,
    DecodedBody,
    FragmentedBodyError,
    TooLargeError,
    TruncatedError,
    UndecodableError,
)

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
