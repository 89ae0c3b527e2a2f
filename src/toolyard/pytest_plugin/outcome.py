"""Whether a test went well: only then does its new cassette take the place of the old one."""

from __future__ import annotations

from collections.abc import Generator

import pytest

_FAILED: pytest.StashKey[bool] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what failed."""
    report = yield
    if report.when != "teardown" and not report.passed:
        item.stash[_FAILED] = True
    return report


def went_well(item: pytest.Item) -> bool:
    """True if nothing of the test has failed or been skipped so far."""
    return not item.stash.get(_FAILED, False)
