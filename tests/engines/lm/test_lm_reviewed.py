"""What a review found in the lm engine: traces of calls that failed, turns in which nothing was said."""

from calls.call_support import Listener
from links.lm.model_server import ModelServer

from engines.lm.support import GOOD, call, engine_of
from toolyard.calls.tracing import Tracer
from toolyard.engines.lm_answer import Unfit, read_result


def test_the_trace_says_what_was_left_out_even_if_the_model_cannot_be_had():
    kept = Listener()
    options = {"max_history_tokens": 0, "tracer": Tracer([kept])}
    replies = ('{"a": 1}', (400, {}, {"error": "no"}))
    with ModelServer(*replies) as server, engine_of(server, **options) as engine:
        engine.setup("s")
        engine.execute("s", [call("note", text="one")])
        (second,) = engine.execute("s", [call("note", text="two")])
    assert second.error is not None
    notes = kept.events[-1].notes
    assert notes["history"] == {"told": 0, "dropped": 1} and notes["requests"] == 0


def test_an_empty_answer_is_sent_back_as_a_turn_that_says_something():
    with ModelServer("", GOOD) as server, engine_of(server, kind="anthropic") as engine:
        engine.setup("s")
        (result,) = engine.execute("s", [call("get_weather", city="x")])
    assert result.result == {"temp": 21.5, "notes": []}
    assert all(content.strip() for _, content in server.asked[1].messages)


def test_an_answer_of_empty_lines_is_read_in_no_time():
    said = "```json" + "\n" * 200_000 + "x"
    try:
        read_result(said, None, frozenset())
    except Unfit as error:
        assert "not JSON" in str(error)
    else:
        raise AssertionError("that is no result")
