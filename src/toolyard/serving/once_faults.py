"""What a request with an idempotency key is told when it gets no answer."""

from __future__ import annotations

from toolyard.serving.faults import HttpFault


def conflict() -> HttpFault:
    """The key was used for another request."""
    return HttpFault(
        409,
        "request.conflict",
        "another request was made with this idempotency key",
        hint="repeat a request unchanged, or use a new key for a new one",
    )


def in_progress() -> HttpFault:
    """Another process has been busy with it for long."""
    return HttpFault(
        409,
        "request.in_progress",
        "a request with this idempotency key is still being carried out",
        retryable=True,
        hint="repeat it with the same key to get its answer",
        headers=((b"retry-after", b"1"),),
    )


def stopping() -> HttpFault:
    """It was not begun, or could be begun again without harm."""
    return HttpFault(
        503,
        "server.stopping",
        "the server is stopping; nothing was changed",
        retryable=True,
        headers=((b"retry-after", b"1"),),
    )


def unavailable() -> HttpFault:
    """It was not begun, since that could not have been recorded."""
    return HttpFault(
        503,
        "server.store_unavailable",
        "the store does not answer, so the request was not begun",
        retryable=True,
        headers=((b"retry-after", b"1"),),
    )


def unrecorded() -> HttpFault:
    """It ran, and must not be thought of as if it had not."""
    return HttpFault(
        500,
        "request.unrecorded",
        "the request was carried out, but its answer could not be stored",
        details={"effect": "unknown"},
        hint="repeat it with the same idempotency key only: that gives the answer, and runs nothing again",
    )
