"""A document from its address."""

from __future__ import annotations

import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Outgoing
from toolyard.model.errors import CallError, SourceUnavailable

_ACCEPT = ("accept", "application/json, */*;q=0.5")


def fetch(url: str, *, headers: Mapping[str, str], timeout: float, max_bytes: int) -> bytes:
    """What the address answers; `SourceUnavailable` unless that is a document. Redirects stay within its origin."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with GuardedClient(max_bytes=max_bytes) as client:
        request = Outgoing(
            method="GET",
            url=url,
            headers=(*headers.items(), _ACCEPT),
            deadline=time.monotonic() + timeout,
            # The operator wrote this address, so it may be private; what it leads to may not.
            named=(named,),
        )
        try:
            answer = client.send(request)
        except CallError as error:
            raise SourceUnavailable(f"{_show_url(url)}: {error}") from error
    if 300 <= answer.status < 400:
        raise SourceUnavailable(
            f"{_show_url(url)} answers {answer.status}: the document is elsewhere; give that address"
        )
    if answer.status != 200:
        raise SourceUnavailable(f"{_show_url(url)} answers {answer.status} instead of a document")
    return answer.body


def _show_url(url: str) -> str:
    """Without the query, which may hold a key."""
    return url.partition("?")[0]
