"""A browser, accessibility audits, and HTTP clients that behave like a browser."""

from contextlib import ExitStack

import httpx
import pytest
from browsing import launch_browser
from mcp_rig import install
from mcp_rig.real_servers import require_installed

from conftest import SOAK
from serving.console.browser_support import WINDOWS, open_page


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def shared_page(browser):
    """A page that tests share, since each new one costs a browser process."""
    with open_page(browser) as page:
        yield page


# Content that overflows a wide window also overflows a narrow one.
@pytest.fixture(params=WINDOWS if SOAK else ["phone"])
def page(shared_page, request):
    """An empty page without cookies or recorded problems; the console stores nothing else in a browser."""
    width, height = WINDOWS[request.param]
    shared_page.set_viewport_size({"width": width, "height": height})
    yield shared_page
    shared_page.goto("about:blank")
    shared_page.emulate_media(color_scheme="null", reduced_motion="null")
    shared_page.context.clear_cookies()
    shared_page.problems.clear()


@pytest.fixture(scope="module")
def axe():
    return require_installed(install.axe).read_text()


@pytest.fixture
def browse():
    """Creates clients of a running server that send `Origin` with forms and keep cookies.

    There is no TLS to verify, and loading the machine's CA certificates takes longer than most tests.
    """
    with ExitStack() as stack:

        def make(server):
            return stack.enter_context(httpx.Client(verify=False, base_url=server.url, headers={"origin": server.url}))

        yield make
