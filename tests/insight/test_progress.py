"""A bar for long work, seen only by somebody who sits there."""

import io
import sys

from toolyard.insight import base


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_no_progress_bar_without_a_terminal(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(base, "PROGRESS_DELAY", -1)
    assert list(base.track_progress(range(5), "work", 5)) == [0, 1, 2, 3, 4]
    assert out.getvalue() == ""


def test_short_work_has_no_progress_bar(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(base, "PROGRESS_DELAY", 1000)
    assert list(base.track_progress(range(5), "work", 5)) == [0, 1, 2, 3, 4]
    assert out.getvalue() == ""


def test_long_work_has_a_progress_bar(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(base, "PROGRESS_DELAY", -1)
    assert list(base.track_progress(iter(range(5)), "weaving", 5)) == [0, 1, 2, 3, 4]
    assert "weaving" in out.getvalue()


def test_a_process_without_standard_error_works_too(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(base.track_progress([1], "work", 1)) == [1]
