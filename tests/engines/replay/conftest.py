"""Cassettes of both kinds."""

import pytest


@pytest.fixture(params=["tape.jsonl", "tape.yaml"])
def tape(request, tmp_path):
    return tmp_path / request.param
