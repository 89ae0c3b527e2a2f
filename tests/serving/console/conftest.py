"""A browser, what audits pages in it, and clients that behave as a browser does."""

from contextlib import ExitStack

import httpx
import pytest
from browsing import started
from mcp_rig import install
from mcp_rig.real_servers import needed


@pytest.fixture(scope="module")
def browser():
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def axe():
    return needed(install.axe).read_text()


@pytest.fixture
def browse():
    """Makes a client of a running server: it says where its forms come from, and keeps cookies."""
    with ExitStack() as stack:

        def make(server):
            return stack.enter_context(httpx.Client(base_url=server.url, headers={"origin": server.url}))

        yield make
