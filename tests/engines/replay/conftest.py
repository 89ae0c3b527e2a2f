"""Cassettes of both kinds."""

import pytest

from conftest import chosen_way, ways_to_try


@pytest.fixture(params=ways_to_try("tape.jsonl", "tape.yaml"))
def tape(request, tmp_path):
    return tmp_path / chosen_way(request)
