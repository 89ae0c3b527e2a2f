"""`HttpFault`: a request that is refused, and the one envelope every refusal travels in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolyard.model.errors import ApprovalError, DefinitionError, SessionError

Headers = Sequence[tuple[bytes, bytes]]

ARP_PLACE = "ARP v1 is served under /arp: add that to the base URL of the client"


class HttpFault(Exception):
    """Ends a request with a status and `{"error": {code, message, retryable, ...}}`. Never an error of a tool call.

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

    def envelope(self) -> dict[str, Any]:
        """The body; fields that say nothing are left out, since neither wire allows null for them.

        A hint travels among the details: ARP allows no other field in an error.
        """
        error: dict[str, Any] = {"code": self.code, "message": self.message, "retryable": self.retryable}
        details = self.details if self.hint is None else {**self.details, "hint": self.hint}
        if details:
            error["details"] = details
        return {"error": error}


def make_overloaded(message: str, retry_after: int, details: dict[str, Any] | None = None) -> HttpFault:
    """For a client that has too much of something; it may try again after so many seconds."""
    return HttpFault(429, "server.overloaded", message, details=details, retry_after=retry_after)


def refuse_cursor() -> HttpFault:
    """For a cursor that the list did not give, or gave for other filters."""
    words = "cursor is not one of this list: give next_cursor of the page before, with the same filters"
    return HttpFault(400, "request.invalid_query", words)


def find_session_fault(error: BaseException) -> HttpFault | None:
    """How an error of sessions, definitions or approvals is told over HTTP; None for any other error."""
    if isinstance(error, SessionError | DefinitionError | ApprovalError):
        return HttpFault(error.http_status, error.code, str(error), retryable=error.retryable)
    return None
