"""The time by IANA zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from toolyard.model.errors import ToolFailed
from toolyard.model.names import show

Clock = Callable[[], datetime]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_LONGEST = 64
# Copies of the database that count leap seconds, or not, and files that say what zone this machine is in.
_NO_ZONES = re.compile(r"right/.*|posix/.*|posixrules|localtime")


def utc_now() -> datetime:
    """What the clock of this machine says."""
    return datetime.now(UTC)


def time_in(tz: str | None, clock: Clock) -> dict[str, str]:
    """The zone that was meant, and the time there to the microsecond, with its offset."""
    name = "UTC" if tz is None else tz
    return {"tz": name, "iso": clock().astimezone(_find_zone(name)).isoformat(timespec="microseconds")}


@lru_cache(maxsize=1024)
def _find_zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # known even where no zone database is installed
    if len(name) <= _LONGEST and _NAME.fullmatch(name) and not _NO_ZONES.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass  # no such file, or one that is no zone
    raise ToolFailed(
        f"no time zone is called {show(name)}",
        hint="give a name of the IANA database, in its spelling: UTC, Europe/Berlin, America/New_York",
        effect="none",
    )
