"""Answers whose reader may come back for the rest."""

from toolyard.serving.mcp.event_stream import EventStream, Replays


def test_the_answer_of_a_stream_is_kept_within_bounds():
    replays = Replays(most=3, most_bytes=1000)
    streams = [EventStream(f"r{number}") for number in range(5)]
    for stream in streams:
        replays.add("k", "s", stream)
        stream.put_answer(b"x" * 400)
        replays.settle()
    kept = [stream for stream in streams if replays.find("k", "s", stream.name) is not None]
    assert kept == streams[3:]
    replays.forget("k", "s")
    assert replays.find("k", "s", "r4") is None


def test_whoever_keeps_most_answers_loses_their_own():
    replays = Replays(most=10, most_bytes=2000)
    quiet = EventStream("quiet")
    quiet.put_answer(b"x" * 400)
    replays.add("quiet", "s", quiet)
    for number in range(50):
        stream = EventStream(f"r{number}")
        stream.put_answer(b"x" * 400)
        replays.add("loud", "t", stream)
        replays.settle()
    assert replays.find("quiet", "s", "quiet") is quiet
    assert replays.find("loud", "t", "r49") is not None
    assert replays.find("loud", "t", "r40") is None
