"""What cassettes and calls no longer agree on, told once at the end of the run, whichever process found it."""

from __future__ import annotations

import pytest

DRIFT = "toolyard_drift"
"""The property of a test's report under which its lines travel."""
_SHOWN = 20


class DriftSummary:
    """Collects from reports, which come to the controller also where tests run in other processes."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the lines of a test that is over."""
        if report.when == "teardown":
            lines = [str(value) for name, value in report.user_properties if name == DRIFT]
            if lines:
                self._found[report.nodeid] = lines

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell them."""
        if not self._found:
            return
        terminalreporter.section("toolyard cassettes")
        for nodeid, lines in self._found.items():
            terminalreporter.write_line(nodeid)
            for line in lines[:_SHOWN]:
                terminalreporter.write_line(f"  {line}")
            if len(lines) > _SHOWN:
                terminalreporter.write_line(f"  ... and {len(lines) - _SHOWN} more")
        terminalreporter.write_line("record anew with: pytest --toolyard-record")
