"""Clients of a served console that behave as a browser does."""

from contextlib import ExitStack

import httpx
import pytest


@pytest.fixture
def browse():
    """Makes a client of a running server: it says where its forms come from, and keeps cookies."""
    with ExitStack() as stack:

        def make(server):
            return stack.enter_context(httpx.Client(base_url=server.url, headers={"origin": server.url}))

        yield make
