"""The site as readers have it: built from the pages, served by any file server, in a browser that reaches nobody else."""

import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browsing import launch_browser
from waiting import until

from conftest import SOAK

from .pages import ROOT

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run([zensical, "build", "--clean"], cwd=folder, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "Build finished" in said, said[-2000:]
    assert "No issues found" in said, said[-4000:]
    return folder / "site"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_):
        """Nobody reads it."""


@pytest.fixture(scope="module")
def url(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(url):
    """For all tests: a page of its own costs each a process of the browser."""
    with launch_browser() as browser:
        page = browser.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.problems.append(request.url) if url not in request.url else None)
        yield page


def test_every_page_is_in_the_navigation_and_no_link_is_broken(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("*.md")} <= named
    broken = []
    for name in pages:
        # A README of a folder is its index.
        path = site / name.with_name("index.html") if name.name == "README.html" else site / name
        text = path.read_text()
        for link in re.findall(r'<a[^>]* href="([^"#?:]*)(?:#([^"]*))?"', text):
            target = (path.parent / link[0]).resolve() if link[0] else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists() or (link[1] and f'id="{link[1]}"' not in target.read_text()):
                broken.append((str(name), link))
    assert broken == []


def test_search_asks_nobody_else(url, page):
    page.goto(f"{url}/index.html")
    page.wait_for_load_state("networkidle")
    field = page.get_by_placeholder("Search").first
    until(lambda: page.keyboard.press("Control+k") or field.is_visible())
    field.fill("fork at any entry")
    page.get_by_text("results").first.wait_for()
    # The number of results is shown before the first of them can be chosen.
    until(lambda: page.keyboard.press("Enter") or "/sessions.html" in page.url)
    assert page.problems == []


# What sticks out of a wide window sticks out of a narrow one, too; that there is more beside it is so on every page.
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        *((name, 390, "light") for name in ("index", "tutorial", "errors", "python-api") if SOAK or name == "index"),
        ("configuration", 390, "light"),
        ("configuration", 1280, "dark"),
    ],
)
def test_a_page_fits_its_window_and_asks_nobody_else(url, page, name, width, scheme):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{url}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").first.inner_text()
    assert page.problems == []
