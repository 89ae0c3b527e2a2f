"""A headless browser for tests of pages."""

import os
import shutil
import subprocess
from contextlib import contextmanager

from playwright.sync_api import expect, sync_playwright

expect.set_options(timeout=30_000)  # as long as the browser itself waits: another process may have the processor


def find_chromium():
    """Path of the browser, installing it if necessary; fails rather than skips if it cannot be installed."""
    if shutil.which("chromium") is None and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "chromium"], check=True)
    found = shutil.which("chromium")
    assert found is not None, "these tests need chromium: apt-get install -y chromium"
    return found


@contextmanager
def launch_browser():
    """A headless browser, closed on exit."""
    with sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
