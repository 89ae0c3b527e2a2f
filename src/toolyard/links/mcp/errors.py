"""What goes wrong between this process and a server, in our words: its name and the reason, no secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from toolyard.links.http.messages import RETRYABLE, status_phrase
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, CallTimeout, Effect, ErrorInfo, Interrupted, ToolFailed, Unavailable
from toolyard.words.redactor import Redactor, find_credentials

_OURS = frozenset({"code", "message", "retryable", "effect"})
_SHOWN = 1000
_LARGEST_CODE = 2**63
_NOT_DONE = frozenset({429, 503})
_REDIRECT = 300
_SERVER_FAULT = 500
_HINTS = {
    401: "the server wants to know who asks: give 'auth' or 'headers' that it accepts",
    403: "the credentials do not allow this, or the server refuses this address",
    404: "is the address right? An MCP server is often at /mcp or /sse",
    405: "is the address right? An MCP server is often at /mcp or /sse",
    421: "the server answers only to other host names; it must be told that this one is its own",
}


class SessionLostError(Exception):
    """The server does not know our session: it did nothing with the request. `fault` is how it said so, if it did."""

    def __init__(self, fault: CallError | None = None) -> None:
        super().__init__("the session is lost")
        self.fault = fault


class RequestRefused(ToolFailed):
    """The server answered with a JSON-RPC error."""

    def __init__(self, message: str, number: int, data: Any, **options: Any) -> None:
        super().__init__(message, **options)
        self.number = number
        self.data = data


def refused(name: str, error: Any, redactor: Redactor) -> CallError:
    """A JSON-RPC error; one of our own making, sent by another toolyard, is that error again."""
    fields = error if isinstance(error, dict) else {}
    data = fields.get("data")
    restored = _restore_error(data)
    if restored is not None:
        return restored
    number = fields.get("code")
    number = number if isinstance(number, int) and abs(number) < _LARGEST_CODE else 0
    said = error if isinstance(error, str) else fields.get("message")
    text = " ".join(redactor.text(said).split())[:_SHOWN] if isinstance(said, str) else ""
    details: dict[str, Any] = {"code": number}
    if data is not None:
        details["data"] = redactor.value(data)
    return RequestRefused(
        f"{name} refused the request ({number}){f': {text}' if text else ''}", number, data, details=details
    )


def _restore_error(data: object) -> CallError | None:
    if isinstance(data, dict) and data.keys() == {"error"}:
        data = data["error"]
    if not isinstance(data, dict) or not data.keys() >= _OURS:
        return None
    try:
        info = ErrorInfo.from_dict(data)
    except msgspec.ValidationError:
        return None
    return CallError.from_info(info)


def status_error(name: str, status: int, said: str, redactor: Redactor) -> CallError:
    """An HTTP status that is no success, with what the server says of it."""
    text = " ".join(redactor.text(said).split())[:_SHOWN]
    message = f"{name} answered {status}{status_phrase(status)}{f': {text}' if text else ''}"
    was_taken = status < _REDIRECT or (status >= _SERVER_FAULT and status not in _NOT_DONE)
    effect: Effect = "unknown" if was_taken else "none"
    details = {"status": status}
    if status in RETRYABLE:
        return Unavailable(message, effect=effect, details=details)
    return ToolFailed(message, effect=effect, hint=_HINTS.get(status), details=details)


def status_of(error: CallError) -> int:
    """The HTTP status that the error is; 0 if it is none."""
    status = error.info.details.get("status")
    return status if isinstance(status, int) else 0


def unreadable(name: str) -> ToolFailed:
    """An answer that is no message."""
    return ToolFailed(f"the answer of {name} is no JSON-RPC message that can be read")


def too_large(name: str, limit: int) -> ToolFailed:
    """An answer over the limit."""
    return ToolFailed(
        f"the answer of {name} is larger than {limit:,} bytes", hint="ask for less, or let the operator allow more"
    )


def late(name: str, seconds: float | None, effect: Effect = "unknown") -> CallTimeout:
    """No answer in time."""
    within = "in time" if seconds is None else f"within {max(seconds, 0.0):{'.2g' if seconds < 10 else '.0f'}} s"
    return CallTimeout(f"{name} did not answer {within}", effect=effect)


def unanswered(name: str, seconds: float) -> CallTimeout:
    """No first answer in the time to connect."""
    return CallTimeout(f"{name} did not answer within {seconds:g} s; connect_timeout gives it longer", effect="none")


def harmless(error: CallError) -> CallError:
    """The same for a call that only reads: whatever came of it, nothing was changed."""
    if error.info.effect != "none":
        retryable = error.info.retryable or isinstance(error, Interrupted)
        error.info = msgspec.structs.replace(error.info, effect="none", retryable=retryable)
    return error


def taken(error: CallError) -> CallError:
    """The same for a call that the server has begun with: nobody knows what came of it."""
    if error.info.effect == "none":
        error.info = msgspec.structs.replace(error.info, effect="unknown")
    return error


def again(error: CallError) -> CallError:
    """A fresh exception of the same facts, for another caller."""
    copy = type(error)(error.info.message) if type(error) is not RequestRefused else ToolFailed(error.info.message)
    copy.info = error.info
    return copy


def unreached(error: CallError) -> CallError:
    """The same for those who want to call: nothing of theirs was done, or even sent."""
    retryable = error.info.retryable
    if isinstance(error, Interrupted | CallTimeout):
        error, retryable = Unavailable(error.info.message), True
    error.info = msgspec.structs.replace(error.info, effect="none", retryable=retryable)
    return error


_OPEN = frozenset(
    {
        *("type", "in", "name", "user", "token_url", "client_id", "client_name", "scopes", "redirect_uri", "store"),
        *("hosts", "in_body"),
    }
)
"""What may be shown of it."""
SECRET_FLAG = re.compile(r"(?i)pass|pwd|secret|token|key|auth|cred|bearer|cookie|header|\bpat\b")
"""Options of a command whose value is one."""
_PLAIN = re.compile(r"[-+]?[\d.]+|true|false|yes|no|on|off", re.IGNORECASE)
_SHORTEST = 6
"""Characters from which a value is worth hiding: shorter ones are found everywhere."""


def secrets_of(server: McpServer) -> tuple[str, ...]:
    """What must be shown nowhere of how a server is reached."""
    found = [value for _, value in _environment(server)]
    found += [*_certain_secrets(server), *(value for _, value in _query(server))]
    for _, value in server.headers:
        found += [value, *value.split(" ")[1:]]
    return tuple(dict.fromkeys(value for value in found if len(value) >= _SHORTEST))


def credentials_of(server: McpServer) -> tuple[str, ...]:
    """Those of them that are credentials, beyond doubt or by their names: what answers must not repeat."""
    named = [*_environment(server), *server.headers, *_query(server)]
    found = [*_certain_secrets(server), *(part for item in named for part in find_credentials(*item))]
    return tuple(dict.fromkeys(found))


def _environment(server: McpServer) -> list[tuple[str, str]]:
    return [(name, value) for name, value in server.env if not _PLAIN.fullmatch(value) and not _is_place(value)]


def _query(server: McpServer) -> list[tuple[str, str]]:
    return [] if server.url is None else parse_qsl(urlsplit(server.url).query)


def _certain_secrets(server: McpServer) -> list[str]:
    found = [held for name, held in server.auth if name not in _OPEN and isinstance(held, str)]
    for flag, value in zip(("", *server.args), server.args, strict=False):
        name, sign, rest = value.partition("=")
        if sign and name.startswith("-") and SECRET_FLAG.search(name):
            found.append(rest)
        elif flag.startswith("-") and "=" not in flag and SECRET_FLAG.search(flag):
            found.append(value)
    return found


def _is_place(value: str) -> bool:
    """A path that is there, or an address without anything secret in it."""
    if "://" in value:
        parts = urlsplit(value)
        return not parts.query and "@" not in value
    try:
        return value.startswith(("/", "./", "../")) and Path(value).parent.is_dir()
    except (OSError, ValueError):
        return False
