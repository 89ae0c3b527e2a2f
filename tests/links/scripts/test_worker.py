import asyncio
import os
import time

import pytest
from hypothesis import given, strategies as st

from toolyard.links.scripts.inside import serving as inside
from toolyard.links.scripts.worker import (
    FrameReader,
    InvalidFrame,
    Worker,
    WorkerEnd,
    WorkerExchange,
    WorkerReply,
    encode_frame,
)
from toolyard.schema.common_options import WorkerSettings

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(body=st.binary(max_size=500), cuts=st.lists(st.integers(1, 200), max_size=20))
def test_a_frame_is_read_however_it_is_cut(body, cuts):
    data, reader = encode_frame(body), FrameReader(500)
    got = []
    for size in [*cuts, len(data)]:
        piece, data = data[:size], data[size:]
        if piece:
            got.append(reader.feed(piece))
    assert got[-1] == body
    assert got[:-1] == [None] * (len(got) - 1)


@given(body=st.binary(max_size=100), more=st.binary(min_size=1, max_size=50), cut=st.integers(1, 200))
def test_more_than_one_frame_is_refused_however_it_is_cut(body, more, cut):
    data, reader = encode_frame(body) + more, FrameReader(500)
    with pytest.raises(InvalidFrame):
        first = reader.feed(data[:cut])
        assert first in (None, body)
        # A whole frame may have been seen before the rest arrived; then the rest is the start of another.
        if first is None and data[cut:]:
            reader.feed(data[cut:])
        raise InvalidFrame


@given(size=st.integers(101, 2**32 - 1))
def test_a_frame_over_the_limit_is_refused_before_it_is_there(size):
    with pytest.raises(InvalidFrame, match=str(size)):
        FrameReader(100).feed(size.to_bytes(4, "big"))


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(1, 50), max_size=10))
def test_garbage_is_a_frame_nothing_or_refused_and_never_kept_beyond_the_limit(data, cuts):
    reader = FrameReader(100)
    try:
        for size in [*cuts, 300]:
            piece, data = data[:size], data[size:]
            reader.feed(piece)
    except InvalidFrame:
        return
    assert len(reader._data) <= 104


@given(value=json_values)
def test_the_child_reads_back_what_it_writes(value):
    reader, writer = os.pipe()
    try:
        inside.write_frame(writer, inside.encode({"value": value}).encode("utf-8", "surrogatepass")[:60000])
        os.close(writer)
        writer = -1
        assert inside.read_frame(reader) == {"value": value}
        assert inside.read_frame(reader) is None
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def test_the_quick_encoder_refuses_what_json_does_not_know():
    circle: list = []
    circle.append(circle)
    for value in (float("nan"), float("inf"), object(), {1, 2}, circle):
        with pytest.raises((TypeError, ValueError, RecursionError)):
            inside.encode(value)
    assert inside.encode([circle[:0], "ü"]) == '[[],"ü"]'


async def test_a_reply_that_came_in_time_counts_although_the_loop_was_busy_past_the_deadline():
    loop, pipes = asyncio.get_running_loop(), [os.pipe() for _ in range(4)]
    (theirs, ours), *to_us = pipes
    worker = Worker("busy", [ours, *(reader for reader, _ in to_us)], lambda worker: WorkerEnd())

    def reply_and_stay_busy():
        os.write(to_us[0][1], encode_frame(b"{}"))
        time.sleep(0.1)

    loop.call_soon(reply_and_stay_busy)
    assert await WorkerExchange(worker, WorkerSettings()).wait_async(loop.time() + 0.05) == WorkerReply()
    worker.close()
    for fd in (theirs, *(writer for _, writer in to_us)):
        os.close(fd)
