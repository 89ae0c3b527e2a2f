"""A browser, what audits pages in it, and clients that behave as a browser does."""

from contextlib import ExitStack

import httpx
import pytest
from browsing import started
from mcp_rig import install
from mcp_rig.real_servers import needed

from conftest import SOAK
from serving.console.browser_support import WINDOWS, opened


@pytest.fixture(scope="module")
def browser():
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def shared_page(browser):
    """For tests one after another: a page of its own costs each a process of the browser."""
    with opened(browser) as page:
        yield page


# What sticks out of a wide window sticks out of a narrow one, too.
@pytest.fixture(params=WINDOWS if SOAK else ["phone"])
def page(shared_page, request):
    """An empty page that knows no cookie and no problem; the console keeps nothing else in a browser."""
    width, height = WINDOWS[request.param]
    shared_page.set_viewport_size({"width": width, "height": height})
    yield shared_page
    shared_page.goto("about:blank")
    shared_page.emulate_media(color_scheme="null", reduced_motion="null")
    shared_page.context.clear_cookies()
    shared_page.problems.clear()


@pytest.fixture(scope="module")
def axe():
    return needed(install.axe).read_text()


@pytest.fixture
def browse():
    """Makes a client of a running server: it says where its forms come from, and keeps cookies.

    Without TLS there is nothing to verify, and to read the authorities of this machine takes longer than most tests.
    """
    with ExitStack() as stack:

        def make(server):
            return stack.enter_context(httpx.Client(verify=False, base_url=server.url, headers={"origin": server.url}))

        yield make
