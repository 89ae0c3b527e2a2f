"""`Retry-After`, in both its forms."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from toolyard.links.http.messages import retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        (" 1.5 ", 1.5),
        ("999999999999", 86_400.0),
        (format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True), 90.0),
        (format_datetime(datetime.fromtimestamp(NOW - 90, UTC), usegmt=True), 0.0),
        *(
            (text, None)
            for text in ("", "-1", "soon", "nan", "inf", "1e9", "\u0667", "Fri, 99 Foo 2026", "1, 2", "0x10")
        ),
    ],
)
def test_retry_after_is_seconds_or_a_date_or_ignored(text, seconds):
    assert retry_after(text, NOW) == seconds
