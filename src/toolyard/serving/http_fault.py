"""`HttpFault`: the exception for a refused request, and the error envelope that all refusals share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolyard.model.errors import ApprovalError, DefinitionError, SessionError

Headers = Sequence[tuple[bytes, bytes]]

ARP_PLACE = "ARP v1 is served under /arp: add that to the base URL of the client"


class HttpFault(Exception):
    """Ends a request with a status and `{"error": {code, message, retryable, ...}}`. Not used for failed tool calls.

    `retry_after` is the number of seconds after which the same request may be sent again.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        details: dict[str, Any] | None = None,
        hint: str | None = None,
        headers: Headers = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retryable = retryable or retry_after is not None
        self.details = details or {}
        self.hint = hint
        self.headers = tuple(headers)
        if retry_after is not None:
            self.headers += ((b"retry-after", b"%d" % retry_after),)

    def to_envelope(self) -> dict[str, Any]:
        """Return the response body. Empty fields are left out, since the wires do not allow null for them.

        The hint is put into `details`, because ARP allows no further field in an error.
        """
        error: dict[str, Any] = {"code": self.code, "message": self.message, "retryable": self.retryable}
        details = self.details if self.hint is None else {**self.details, "hint": self.hint}
        if details:
            error["details"] = details
        return {"error": error}


def make_overloaded(message: str, retry_after: int, details: dict[str, Any] | None = None) -> HttpFault:
    """Return the 429 for a server or client over its limits; the client may retry after `retry_after` seconds."""
    return HttpFault(429, "server.overloaded", message, details=details, retry_after=retry_after)


def find_session_fault(error: BaseException) -> HttpFault | None:
    """Return the `HttpFault` for an error of sessions, definitions or approvals; None for any other error."""
    if isinstance(error, SessionError | DefinitionError | ApprovalError):
        return HttpFault(error.http_status, error.code, str(error), retryable=error.retryable)
    return None
