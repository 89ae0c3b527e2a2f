"""Which of several recordings of a call comes next, by what a session has seen before."""

import pytest

from engines.engine_support import call
from engines.replay.support import MATCHES, counting, recorded, replayed, told
from toolyard import Denied, PythonToolEngine, ReplayToolEngine
from toolyard.engines.cassette import Cassette
from toolyard.model.errors import InvalidArguments, NoEngine


@pytest.mark.parametrize("match", MATCHES)
@pytest.mark.parametrize("kind", [Denied, NoEngine])
def test_a_refusal_that_was_recorded_takes_its_place_in_the_order(tape, match, kind):
    calls = [call("look")] * 3
    live = recorded(tape, counting(kind("no entry")), calls)
    assert told(live) == ["no entry", {"number": 2}, {"number": 3}]
    assert told(replayed(tape, counting(), calls, match=match)) == told(live)


@pytest.mark.parametrize("match", MATCHES)
def test_a_refusal_of_this_side_takes_no_place(tape, match):
    registry = counting()
    live = recorded(tape, registry, [call("look")] * 2)
    refused = call("look", place=["no", "text"])
    results = replayed(tape, registry, [call("look"), refused, call("look")], match=match)
    assert results[1].error_info.code == InvalidArguments.code
    assert [results[0].result, results[2].result] == [result.result for result in live]


@pytest.mark.parametrize("match", MATCHES)
def test_a_simulation_gives_way_to_what_was_executed_after_it(tape, match):
    registry = counting()
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        engine.simulate("s", [call("look")])
        live = engine.execute("s", [call("look")] * 2)
    with ReplayToolEngine(registry, cassette=tape, match=match) as engine:
        engine.setup("s")
        assert told(engine.simulate("s", [call("look")])) == [{"number": 2}]
        assert told(engine.execute("s", [call("look")] * 2)) == told(live) == [{"number": 2}, {"number": 3}]
        assert engine.drift().ok


@pytest.mark.parametrize("match", MATCHES)
def test_a_simulation_is_played_where_nothing_was_executed(tape, match):
    registry = counting()
    with ReplayToolEngine(registry, cassette=tape, mode="record", engine=PythonToolEngine(registry)) as engine:
        engine.setup("s")
        live = engine.simulate("s", [call("look")])
    assert [item.simulated for item in Cassette.load(tape).recordings] == [True]
    with ReplayToolEngine(registry, cassette=tape, match=match) as engine:
        engine.setup("s")
        assert told(engine.simulate("s", [call("look")])) == told(live) == [{"number": 1}]
