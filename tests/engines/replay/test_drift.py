"""What has changed since a cassette was recorded."""

from typing import Annotated

import pytest
from pydantic import Field

from engines.engine_support import call, registry_of
from engines.replay.support import MATCHES, counting, recorded, told
from toolyard import ReplayToolEngine
from toolyard.engines.cassette import Cassette, drift_of


def test_what_was_taken_out_of_arguments_is_no_drift(tape):
    def login(user: str, password: Annotated[str, Field(min_length=12)], token: int = 0) -> dict:
        """Log in."""
        return {"user": user}

    registry = registry_of(login)
    recorded(tape, registry, [call("login", user="ann", password="long enough for it", token=7)])
    assert drift_of(Cassette.load(tape), registry).ok

    def login(user: int, password: Annotated[str, Field(min_length=12)], token: int = 0) -> dict:
        """Log in."""
        return {"user": user}

    drift = drift_of(Cassette.load(tape), registry_of(login))
    assert "/user: must be integer" in drift.arguments_changed[0].reason


@pytest.mark.parametrize("match", MATCHES)
def test_a_recording_by_hand_need_not_know_the_definition(tmp_path, match):
    tape, registry = tmp_path / "tape.yaml", counting()
    tape.write_text('- name: "n::look"\n  arguments: {place: here}\n  result: {number: 7}\n')
    with ReplayToolEngine(registry, cassette=tape, match=match) as engine:
        engine.setup("s")
        assert told(engine.execute("s", [call("look")])) == [{"number": 7}]
        assert engine.drift().ok
    assert drift_of(Cassette.load(tape), registry).ok
